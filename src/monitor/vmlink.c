/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/vmlink.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/channel.h"
#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "net/json.h"

#define RETRY_MS   20u
#define COMMAND_MS 60000u
/* A guest that floods its console pays for it, not the host: what it writes
 * beyond this rate waits in the VMM. */
#define SERIAL_BURST	262144u
#define SERIAL_PER_S	65536u
#define SERIAL_PAUSE_MS 100u

struct vmlink {
	struct loop *loop;
	const struct vmlink_ops *ops;
	void *owner;
	struct qmp *qmp;
	struct shim_client *shim;
	int serial;
	struct loop_io serial_io;
	struct loop_timer serial_pause;
	size_t serial_credit; /* bytes that may be read now */
	uint64_t serial_ms;   /* when it was raised last */
	struct console *console;
	struct loop_timer retry;
	uint64_t ram_bytes;
	char status[24];
	bool is_ready, is_gone;
};

static void connect_all(struct vmlink *v);

static void on_retry(struct loop_timer *t)
{
	connect_all(container_of(t, struct vmlink, retry));
}

static void gone(struct vmlink *v, enum mon_reason reason, const char *detail)
{
	if (v->is_gone)
		return;
	v->is_gone = true;
	v->is_ready = false;
	v->ops->on_gone(v->owner, reason, detail);
}

/* ---- serial ---- */

static void serial_refill(struct vmlink *v)
{
	uint64_t now = loop_now_ms(v->loop);
	uint64_t more = (now - v->serial_ms) * SERIAL_PER_S / 1000;

	if (more == 0)
		return;
	v->serial_ms = now;
	v->serial_credit = more > SERIAL_BURST - v->serial_credit
			       ? SERIAL_BURST
			       : v->serial_credit + (size_t)more;
}

static void on_serial_pause(struct loop_timer *t)
{
	struct vmlink *v = container_of(t, struct vmlink, serial_pause);

	if (v->serial_io.loop)
		loop_io_set(&v->serial_io, LOOP_IN);
}

static void on_serial(struct loop_io *io, unsigned events)
{
	struct vmlink *v = container_of(io, struct vmlink, serial_io);
	char b[4096];
	ssize_t n;

	serial_refill(v);
	/* of an end that is there nothing more can come: read it at once */
	if (v->serial_credit < sizeof(b) && !(events & LOOP_HUP)) {
		loop_io_set(io, 0);
		loop_timer_set(v->loop, &v->serial_pause, SERIAL_PAUSE_MS,
			       on_serial_pause);
		return;
	}
	n = recv(v->serial, b, sizeof(b), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		loop_io_del(io);
		return;
	}
	v->serial_credit -=
	    (size_t)n < v->serial_credit ? (size_t)n : v->serial_credit;
	console_put(v->console, b, (size_t)n);
}

void vmlink_tail(const struct vmlink *v, char *ret, size_t n)
{
	console_tail(v->console, ret, n);
}

struct console *vmlink_console(const struct vmlink *v)
{
	return v->console;
}

enum mon_reason vmlink_panic(const char *tail)
{
	static const char *const oom[] = { "Out of memory",
					   "System is deadlocked on memory",
					   "out of memory" };
	const char *at = strstr(tail, "Kernel panic");
	size_t n;

	if (!at)
		return MON_REASON_NONE;
	n = strcspn(at, "\n");
	for (size_t i = 0; i < ARRAY_SIZE(oom); i++)
		if (memmem(at, n, oom[i], strlen(oom[i])))
			return MON_REASON_GUEST_OOM;
	return MON_REASON_GUEST_PANIC;
}

/* A kernel that panics with panic=-1 resets the machine; QMP shows the reset
 * alone. Only the guest's own record hangs on this text. */
static void guest_stopped(struct vmlink *v, enum mon_reason known)
{
	char text[VMLINK_TAIL + 1];
	enum mon_reason r;

	vmlink_tail(v, text, sizeof(text));
	r = vmlink_panic(text);
	if (r == MON_REASON_NONE)
		r = known;
	if (r == MON_REASON_GUEST_OOM)
		gone(v, r, "the guest's kernel panicked: out of memory");
	else if (r == MON_REASON_GUEST_PANIC)
		gone(v, r, "the guest's kernel panicked");
	else
		gone(v, r, "the guest switched itself off");
}

/* ---- QMP ---- */

static void maybe_ready(struct vmlink *v)
{
	if (v->is_ready || v->is_gone || !v->status[0] || !v->ram_bytes)
		return;
	v->is_ready = true;
	v->ops->on_ready(v->owner, v->status);
}

static void on_shim_hello(void *arg, const struct shim_rep *rep,
			  const struct err *e)
{
	struct vmlink *v = arg;

	if (e || rep->a == 0) {
		gone(v, MON_REASON_VMM_ERROR,
		     e ? e->msg : "the VMM has mapped no memory");
		return;
	}
	v->ram_bytes = rep->a;
	maybe_ready(v);
}

static void on_shim_close(void *owner, const struct err *e)
{
	(void)e;
	gone(owner, MON_REASON_VMM_EXIT, "the VMM's process ended");
}

static void on_status(void *arg, json_t *ret, const struct err *e)
{
	struct vmlink *v = arg;
	const char *s = json_string_value(json_object_get(ret, "status"));
	struct err why = { 0 };
	int fd;

	if (e || !s) {
		gone(v, MON_REASON_VMM_ERROR, e ? e->msg : "no status");
		return;
	}
	snprintf(v->status, sizeof(v->status), "%s", s);
	/* The interposer is asked only now: RAM exists once QMP answers. */
	fd = unix_connect("ctl", SOCK_STREAM, &why);
	if (fd < 0) {
		gone(v, MON_REASON_VMM_ERROR, why.msg);
		return;
	}
	v->shim = shim_client_new_take(v->loop, fd, on_shim_close, v);
	if (shim_client_call(v->shim, SHIM_HELLO, 0, NULL, 0, COMMAND_MS,
			     on_shim_hello, v) < 0)
		gone(v, MON_REASON_VMM_EXIT, "the VMM's process ended");
}

static void on_capabilities(void *arg, json_t *ret, const struct err *e)
{
	(void)ret;
	if (e)
		gone(arg, MON_REASON_VMM_ERROR, e->msg);
}

static json_t *capability(const char *name)
{
	json_t *c = json_object();

	json_set_take(c, "capability", json_string(name));
	json_set_take(c, "state", json_true());
	return c;
}

static void on_qmp_ready(struct qmp *q)
{
	struct vmlink *v = qmp_owner(q);
	json_t *args = json_object(), *list = json_array();

	json_array_append_new(list, capability("x-ignore-shared"));
	json_array_append_new(list, capability("events"));
	json_set_take(args, "capabilities", list);
	qmp_call(q, "migrate-set-capabilities", args, -1, COMMAND_MS,
		 on_capabilities, v);
	qmp_call(q, "query-status", NULL, -1, COMMAND_MS, on_status, v);
}

static void on_event(struct qmp *q, const char *name, json_t *data)
{
	struct vmlink *v = qmp_owner(q);
	const char *s;

	if (strcmp(name, "MIGRATION") == 0) {
		s = json_string_value(json_object_get(data, "status"));
		if (s)
			v->ops->on_migration(v->owner, s);
	} else if (strcmp(name, "GUEST_PANICKED") == 0) {
		guest_stopped(v, MON_REASON_GUEST_PANIC);
	} else if (strcmp(name, "SHUTDOWN") == 0) {
		s = json_string_value(json_object_get(data, "reason"));
		if (s && strncmp(s, "host", 4) == 0)
			return; /* our own quit */
		guest_stopped(v, MON_REASON_GUEST_SHUTDOWN);
	} else if (strcmp(name, "BLOCK_IO_ERROR") == 0) {
		s = json_string_value(json_object_get(data, "action"));
		if (s && strcmp(s, "stop") == 0)
			gone(v, MON_REASON_VMM_ERROR,
			     "the VM stopped: an I/O error of its disk on the "
			     "host (is there space left?)");
	}
}

static void on_qmp_close(struct qmp *q, const struct err *e)
{
	struct vmlink *v = qmp_owner(q);

	gone(v, e->code == -EPIPE ? MON_REASON_VMM_EXIT : MON_REASON_VMM_ERROR,
	     e->code == -EPIPE ? "the VMM's process ended" : e->msg);
}

static const struct qmp_ops qmp_ops = { on_qmp_ready, on_event, on_qmp_close };

static void connect_all(struct vmlink *v)
{
	int fd = unix_connect("qmp", SOCK_STREAM, NULL);

	if (fd < 0) { /* no VMM has been started yet */
		loop_timer_set(v->loop, &v->retry, RETRY_MS, on_retry);
		return;
	}
	v->qmp = qmp_new_take(v->loop, fd, &qmp_ops, v);
	v->serial = unix_connect("serial", SOCK_STREAM, NULL);
	if (v->serial < 0) {
		v->serial = -1;
		log_warn("no_serial", "slot has no serial console");
		return;
	}
	CHECK(loop_io_add(v->loop, &v->serial_io, v->serial, LOOP_IN,
			  on_serial) == 0);
}

struct vmlink *vmlink_new(struct loop *l, const struct vmlink_ops *ops,
			  void *owner)
{
	struct vmlink *v = xnew(struct vmlink);

	v->loop = l;
	v->ops = ops;
	v->owner = owner;
	v->serial = -1;
	v->console = console_new(l);
	v->serial_credit = SERIAL_BURST;
	v->serial_ms = loop_now_ms(l);
	loop_timer_set(l, &v->retry, 0, on_retry);
	return v;
}

struct vmlink *vmlink_free(struct vmlink *v)
{
	if (!v)
		return NULL;
	loop_timer_del(&v->retry);
	loop_timer_del(&v->serial_pause);
	loop_io_del(&v->serial_io);
	fd_close(v->serial);
	console_free(v->console);
	qmp_free(v->qmp);
	shim_client_free(v->shim);
	free(v);
	return NULL;
}

struct qmp *vmlink_qmp(struct vmlink *v)
{
	return v->qmp;
}

struct shim_client *vmlink_shim(struct vmlink *v)
{
	return v->shim;
}

uint64_t vmlink_ram_bytes(const struct vmlink *v)
{
	return v->ram_bytes;
}

bool vmlink_is_ready(const struct vmlink *v)
{
	return v->is_ready;
}

void vmlink_cork(struct vmlink *v)
{
	loop_io_del(&v->serial_io);
}
