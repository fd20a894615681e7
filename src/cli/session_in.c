/* SPDX-License-Identifier: Apache-2.0 */

/* A session's input: descriptor 0, the terminal, and signals. */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "cli/session_int.h"
#include "cli/tty.h"

#define PIECE 32768u
/* keys that the escape parser may have held back come on top */
#define SLACK (ESCAPE_KEYS_MAX + 1u)

static const char help_text[] =
    "\r\n"
    "  ~.   detach; the command runs on\r\n"
    "  ~^Z  suspend this program\r\n"
    "  ~~   one ~\r\n"
    "  ~?   this help\r\n"
    "(at the start of a line; the detach keys work anywhere)\r\n";

static void leave_by_keys(struct session *s)
{
	owned_str hint = session_hint(s);

	tty_cooked();
	s->raw = false;
	fprintf(stderr, "\ncaisson: detached; to come back: %s\n", hint);
	s->end->detached = true;
	session_stop(s, 0);
}

static void resize(struct session *s)
{
	unsigned cols, rows;

	if (tty_size(STDOUT_FILENO, &cols, &rows)) {
		attach_size(&s->a, cols, rows);
		session_push(s);
	}
}

/* As Ctrl-Z for a program that has cooked keys; returns when it goes on. */
static void suspend_here(struct session *s)
{
	tty_cooked();
	s->raw = false;
	raise(SIGTSTP);
	s->raw = tty_raw(STDIN_FILENO) == 0;
	resize(s);
}

static void on_keys(struct session *s, const uint8_t *p, size_t n)
{
	enum escape_event ev = ESCAPE_NONE;
	struct buf out;

	buf_init(&out, 0);
	while (n > 0 && ev != ESCAPE_DETACH) {
		size_t eaten = escape_feed(&s->escape, p, n, &out, &ev);

		p += eaten;
		n -= eaten;
		if (ev == ESCAPE_HELP)
			fputs(help_text, stderr);
		else if (ev == ESCAPE_SUSPEND)
			suspend_here(s);
	}
	if (buf_len(&out) > 0)
		attach_stdin(&s->a, buf_data(&out), buf_len(&out));
	buf_fini(&out);
	if (ev == ESCAPE_DETACH)
		leave_by_keys(s);
}

static void at_end(struct session *s)
{
	s->in_eof = true;
	if (s->raw) /* the terminal is gone: nobody types ^D by that */
		leave_by_keys(s);
	else
		attach_stdin_end(&s->a);
}

static void read_some(struct session *s)
{
	uint8_t bytes[PIECE];
	size_t room = attach_stdin_room(&s->a);
	ssize_t n;

	if (room <= SLACK || s->in_eof)
		return;
	room -= SLACK;
	n = read(STDIN_FILENO, bytes, room > PIECE ? PIECE : room);
	if (n > 0 && s->raw)
		on_keys(s, bytes, (size_t)n);
	else if (n > 0)
		attach_stdin(&s->a, bytes, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		at_end(s);
	session_push(s);
}

static void on_stdin(struct loop_io *io, unsigned events)
{
	(void)events;
	read_some(container_of(io, struct session, in));
}

static void on_stdin_file(struct loop_defer *d)
{
	read_some(container_of(d, struct session, in_again));
}

void session_in_update(struct session *s)
{
	bool want = s->spec->with_stdin && !s->in_eof && !s->leaving &&
		    attach_stdin_room(&s->a) > SLACK;

	/* keys before the terminal is raw are the line discipline's */
	if (s->spec->tty && !s->raw)
		want = false;
	if (!want) {
		loop_io_del(&s->in); /* not only unset: a hang-up would spin */
		loop_defer_del(&s->in_again);
	} else if (s->in_is_file) {
		loop_defer_add(s->loop, &s->in_again, on_stdin_file);
	} else if (!s->in.loop) {
		/* a file or /dev/null cannot be waited for */
		if (loop_io_add(s->loop, &s->in, STDIN_FILENO, LOOP_IN,
				on_stdin) < 0) {
			s->in_is_file = true;
			loop_defer_add(s->loop, &s->in_again, on_stdin_file);
		}
	}
}

void session_in_started(struct session *s)
{
	if (!s->spec->tty)
		return;
	if (s->spec->with_stdin && !s->raw)
		s->raw = tty_raw(STDIN_FILENO) == 0;
	resize(s);
}

/* ---- signals ---- */

static void on_signal(struct loop_signal *g)
{
	struct session *s = container_of(g, struct session_signal, sig)->owner;
	int which = g->signo;

	if (which == SIGWINCH) {
		resize(s);
		return;
	}
	s->end->last_signal = which;
	if (s->n_signals++ > 0 || s->raw || s->spec->watch ||
	    !s->a.ever_started) {
		owned_str hint = session_hint(s);

		tty_cooked();
		s->raw = false;
		if (s->a.ever_started)
			session_say(s, "the command runs on; to come back: %s",
				    hint);
		s->end->interrupted = true;
		session_stop(s, 0);
		return;
	}
	attach_signal(&s->a, which == SIGINT   ? "INT"
			     : which == SIGHUP ? "HUP"
					       : "TERM");
	if (!s->a.up)
		session_say(s, "the signal goes out when the connection is "
			       "back; once more to leave");
	session_push(s);
}

int session_in_start(struct session *s, struct err *e)
{
	static const int numbers[SESSION_SIGNALS] = { SIGINT, SIGTERM, SIGHUP,
						      SIGWINCH };
	const char *keys = s->spec->detach_keys;
	int r;

	r = escape_init(&s->escape, keys ? keys : "ctrl-p,ctrl-q",
			!s->spec->no_escapes, e);
	if (r < 0)
		return r;
	for (int i = 0; i < SESSION_SIGNALS; i++) {
		if (numbers[i] == SIGWINCH && !s->spec->tty)
			continue;
		s->signals[i].owner = s;
		CHECK(loop_signal_add(s->loop, &s->signals[i].sig, numbers[i],
				      on_signal) == 0);
	}
	return 0;
}

void session_in_stop(struct session *s)
{
	tty_cooked();
	s->raw = false;
	loop_io_del(&s->in);
	loop_defer_del(&s->in_again);
	for (int i = 0; i < SESSION_SIGNALS; i++)
		loop_signal_del(&s->signals[i].sig);
}
