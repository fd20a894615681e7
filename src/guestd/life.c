/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/life.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "guestd/cgroup.h"
#include "guestd/exec.h"
#include "guestd/finish.h"
#include "guestd/renew.h"
#include "guestd/reply.h"

#define FREEZE_MAX_MS  2000
#define FREEZE_STEP_MS 2

enum life_state { LIFE_RUNNING, LIFE_FROZEN, LIFE_RENEWED };

struct life {
	struct guestd *g;
	enum life_state state;
	char nonce[RENEW_NONCE_MAX]; /* of the freeze; "" after boot */
	char sandbox[RENEW_NAME_MAX];
	/* a freeze in the making */
	struct loop_timer poll;
	struct http_stream *asker; /* NULL if it went away */
	bool freezing;
	uint64_t freeze_began_us;
};

struct life *life_new(struct guestd *g)
{
	struct life *l = xnew(struct life);

	l->g = g;
	l->state = LIFE_FROZEN;
	if (!g->root_less)
		(void)cgroup_freeze_all(g, true);
	return l;
}

struct life *life_free(struct life *l)
{
	if (!l)
		return NULL;
	loop_timer_del(&l->poll);
	free(l);
	return NULL;
}

bool life_is_running(const struct life *l)
{
	return l->state == LIFE_RUNNING && !l->freezing;
}

static void read_line(int dir, const char *path, char *ret, size_t size)
{
	owned_fd fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	ret[n > 0 ? n : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

void life_hello(struct guestd *g, struct http_stream *s)
{
	const struct life *l = g->life;
	json_t *v = json_object();
	struct utsname u = { 0 };
	char boot_id[64], clocksource[64];

	(void)uname(&u);
	read_line(g->held.proc, "sys/kernel/random/boot_id", boot_id,
		  sizeof(boot_id));
	read_line(g->held.sys,
		  "devices/system/clocksource/clocksource0/"
		  "current_clocksource",
		  clocksource, sizeof(clocksource));
	json_set_take(v, "version", json_integer(GUESTD_VERSION));
	json_set_take(
	    v, "state",
	    json_string(l->state == LIFE_RUNNING ? "running" : "frozen"));
	if (*l->nonce && l->state != LIFE_RUNNING)
		json_set_take(v, "nonce", json_string(l->nonce));
	if (*l->sandbox)
		json_set_take(v, "sandbox", json_string(l->sandbox));
	json_set_take(v, "boot_id", json_string(boot_id));
	json_set_take(v, "kernel", json_string(u.release));
	json_set_take(v, "clocksource", json_string(clocksource));
	json_set_take(v, "guestd", json_string("caisson-guestd"));
	reply_json_take(s, 200, v);
}

void life_renew(struct guestd *g, struct http_stream *s, const void *body,
		size_t n)
{
	struct life *l = g->life;
	struct renew r;
	struct err e = { 0 };
	char field[96];
	json_t *v;

	if (renew_read(body, n, &r, field, &e) < 0) {
		reply_error(s, 400, "invalid_field", field, NULL, e.msg);
		return;
	}
	if (l->state == LIFE_RUNNING || l->freezing) {
		reply_wrong_state(s,
				  "the workload is running; only a frozen "
				  "guest can be renewed",
				  "freeze it first");
	} else if (renew_apply(g, &r, &e) < 0) {
		reply_err(s, &e);
	} else {
		execs_forget_keys(g->execs);
		l->state = LIFE_RENEWED;
		snprintf(l->sandbox, sizeof(l->sandbox), "%s", r.sandbox);
		v = json_object();
		json_set_take(v, "confirmed", json_string(r.nonce));
		reply_json_take(s, 200, v);
	}
	explicit_bzero(&r, sizeof(r));
}

/* ---- freeze ---- */

/* "{nonce, realtime_ns?}": false if the stream has been answered. */
static bool read_nonce(struct http_stream *s, const void *body, size_t n,
		       bool with_clock, char *ret, int64_t *ret_realtime_ns)
{
	owned_json root = NULL;
	struct json_reader r;
	struct err e = { 0 };
	const char *nonce = NULL;

	if (json_parse(body, n, &root, &e) < 0) {
		reply_error(s, 400, "invalid_field", NULL, NULL, e.msg);
		return false;
	}
	json_reader_init(&r, root, "", &e);
	json_required(&r, "nonce");
	if (json_str(&r, "nonce", RENEW_NONCE_MAX - 1, &nonce) && !*nonce)
		json_field_error(&r, "nonce", "expected some characters");
	if (with_clock) {
		json_required(&r, "realtime_ns");
		json_int(&r, "realtime_ns", 0, INT64_MAX, ret_realtime_ns);
	}
	if (json_reader_end(&r) < 0) {
		reply_error(s, 400, "invalid_field", r.field, NULL, e.msg);
		return false;
	}
	snprintf(ret, RENEW_NONCE_MAX, "%s", nonce);
	return true;
}

static void freeze_done(struct life *l, bool frozen)
{
	uint64_t ms = (now_mono_us() - l->freeze_began_us) / 1000;
	struct http_stream *s = l->asker;
	json_t *v;

	l->freezing = false;
	l->asker = NULL;
	if (frozen) {
		l->state = LIFE_FROZEN;
	} else {
		(void)cgroup_freeze_all(l->g, false);
		l->nonce[0] = '\0';
	}
	if (!s)
		return;
	if (!frozen) {
		reply_wrong_state(
		    s, "some process did not freeze within 2 s; all run again",
		    "repeat it later");
		return;
	}
	v = json_object();
	json_set_take(v, "frozen", json_string(l->nonce));
	json_set_take(v, "freeze_ms", json_integer((json_int_t)ms));
	reply_json_take(s, 200, v);
}

static void freeze_poll(struct loop_timer *t)
{
	struct life *l = container_of(t, struct life, poll);

	if (l->g->root_less || cgroup_is_frozen(&l->g->held)) {
		freeze_done(l, true);
		return;
	}
	if (now_mono_us() - l->freeze_began_us > FREEZE_MAX_MS * 1000ull) {
		freeze_done(l, false);
		return;
	}
	loop_timer_set(l->g->loop, &l->poll, FREEZE_STEP_MS, freeze_poll);
}

static void freeze_on_body(struct http_stream *s)
{
	(void)s;
}

static void freeze_on_close(struct http_stream *s, const struct err *e)
{
	struct life *l = http_stream_owner(s);

	(void)e;
	if (l->asker == s)
		l->asker = NULL;
}

void life_freeze(struct guestd *g, struct http_stream *s, const void *body,
		 size_t n)
{
	static const struct http_handler handler = {
		.on_body = freeze_on_body,
		.on_close = freeze_on_close,
	};
	struct life *l = g->life;
	char nonce[RENEW_NONCE_MAX];
	int r;

	if (!read_nonce(s, body, n, false, nonce, NULL))
		return;
	if (l->freezing) {
		reply_wrong_state(s, "another freeze is under way", NULL);
		return;
	}
	if (l->state != LIFE_RUNNING && strcmp(l->nonce, nonce) != 0) {
		reply_wrong_state(s, "the workload is frozen already", NULL);
		return;
	}
	l->freeze_began_us = now_mono_us();
	l->asker = s;
	if (l->state != LIFE_RUNNING) {
		freeze_done(l, true); /* the same call again */
		return;
	}
	snprintf(l->nonce, sizeof(l->nonce), "%s", nonce);
	l->freezing = true;
	r = g->root_less ? 0 : cgroup_freeze_all(g, true);
	if (r < 0) {
		freeze_done(l, false);
		return;
	}
	http_stream_handle(s, &handler, l);
	freeze_poll(&l->poll);
}

/* ---- leaving FROZEN ---- */

static int run_again(struct life *l, struct err *e)
{
	int r = l->g->root_less ? 0 : cgroup_freeze_all(l->g, false);

	if (r < 0)
		return err_errno(e, -r, "thaw the workload");
	l->state = LIFE_RUNNING;
	l->nonce[0] = '\0';
	return 0;
}

static void answer_state(struct http_stream *s, const struct life *l)
{
	json_t *v = json_object();

	json_set_take(
	    v, "state",
	    json_string(l->state == LIFE_RUNNING ? "running" : "frozen"));
	reply_json_take(s, 200, v);
}

void life_continue(struct guestd *g, struct http_stream *s, const void *body,
		   size_t n)
{
	struct life *l = g->life;
	char nonce[RENEW_NONCE_MAX];
	int64_t realtime_ns = 0;
	struct err e = { 0 };

	if (!read_nonce(s, body, n, true, nonce, &realtime_ns))
		return;
	if (l->state != LIFE_FROZEN || l->freezing || !*l->nonce ||
	    strcmp(l->nonce, nonce) != 0) {
		reply_wrong_state(s,
				  "the workload is not frozen with this "
				  "nonce",
				  NULL);
		return;
	}
	if (renew_clock(g, realtime_ns, &e) < 0 || run_again(l, &e) < 0)
		reply_err(s, &e);
	else
		answer_state(s, l);
}

void life_thaw(struct guestd *g, struct http_stream *s, const void *body,
	       size_t n)
{
	struct life *l = g->life;
	struct err e = { 0 };

	(void)body;
	(void)n;
	if (l->freezing || l->state == LIFE_FROZEN) {
		reply_wrong_state(s,
				  "a frozen guest runs again only after a "
				  "renewal",
				  "call renew first, or continue with the "
				  "nonce of the freeze");
		return;
	}
	if (l->state == LIFE_RENEWED && run_again(l, &e) < 0)
		reply_err(s, &e);
	else
		answer_state(s, l);
}

void life_finish(struct guestd *g, struct http_stream *s, const void *body,
		 size_t n)
{
	(void)body;
	(void)n;
	finish_start(g, s);
}

void life_shutdown(struct guestd *g, struct http_stream *s, const void *body,
		   size_t n)
{
	(void)body;
	(void)n;
	log_info("shutdown", "asked=host");
	if (g->execs)
		execs_shutdown(g->execs);
	shutdown_start(g, s);
}
