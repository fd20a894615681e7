/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/jget.h"
#include "cli/session_int.h"
#include "net/json.h"

#define PAUSE_MIN_MS 100u
#define PAUSE_MAX_MS 2000u
#define ACK_MS	     200u
#define LINGER_MS    1000u
#define HOLD_BYTES   262144u
#define RELEASE_AT   131072u

void session_say(const struct session *s, const char *fmt, ...)
{
	va_list ap;

	fputs("caisson: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs(s->raw ? "\r\n" : "\n", stderr);
}

char *session_hint(const struct session *s)
{
	return xasprintf("caisson attach %s %s --from %" PRIu64,
			 s->spec->sandbox, s->spec->exec, s->a.done);
}

void session_stop(struct session *s, int ret)
{
	s->ret = ret;
	loop_stop(s->loop, 0);
}

/* ---- sending ---- */

static void on_ack(struct loop_timer *t)
{
	struct session *s = container_of(t, struct session, ack);

	attach_ack(&s->a);
	session_push(s);
}

void session_push(struct session *s)
{
	while (s->line) {
		if (buf_len(&s->pending) == 0 &&
		    !attach_next(&s->a, &s->pending))
			break;
		if (!line_send(s->line, buf_data(&s->pending),
			       buf_len(&s->pending)))
			break;
		buf_clear(&s->pending);
	}
	if (attach_ack_waits(&s->a) && !s->ack.loop)
		loop_timer_set(s->loop, &s->ack, ACK_MS, on_ack);
	session_in_update(s);
}

/* ---- ending ---- */

static void on_linger(struct loop_timer *t)
{
	session_stop(container_of(t, struct session, linger), 0);
}

/* Everything is said: let the last frames out, then go. */
static void leave(struct session *s)
{
	if (s->leaving)
		return;
	s->leaving = true;
	session_push(s);
	if (!s->line) {
		session_stop(s, 0);
		return;
	}
	line_close(s->line);
	loop_timer_set(s->loop, &s->linger, LINGER_MS, on_linger);
}

static void maybe_over(struct session *s)
{
	if (s->end->fact && s->a.done == s->a.next && s->out.n_bytes == 0)
		leave(s);
}

static void on_progress(struct outlet *o, uint64_t offset)
{
	struct session *s = container_of(o, struct session, out);

	attach_done(&s->a, offset);
	if (s->held && o->n_bytes <= RELEASE_AT && s->line) {
		s->held = false;
		line_hold(s->line, false);
	}
	session_push(s);
	maybe_over(s);
}

static void on_broken(struct outlet *o)
{
	struct session *s = container_of(o, struct session, out);

	if (o->error != -EPIPE && o->error != -ECONNRESET) {
		owned_str hint = session_hint(s);

		session_say(s, "cannot write the output: %s; to go on: %s",
			    strerror(-o->error), hint);
		session_stop(s, CLI_OURS);
		return;
	}
	/* as in a pipeline here: who writes to a reader that left is told */
	s->end->reader_gone = true;
	attach_signal(&s->a, "PIPE");
	leave(s);
}

/* ---- receiving ---- */

static void put_json(struct session *s, const char *key, json_t *value_take)
{
	owned_json v = json_object();
	owned_str text = NULL;
	owned_str lf = NULL;

	json_set_take(v, key, value_take);
	text = json_text(v);
	lf = xasprintf("%s\n", text);
	outlet_put(&s->out, 0, lf, strlen(lf), s->a.next);
}

static void put_json_output(struct session *s, const struct attach_event *ev)
{
	static const char *const streams[] = { "", "stdout", "stderr", "pty" };
	owned_str b64 = xcalloc(text_base64_len(ev->n) + 1, 1);
	owned_str line = NULL;

	text_base64(ev->p, ev->n, b64);
	line = xasprintf("{\"offset\":%" PRIu64
			 ",\"stream\":\"%s\",\"b64\":\"%s\"}\n",
			 s->a.next - ev->n, streams[ev->stream], b64);
	outlet_put(&s->out, 0, line, strlen(line), s->a.next);
}

static void on_gap(struct session *s, const struct attach_event *ev)
{
	session_say(s,
		    "%" PRIu64 " bytes of output are gone (%" PRIu64
		    " to %" PRIu64 ")",
		    ev->to - ev->from, ev->from, ev->to);
	if (s->spec->cli->json)
		put_json(s, "gap",
			 json_pack("{s:I,s:I}", "from", (json_int_t)ev->from,
				   "to", (json_int_t)ev->to));
	else if (ev->n == 0)
		outlet_put(&s->out, 0, NULL, 0, s->a.next);
}

static void on_event(struct session *s, const struct attach_event *ev)
{
	if (ev->type == ATTACH_STARTED) {
		session_in_started(s);
	} else if (ev->type == ATTACH_CLOSING) {
		s->final = json_is_false(json_object_get(ev->body, "retry"));
		jget_shown(ev->body, "reason", "no reason given", s->closing,
			   sizeof(s->closing));
	} else if (ev->type == ATTACH_EXIT) {
		s->end->fact = json_incref(ev->body);
		if (s->spec->cli->json)
			put_json(s, "exit", json_incref(ev->body));
	}
	if (ev->type == ATTACH_GAP)
		on_gap(s, ev);
	if (ev->n > 0 && s->spec->cli->json)
		put_json_output(s, ev);
	else if (ev->n > 0)
		outlet_put(&s->out, ev->stream == 2, ev->p, ev->n, s->a.next);
}

static void on_message(void *arg, bool is_text, const uint8_t *p, size_t n)
{
	struct session *s = arg;
	struct attach_event ev;
	struct err e = { 0 };

	s->progress_ms = loop_now_ms(s->loop);
	s->pause_ms = PAUSE_MIN_MS;
	s->lost_told = s->minted = false;
	if (is_text)
		return; /* none is defined; a newer server's */
	if (attach_take(&s->a, p, n, &ev, &e) < 0) {
		session_stop(s, cli_fail(s->spec->cli, &e));
		return;
	}
	on_event(s, &ev);
	json_decref(ev.body);
	if (s->out.n_bytes > HOLD_BYTES && !s->held) {
		s->held = true;
		line_hold(s->line, true);
	}
	session_push(s);
	maybe_over(s);
}

static void on_open(void *arg)
{
	struct session *s = arg;

	s->was_up = true;
	attach_up(&s->a);
	session_push(s);
}

static void on_writable(void *arg)
{
	session_push(arg);
}

/* ---- connecting ---- */

static void on_line_end(void *arg, const struct fault *f, const struct err *e);

static const struct line_ops line_ops = { .on_open = on_open,
					  .on_message = on_message,
					  .on_writable = on_writable,
					  .on_end = on_line_end };

/* A token for this exec, made by the context's key. Blocks for 5 s at most;
 * nothing else is going on without a connection. */
static int mint(struct session *s, struct fault *f, struct err *e)
{
	owned_str path = xasprintf("/v1/execs/%s/token", s->spec->exec);
	owned_json body = json_object();
	owned_json answer = NULL;
	const char *token;
	int r = client_call(s->spec->control, CLIENT_CONTROL, "POST", path,
			    body, 5, &answer, NULL, f, e);

	if (r != CLIENT_OK)
		return r;
	token =
	    jget_str(answer, "token", jget_str(answer, "attach.token", NULL));
	if (!token)
		return err_set(e, -EBADMSG, ERR_INTERNAL,
			       "the server's answer holds no token");
	free(s->token);
	s->token = xstrdup(token);
	return 0;
}

static void connect_now(struct session *s)
{
	owned_str path =
	    xasprintf("/v1/execs/%s/attach?from=%" PRIu64 "%s", s->spec->exec,
		      s->a.next, s->spec->watch ? "&watch=1" : "");
	struct fault f = { 0 };
	struct err e = { 0 };
	int r = s->token ? 0 : mint(s, &f, &e);

	if (r) {
		on_line_end(s, r == CLIENT_FAULT ? &f : NULL,
			    r == CLIENT_FAULT ? NULL : &e);
		return;
	}
	s->line =
	    line_open(s->loop, client_context(s->spec->control), path, s->token,
		      ATTACH_PROTOCOL, ATTACH_MESSAGE_MAX, &line_ops, s);
}

static void on_again(struct loop_timer *t)
{
	connect_now(container_of(t, struct session, again));
}

static bool passing(const struct fault *f)
{
	return f->status == 429 || f->status == 500 || f->status == 502 ||
	       f->status == 503 || f->status == 504;
}

static void give_up(struct session *s)
{
	owned_str hint = session_hint(s);

	session_say(
	    s, "no connection for %" PRIu64 " s; the command may still run: %s",
	    s->spec->give_up_ms / 1000, hint);
	session_stop(s, CLI_OURS);
}

static void closed_for_good(struct session *s)
{
	owned_str hint = session_hint(s);

	if (!strcmp(s->closing, "replaced"))
		session_say(s,
			    "another client took this command over; to take "
			    "it back: %s",
			    hint);
	else
		session_say(s,
			    "the server ended the stream (%s); the command may "
			    "still run: %s",
			    s->closing, hint);
	session_stop(s, CLI_OURS);
}

static void refused(struct session *s, const struct fault *f)
{
	int ret = cli_fault(s->spec->cli, f);

	/* it was there a moment ago: 127 would blame a name */
	if (ret == CLI_NOT_FOUND && s->a.ever_started)
		ret = CLI_OURS;
	session_stop(s, ret);
}

static void tell_lost(struct session *s, const struct fault *f,
		      const struct err *e)
{
	if (s->lost_told)
		return;
	s->lost_told = true;
	if (s->was_up)
		session_say(s,
			    "connection lost at byte %" PRIu64 ", resuming …",
			    s->a.next);
	else
		session_say(s, "cannot attach yet (%s), trying again …",
			    f	? f->message
			    : e ? e->msg
				: "no reason given");
}

static void on_line_end(void *arg, const struct fault *f, const struct err *e)
{
	struct session *s = arg;

	attach_down(&s->a);
	buf_clear(&s->pending);
	loop_timer_del(&s->ack);
	s->held = false;
	if (s->leaving) {
		session_stop(s, 0);
	} else if (s->end->fact) {
		maybe_over(s);
	} else if (s->final) {
		closed_for_good(s);
	} else if (f && f->status == 401 && s->token && !s->minted) {
		s->minted = true;
		free(s->token);
		s->token = NULL;
		loop_timer_set(s->loop, &s->again, 0, on_again);
	} else if (f && !passing(f)) {
		refused(s, f);
	} else if (loop_now_ms(s->loop) - s->progress_ms >
		   s->spec->give_up_ms) {
		give_up(s);
	} else {
		tell_lost(s, f, e);
		loop_timer_set(s->loop, &s->again, s->pause_ms, on_again);
		s->pause_ms = s->pause_ms * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS
							     : s->pause_ms * 2;
	}
	/* f and e may live in it */
	s->line = line_free(s->line);
}

/* ---- the whole ---- */

static void session_fini(struct session *s)
{
	session_in_stop(s);
	s->line = line_free(s->line);
	loop_timer_del(&s->again);
	loop_timer_del(&s->ack);
	loop_timer_del(&s->linger);
	outlet_fini(&s->out);
	attach_fini(&s->a);
	buf_fini(&s->pending);
	free(s->token);
	loop_free(s->loop);
}

int session_run(const struct session_spec *spec, struct session_end *ret)
{
	struct session s = { .spec = spec,
			     .end = ret,
			     .pause_ms = PAUSE_MIN_MS };
	struct err e = { 0 };

	*ret = (struct session_end){ 0 };
	s.loop = loop_new();
	s.token = spec->token ? xstrdup(spec->token) : NULL;
	attach_init(&s.a, spec->from, spec->fresh, spec->watch);
	buf_init(&s.pending, ATTACH_MESSAGE_MAX);
	outlet_init(&s.out, s.loop, STDOUT_FILENO, STDERR_FILENO, on_progress,
		    on_broken);
	s.progress_ms = loop_now_ms(s.loop);
	if (session_in_start(&s, &e) < 0) {
		s.ret = cli_fail(spec->cli, &e);
	} else {
		loop_timer_set(s.loop, &s.again, 0, on_again);
		loop_run(s.loop);
	}
	session_fini(&s);
	return s.ret;
}

static void say_left_behind(const struct cli *c, const json_t *fact)
{
	const json_t *left = json_object_get(fact, "left_behind");
	owned_str pids = NULL;

	if (!c->verbose || json_array_size(left) == 0)
		return;
	pids = json_text(left);
	fprintf(stderr,
		"caisson: processes of the command that still hold its "
		"output: %s\n",
		pids);
}

int session_exit_code(const struct session_spec *spec,
		      const struct session_end *end)
{
	char note[256] = "";
	int ret = CLI_OK;

	if (end->interrupted)
		return 128 + end->last_signal;
	if (end->reader_gone)
		return 128 + 13; /* as if SIGPIPE had ended it */
	if (end->fact) {
		ret = exit_of_fact(end->fact, note, sizeof(note));
		say_left_behind(spec->cli, end->fact);
	}
	if (*note)
		fprintf(stderr, "caisson: %s\n", note);
	return ret;
}
