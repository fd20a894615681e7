/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/life.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

#define DEADLINE_DEFAULT_MS 60000u
#define DEADLINE_MAX_MS	    600000u
#define GUEST_JSON_MAX	    65536u

static const char *const stage_names[STAGE_MAX_] = {
	[STAGE_READY] = "waiting for the VMM",
	[STAGE_ATTACH] = "attaching disks and memory",
	[STAGE_STATE] = "loading the device state",
	[STAGE_CONT] = "starting the VM",
	[STAGE_CONNECT] = "waiting for the guest's daemon",
	[STAGE_WARM] = "warming the guest up",
	[STAGE_RENEW] = "renewing the guest",
	[STAGE_THAW] = "thawing the workload",
	[STAGE_FINISH] = "finishing the template",
	[STAGE_FREEZE] = "freezing the workload",
	[STAGE_STOP] = "saving the device state",
	[STAGE_FORK] = "forking the memory image",
	[STAGE_IMAGE] = "writing the memory image",
	[STAGE_QUIT] = "ending the VMM",
};

static void drop_fds(struct life *f)
{
	for (size_t i = 0; i < f->n_fds; i++)
		f->fds[i] = fd_close(f->fds[i]);
	f->n_fds = 0;
}

static void drop_image(struct life *f)
{
	loop_io_del(&f->image_io);
	f->image_pipe = fd_close(f->image_pipe);
	buf_clear(&f->image);
}

void life_stage(struct life *f, enum stage s)
{
	f->stage = s;
	f->lap_us = now_mono_us();
}

uint32_t life_lap(struct life *f)
{
	uint64_t now = now_mono_us(), us = now - f->lap_us;

	f->lap_us = now;
	if (us == 0)
		return 1; /* 0 means: not done */
	return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

uint64_t life_left_ms(const struct life *f)
{
	uint64_t now = now_mono_us();

	return f->deadline_us > now ? (f->deadline_us - now) / 1000 + 1 : 1;
}

void life_report(const struct life *f, struct mon_rep *rep)
{
	rep->phase = f->phase;
	rep->reason = f->reason;
	rep->times = f->times;
	if (!rep->msg[0])
		snprintf(rep->msg, sizeof(rep->msg), "%s", f->detail);
}

static void finish(struct life *f, struct mon_rep *rep)
{
	loop_timer_del(&f->timer);
	drop_fds(f);
	drop_image(f);
	f->stage = STAGE_NONE;
	rep->hdr = f->req.hdr;
	rep->mem_bytes = f->mem_bytes;
	life_report(f, rep);
	f->ops->on_done(f->owner, rep);
}

void life_done(struct life *f)
{
	struct mon_rep rep = { 0 };

	finish(f, &rep);
}

/* The end of this VM, whoever noticed. */
static void set_gone(struct life *f, enum mon_reason reason, const char *detail)
{
	f->phase = MON_GONE;
	if (f->reason == MON_REASON_NONE)
		f->reason = reason;
	if (!f->detail[0])
		snprintf(f->detail, sizeof(f->detail), "%s", detail);
	data_open(f->data, false);
	guest_cork(f->guest);
}

static bool is_fatal(enum stage s)
{
	return s != STAGE_RENEW && s != STAGE_THAW && s != STAGE_FINISH &&
	       s != STAGE_FREEZE && s != STAGE_QUIT;
}

void life_fail(struct life *f, const struct err *e)
{
	struct mon_rep rep = { .r = e->code, .kind = e->kind };
	const char *what = stage_names[f->stage];
	char tail[600] = "";

	if (f->stage == STAGE_NONE)
		return;
	if (f->stage == STAGE_CONNECT || f->stage == STAGE_READY)
		vmlink_tail(f->vm, tail, sizeof(tail));
	snprintf(rep.msg, sizeof(rep.msg), "%s: %.330s%s%s", what, e->msg,
		 tail[0] ? "; its console ends: " : "", tail);
	log_warn("request_failed", "op=%u phase=%u why=%s", f->req.hdr.op,
		 (unsigned)f->phase, rep.msg);
	if (is_fatal(f->stage) && f->phase != MON_GONE)
		set_gone(f, MON_REASON_VMM_ERROR, e->msg);
	finish(f, &rep);
}

static void on_timer(struct loop_timer *t)
{
	struct life *f = container_of(t, struct life, timer);
	struct err e = { 0 };

	err_set(&e, -ETIMEDOUT, ERR_TIMEOUT, "not done within %u ms",
		f->req.deadline_ms);
	life_fail(f, &e);
}

/* ---- calls of guestd ---- */

void life_call(struct life *f, const char *method, const char *path,
	       json_t *body_take,
	       void (*done)(void *arg, int status, const char *body, size_t n,
			    const struct err *e))
{
	owned_json body = body_take;
	owned_str text = body ? json_text(body) : NULL;
	struct http_conn *c = guest_conn(f->guest);
	struct err e = { 0 };
	int r;

	if (c)
		r = http_call(c, method, path, text, GUEST_JSON_MAX,
			      life_left_ms(f), done, f, &e);
	else
		r = err_set(&e, -ENOTCONN, ERR_UNAVAILABLE,
			    "the guest's daemon is not connected");
	if (r < 0)
		life_fail(f, &e);
}

/* A guest's own words, if it has any. */
static void fail_status(struct life *f, const char *what, int status, json_t *v)
{
	const char *msg = json_string_value(
	    json_object_get(json_object_get(v, "error"), "message"));
	struct err e = { 0 };

	err_set(&e, -EREMOTEIO, status == 409 ? ERR_CONFLICT : ERR_INTERNAL,
		"the guest's daemon answered %s with %d: %.200s", what, status,
		msg ? msg : "no message");
	life_fail(f, &e);
}

json_t *life_answer(struct life *f, const char *what, int status,
		    const char *body, size_t n, const struct err *e)
{
	owned_json v = NULL;

	if (e) {
		life_fail(f, e);
		return NULL;
	}
	if (n && json_parse(body, n, &v, NULL) < 0)
		v = NULL;
	if (status != 200 || !json_is_object(v)) {
		fail_status(f, what, status, v);
		return NULL;
	}
	return TAKE(v);
}

void life_nonce(struct life *f)
{
	uint8_t raw[16];

	random_bytes(raw, sizeof(raw));
	text_hex(raw, sizeof(raw), f->nonce);
}

/* ---- what the connections tell ---- */

static void on_ready(void *owner, const char *status)
{
	struct life *f = owner;

	log_info("vmm_ready", "status=%s", status);
	if (f->phase == MON_EMPTY)
		f->phase = MON_WAITING;
	/* a VM that outlived an earlier monitor */
	if (strcmp(status, "running") == 0 && f->stage == STAGE_NONE)
		guest_connect(f->guest, "chan");
	life_vm_ready(f);
}

static void on_migration(void *owner, const char *status)
{
	life_migration(owner, status);
}

static void on_gone(void *owner, enum mon_reason reason, const char *detail)
{
	struct life *f = owner;
	bool asked = f->phase == MON_GONE && f->reason == MON_REASON_REQUEST;
	struct mon_rep rep = { .hdr = { .op = MON_EV_GONE } };
	struct err e = { 0 };

	if (f->phase == MON_GONE && !asked)
		return;
	log_info("vm_gone", "reason=%u detail=%s", (unsigned)reason, detail);
	set_gone(f, reason, detail);
	if (f->stage == STAGE_QUIT) {
		life_done(f);
	} else if (f->stage != STAGE_NONE) {
		err_set(&e, -EPIPE, ERR_UNAVAILABLE, "%s", detail);
		life_fail(f, &e);
		return; /* the answer says it */
	}
	life_report(f, &rep);
	f->ops->on_gone(f->owner, &rep);
}

static const struct vmlink_ops vm_ops = { on_ready, on_migration, on_gone };

static void on_guest_up(void *owner)
{
	life_guest_up(owner);
}

static void on_guest_lost(void *owner, const struct err *e)
{
	on_gone(owner, MON_REASON_GUEST_LOST, e->msg);
}

static const struct guest_ops guest_ops = { on_guest_up, on_guest_lost };

static struct http_conn *way_to_guest(void *owner)
{
	struct life *f = owner;

	return guest_conn(f->guest);
}

/* ---- requests ---- */

static void on_quit(void *arg, json_t *ret, const struct err *e)
{
	struct life *f = arg;

	(void)ret;
	(void)e;
	if (f->stage == STAGE_QUIT)
		life_done(f);
}

static void quit(struct life *f)
{
	struct qmp *q = vmlink_qmp(f->vm);

	life_stage(f, STAGE_QUIT);
	if (f->phase != MON_GONE) {
		f->reason = MON_REASON_REQUEST;
		set_gone(f, MON_REASON_REQUEST, "asked to quit");
	}
	if (!q || qmp_call(q, "quit", NULL, -1, 5000, on_quit, f) < 0)
		life_done(f);
}

static int check_phase(const struct life *f, uint32_t op, struct err *e)
{
	static const unsigned allowed[MON_OP_MAX_] = {
		[MON_BOOT] = 1u << MON_EMPTY | 1u << MON_WAITING,
		[MON_LOAD] = 1u << MON_EMPTY | 1u << MON_WAITING,
		[MON_RENEW] = 1u << MON_CONNECTED | 1u << MON_CONFIRMED,
		[MON_OPEN] = 1u << MON_CONFIRMED,
		[MON_SAVE] = 1u << MON_CONFIRMED | 1u << MON_OPENED,
		[MON_QUIT] = ~0u,
	};

	if (allowed[op] & 1u << f->phase)
		return 0;
	return err_set(e, -EPERM, ERR_CONFLICT,
		       "request %u is not possible in phase %u", op,
		       (unsigned)f->phase);
}

/* Numbers and strings of the request itself. */
static int check_req(const struct mon_req *q, size_t n_fds, struct err *e)
{
	size_t want = q->n_disks;

	if (q->hdr.op == MON_LOAD)
		want += 2;
	else if (q->hdr.op == MON_SAVE)
		want = 2;
	else if (q->hdr.op != MON_BOOT)
		want = 0;
	if (q->n_disks > MON_DISKS_MAX || n_fds != want)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "request %u: %zu descriptors, expected %zu",
			       q->hdr.op, n_fds, want);
	if (!memchr(q->sandbox, '\0', sizeof(q->sandbox)) ||
	    !memchr(q->hostname, '\0', sizeof(q->hostname)))
		return err_set(e, -EINVAL, ERR_INVALID,
			       "request %u: a string does not end", q->hdr.op);
	return 0;
}

int life_start_take(struct life *f, const struct mon_req *req, int *fds,
		    size_t n_fds, struct err *e)
{
	int r = check_req(req, n_fds, e);
	struct err superseded = { 0 };

	if (r == 0)
		r = check_phase(f, req->hdr.op, e);
	if (r == 0 && f->stage != STAGE_NONE && req->hdr.op != MON_QUIT)
		r = err_set(e, -EBUSY, ERR_CONFLICT,
			    "another request is still at work");
	if (r < 0)
		return r;
	if (f->stage != STAGE_NONE) {
		err_set(&superseded, -ECANCELED, ERR_CONFLICT,
			"the VM was asked to quit");
		life_fail(f, &superseded);
	}
	f->req = *req;
	if (f->req.deadline_ms == 0)
		f->req.deadline_ms = DEADLINE_DEFAULT_MS;
	if (f->req.deadline_ms > DEADLINE_MAX_MS)
		f->req.deadline_ms = DEADLINE_MAX_MS;
	f->deadline_us = now_mono_us() + f->req.deadline_ms * 1000ull;
	memset(&f->times, 0, sizeof(f->times));
	f->mem_bytes = 0;
	for (size_t i = 0; i < n_fds; i++)
		f->fds[i] = take_fd(&fds[i]);
	f->n_fds = n_fds;
	loop_timer_set(f->loop, &f->timer, f->req.deadline_ms, on_timer);
	switch (req->hdr.op) {
	case MON_BOOT:
	case MON_LOAD:
		life_stage(f, STAGE_READY);
		if (vmlink_is_ready(f->vm))
			life_vm_ready(f);
		break;
	case MON_RENEW:
		life_renew(f);
		break;
	case MON_OPEN:
		life_open(f);
		break;
	case MON_SAVE:
		life_save(f);
		break;
	default:
		quit(f);
		break;
	}
	return 0;
}

void life_init(struct life *f, struct loop *l, const struct life_ops *ops,
	       void *owner)
{
	memset(f, 0, sizeof(*f));
	f->loop = l;
	f->ops = ops;
	f->owner = owner;
	f->image_pipe = -1;
	buf_init(&f->image, sizeof(struct shim_image_done) +
				SHIM_MAPS_MAX * sizeof(struct shim_run));
	f->data = data_new(l, way_to_guest, f);
	f->guest = guest_new(l, &guest_ops, f);
	f->vm = vmlink_new(l, &vm_ops, f);
	data_console(f->data, vmlink_console(f->vm));
}

void life_fini(struct life *f)
{
	loop_timer_del(&f->timer);
	drop_fds(f);
	drop_image(f);
	buf_fini(&f->image);
	f->data = data_free(f->data);
	f->guest = guest_free(f->guest);
	f->vm = vmlink_free(f->vm);
}
