/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "monitor/life.h"
#include "net/json.h"

/* Fresh entropy for the guest's kernel at each renewal. */
#define ENTROPY_BYTES 64u
/* Ephemeral ports: all restored guests would begin with the same one, so each
 * life gets a window of its own. */
#define PORTS_LOW_MIN 20000u
#define PORTS_LOW_N   12000u
#define PORTS_WINDOW  28231u

/* ---- disks ---- */

/* The chain as one nested node, top first: a round trip per layer would cost
 * more than the rest of a restore. no-flush: a guest's fsync survives any
 * process, durability is what a ready snapshot promises. */
static json_t *disk_node(const struct mon_req *q, uint32_t i)
{
	const struct mon_disk *d = &q->disks[i];
	json_t *node = json_object(), *file = json_object(),
	       *cache = json_object();
	char name[32];

	snprintf(name, sizeof(name), "/dev/fdset/%u", i + 1);
	json_set_take(file, "driver", json_string("file"));
	json_set_take(file, "filename", json_string(name));
	json_set_take(file, "locking", json_string("off"));
	snprintf(name, sizeof(name), "d%u", i);
	json_set_take(node, "node-name", json_string(name));
	json_set_take(node, "driver", json_string(d->qcow2 ? "qcow2" : "raw"));
	json_set_take(node, "read-only", json_boolean(!d->writable));
	if (d->writable) {
		json_set_take(cache, "no-flush", json_true());
		json_set_take(node, "cache", json_incref(cache));
	}
	json_decref(cache);
	json_set_take(node, "file", file);
	if (d->qcow2)
		json_set_take(node, "backing",
			      i ? disk_node(q, i - 1) : json_null());
	return node;
}

static void maybe_load(struct life *f);

static void on_attach_step(void *arg, json_t *ret, const struct err *e)
{
	struct life *f = arg;

	(void)ret;
	if (e && f->stage == STAGE_ATTACH)
		life_fail(f, e);
}

static void on_attached(void *arg, json_t *ret, const struct err *e)
{
	struct life *f = arg;

	(void)ret;
	if (f->stage != STAGE_ATTACH)
		return;
	if (e) {
		life_fail(f, e);
		return;
	}
	f->is_attached = true;
	f->times.disk_us = (uint32_t)(now_mono_us() - f->lap_us) | 1u;
	maybe_load(f);
}

/* All commands at once; they run in order, and a failure of any ends the VM. */
static int send_disks(struct life *f, const int *fds)
{
	struct qmp *q = vmlink_qmp(f->vm);
	uint64_t ms = life_left_ms(f);
	json_t *args;
	char top[8];
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < f->req.n_disks; i++) {
		args = json_object();
		json_set_take(args, "fdset-id", json_integer(i + 1));
		r = qmp_call(q, "add-fd", args, fds[i], ms, on_attach_step, f);
	}
	if (r < 0)
		return r;
	args = disk_node(&f->req, f->req.n_disks - 1);
	r = qmp_call(q, "blockdev-add", args, -1, ms, on_attach_step, f);
	if (r < 0)
		return r;
	snprintf(top, sizeof(top), "d%u", f->req.n_disks - 1);
	args = json_object();
	json_set_take(args, "path", json_string("/machine/peripheral/vd0"));
	json_set_take(args, "property", json_string("drive"));
	json_set_take(args, "value", json_string(top));
	return qmp_call(q, "qom-set", args, -1, ms, on_attached, f);
}

void life_fail_code(struct life *f, int r, const char *what)
{
	struct err e = { 0 };

	err_errno(&e, -r, "%s: %s", what, strerror(-r));
	life_fail(f, &e);
}

/* ---- memory and device state ---- */

static void on_mapped(void *arg, const struct shim_rep *rep,
		      const struct err *e)
{
	struct life *f = arg;

	(void)rep;
	if (f->stage != STAGE_ATTACH)
		return;
	if (e) {
		life_fail(f, e);
		return;
	}
	f->is_mapped = true;
	f->times.map_us = (uint32_t)(now_mono_us() - f->lap_us) | 1u;
	maybe_load(f);
}

void life_attach(struct life *f)
{
	bool load = f->req.hdr.op == MON_LOAD;
	int r = 0;

	life_stage(f, STAGE_ATTACH);
	f->phase = MON_LOADING;
	f->is_mapped = !load;
	f->is_attached = f->req.n_disks == 0;
	if (load)
		r = shim_client_call(vmlink_shim(f->vm), SHIM_MAP, 0,
				     &f->fds[1], 1, life_left_ms(f), on_mapped,
				     f);
	if (r == 0 && f->req.n_disks)
		r = send_disks(f, f->fds + (load ? 2 : 0));
	if (r < 0)
		life_fail_code(f, r, "the VMM takes no commands");
	else
		maybe_load(f);
}

void life_vm_ready(struct life *f)
{
	if (f->stage != STAGE_READY)
		return;
	f->times.qmp_us = life_lap(f);
	life_attach(f);
}

static void on_cont(void *arg, json_t *ret, const struct err *e)
{
	struct life *f = arg;

	(void)ret;
	if (f->stage != STAGE_CONT)
		return;
	if (e) {
		life_fail(f, e);
		return;
	}
	f->times.cont_us = life_lap(f);
	life_stage(f, STAGE_CONNECT);
	if (!f->is_parked) {
		guest_connect(f->guest, "chan");
		return;
	}
	f->is_parked = false;
	guest_resume(f->guest);
}

static void send_cont(struct life *f)
{
	int r;

	life_stage(f, STAGE_CONT);
	r = qmp_call(vmlink_qmp(f->vm), "cont", NULL, -1, life_left_ms(f),
		     on_cont, f);
	if (r < 0)
		life_fail_code(f, r, "the VMM takes no commands");
}

static void on_state_step(void *arg, json_t *ret, const struct err *e)
{
	struct life *f = arg;

	(void)ret;
	if (e && f->stage == STAGE_STATE)
		life_fail(f, e);
}

static void maybe_load(struct life *f)
{
	struct qmp *q = vmlink_qmp(f->vm);
	json_t *name, *uri;
	int r;

	if (f->stage != STAGE_ATTACH || !f->is_mapped || !f->is_attached)
		return;
	if (f->req.hdr.op == MON_BOOT) {
		send_cont(f);
		return;
	}
	life_stage(f, STAGE_STATE);
	lseek(f->fds[0], 0, SEEK_SET);
	name = json_object();
	json_set_take(name, "fdname", json_string("state"));
	r = qmp_call(q, "getfd", name, f->fds[0], life_left_ms(f),
		     on_state_step, f);
	uri = json_object();
	json_set_take(uri, "uri", json_string("fd:state"));
	if (r == 0)
		r = qmp_call(q, "migrate-incoming", uri, -1, life_left_ms(f),
			     on_state_step, f);
	else
		json_decref(uri);
	if (r < 0)
		life_fail_code(f, r, "the VMM takes no commands");
}

void life_migration(struct life *f, const char *status)
{
	struct err e = { 0 };

	if (f->stage != STAGE_STATE && f->stage != STAGE_STOP)
		return;
	if (strcmp(status, "failed") == 0) {
		err_set(&e, -EIO, ERR_INTERNAL,
			"the VMM could not %s the device state",
			f->stage == STAGE_STATE ? "load" : "save");
		life_fail(f, &e);
	} else if (strcmp(status, "completed") != 0) {
		return;
	} else if (f->stage == STAGE_STOP) {
		life_saved_state(f);
	} else {
		f->times.load_us = life_lap(f);
		send_cont(f);
	}
}

/* ---- guestd ---- */

static void on_hello(void *arg, int status, const char *body, size_t n,
		     const struct err *e)
{
	static const char *const states[] = { "frozen", "running", NULL };
	struct life *f = arg;
	struct err bad = { 0 };
	struct json_reader r;
	owned_json v = NULL;
	int64_t version = 0;
	size_t state = 0;

	if (f->stage != STAGE_CONNECT && f->stage != STAGE_NONE)
		return;
	if (f->stage == STAGE_NONE && e)
		return; /* adopted VM; the next session asks again */
	v = life_answer(f, "hello", status, body, n, e);
	if (!v)
		return;
	json_reader_init(&r, v, "", &bad);
	json_int(&r, "version", 1, INT32_MAX, &version);
	json_word(&r, "state", states, &state);
	if (r.r < 0 || version != 1) {
		err_set(&bad, -EPROTO, ERR_UNSUPPORTED,
			"the guest's daemon speaks version %lld, not 1",
			(long long)version);
		life_fail(f, &bad);
		return;
	}
	f->is_thawed = state == 1;
	f->phase = MON_CONNECTED;
	if (f->stage == STAGE_NONE)
		return;
	f->times.connect_us = life_lap(f);
	life_done(f);
}

static void set_hex(json_t *obj, const char *key, size_t n)
{
	uint8_t raw[32];
	char hex[65];

	CHECK(n <= sizeof(raw));
	random_bytes(raw, n);
	text_hex(raw, n, hex);
	json_set_take(obj, key, json_string(hex));
}

json_t *life_renew_body(struct life *f)
{
	uint8_t entropy[ENTROPY_BYTES];
	char text[ENTROPY_BYTES * 2];
	json_t *b = json_object();
	uint32_t low;
	struct timespec now;

	random_bytes(entropy, sizeof(entropy));
	text_base64(entropy, sizeof(entropy), text);
	explicit_bzero(entropy, sizeof(entropy));
	random_bytes(&low, sizeof(low));
	low = PORTS_LOW_MIN + low % PORTS_LOW_N;
	life_nonce(f);
	json_set_take(b, "sandbox", json_string(f->req.sandbox));
	json_set_take(b, "hostname", json_string(f->req.hostname));
	set_hex(b, "machine_id", 16);
	json_set_take(b, "entropy", json_string(text));
	explicit_bzero(text, sizeof(text));
	json_set_take(b, "port_low", json_integer(low));
	json_set_take(b, "port_high", json_integer(low + PORTS_WINDOW));
	json_set_take(b, "nonce", json_string(f->nonce));
	clock_gettime(CLOCK_REALTIME, &now);
	json_set_take(
	    b, "realtime_ns",
	    json_integer((int64_t)now.tv_sec * 1000000000 + now.tv_nsec));
	return b;
}

static void on_renewed(void *arg, int status, const char *body, size_t n,
		       const struct err *e)
{
	struct life *f = arg;
	owned_json v = NULL;
	const char *got;
	struct err bad = { 0 };

	if (f->stage != STAGE_RENEW)
		return;
	v = life_answer(f, "renew", status, body, n, e);
	if (!v)
		return;
	got = json_string_value(json_object_get(v, "confirmed"));
	if (!got || strcmp(got, f->nonce) != 0) {
		err_set(&bad, -EPROTO, ERR_CONFLICT,
			"the guest's daemon confirmed another renewal");
		life_fail(f, &bad);
		return;
	}
	f->times.renew_us = life_lap(f);
	f->phase = MON_CONFIRMED;
	life_done(f);
}

static void ask_renew(struct life *f)
{
	life_stage(f, STAGE_RENEW);
	life_call(f, "POST", "/g1/renew", life_renew_body(f), on_renewed);
}

void life_renew(struct life *f)
{
	if (f->is_parked)
		send_cont(f);
	else
		ask_renew(f);
}

/* ---- sessions ---- */

/*
 * A checkpoint holds a guestd that answered hello before it was taken, and a
 * frozen workload; its HELLO_ACK says that it lives. Asking it again would only
 * cost: everything that a just restored guest runs, runs for the first time.
 */
static void loaded(struct life *f)
{
	f->is_thawed = false;
	f->phase = MON_CONNECTED;
	f->times.connect_us = life_lap(f);
	if (f->req.flags & MON_WARM)
		life_warm(f);
	else
		life_done(f);
}

void life_guest_up(struct life *f)
{
	bool adopts = f->stage == STAGE_NONE && f->phase == MON_WAITING;

	if (f->stage != STAGE_CONNECT && !adopts)
		return;
	if (f->stage == STAGE_CONNECT && f->req.hdr.op == MON_LOAD)
		loaded(f);
	else if (f->stage == STAGE_CONNECT && f->req.hdr.op == MON_RENEW) {
		f->times.connect_us = life_lap(f);
		ask_renew(f);
	} else {
		life_call(f, "GET", "/g1/hello", NULL, on_hello);
	}
}

/* ---- opening ---- */

static void opened(struct life *f)
{
	f->times.thaw_us = life_lap(f);
	f->is_thawed = true;
	f->phase = MON_OPENED;
	data_open(f->data, true);
	life_done(f);
}

static void on_thawed(void *arg, int status, const char *body, size_t n,
		      const struct err *e)
{
	struct life *f = arg;
	owned_json v = NULL;

	if (f->stage != STAGE_THAW)
		return;
	v = life_answer(f, "thaw", status, body, n, e);
	if (v)
		opened(f);
}

void life_open(struct life *f)
{
	life_stage(f, STAGE_THAW);
	if (f->is_thawed)
		opened(f);
	else
		life_call(f, "POST", "/g1/thaw", json_object(), on_thawed);
}
