/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tunnel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/line.h"
#include "cli/outlet.h"

#define PIECE	    32768u
#define MESSAGE_MAX 65536u
#define HOLD_BYTES  262144u
#define RELEASE_AT  131072u
#define LINGER_MS   2000u

struct tunnel {
	struct loop *loop;
	struct line *line;
	struct outlet out;
	struct loop_io io;	/* in */
	struct loop_defer file; /* in, where it cannot be waited for */
	bool is_file;
	int in_fd, out_fd;
	uint8_t pending[PIECE]; /* read, not yet taken by the line */
	size_t n_pending;
	bool has_pending; /* also for the empty one: the end */
	bool opened;
	bool in_ended, end_sent;  /* from here */
	bool far_ended, out_shut; /* from there */
	bool held;
	struct loop_timer linger;
	void (*on_over)(void *arg, struct tunnel *t, bool opened,
			const struct fault *f, const struct err *e);
	void *arg;
};

struct tunnel *tunnel_free(struct tunnel *t)
{
	if (!t)
		return NULL;
	t->line = line_free(t->line);
	outlet_fini(&t->out);
	loop_io_del(&t->io);
	loop_defer_del(&t->file);
	loop_timer_del(&t->linger);
	fd_close(t->in_fd);
	fd_close(t->out_fd);
	free(t);
	return NULL;
}

static void over(struct tunnel *t, const struct fault *f, const struct err *e)
{
	t->on_over(t->arg, t, t->opened, f, e);
	tunnel_free(t);
}

static void on_linger(struct loop_timer *timer)
{
	over(container_of(timer, struct tunnel, linger), NULL, NULL);
}

/* Both directions have ended and all is written: the server closes, or we do
 * if it does not. */
static void maybe_over(struct tunnel *t)
{
	if (!t->end_sent || !t->out_shut)
		return;
	if (!t->line) {
		over(t, NULL, NULL);
	} else if (!t->linger.loop) {
		line_close(t->line);
		loop_timer_set(t->loop, &t->linger, LINGER_MS, on_linger);
	}
}

static void shut_out(struct tunnel *t)
{
	if (!t->far_ended || t->out.n_bytes > 0 || t->out_shut)
		return;
	t->out_shut = true;
	if (shutdown(t->out_fd, SHUT_WR) < 0) { /* a pipe: closing says it */
		outlet_fini(&t->out);
		t->out_fd = fd_close(t->out_fd);
	}
	maybe_over(t);
}

/* ---- there ---- */

static void read_in(struct tunnel *t);

static void on_in(struct loop_io *io, unsigned events)
{
	(void)events;
	read_in(container_of(io, struct tunnel, io));
}

static void on_file(struct loop_defer *d)
{
	read_in(container_of(d, struct tunnel, file));
}

static void watch_in(struct tunnel *t, bool on)
{
	if (!on) {
		loop_io_del(&t->io);
		loop_defer_del(&t->file);
		return;
	}
	if (t->is_file) {
		loop_defer_add(t->loop, &t->file, on_file);
	} else if (!t->io.loop &&
		   loop_io_add(t->loop, &t->io, t->in_fd, LOOP_IN, on_in) < 0) {
		t->is_file = true;
		loop_defer_add(t->loop, &t->file, on_file);
	}
}

static void push(struct tunnel *t)
{
	if (t->has_pending && line_send(t->line, t->pending, t->n_pending)) {
		t->has_pending = false;
		t->end_sent = t->in_ended;
	}
	watch_in(t, t->opened && !t->has_pending && !t->in_ended);
	maybe_over(t);
}

static void read_in(struct tunnel *t)
{
	ssize_t n;

	if (t->has_pending || t->in_ended)
		return;
	n = read(t->in_fd, t->pending, sizeof(t->pending));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* a reset here ends the whole; there it is the same as a cut */
	if (n < 0) {
		over(t, NULL, NULL);
		return;
	}
	t->n_pending = (size_t)n;
	t->has_pending = true;
	t->in_ended = n == 0;
	push(t);
}

/* ---- here ---- */

static void on_progress(struct outlet *o, uint64_t offset)
{
	struct tunnel *t = container_of(o, struct tunnel, out);

	(void)offset;
	if (t->held && o->n_bytes <= RELEASE_AT) {
		t->held = false;
		line_hold(t->line, false);
	}
	shut_out(t);
}

static void on_broken(struct outlet *o)
{
	/* nobody reads here any more: the guest's side is cut as well */
	over(container_of(o, struct tunnel, out), NULL, NULL);
}

static void on_message(void *arg, bool is_text, const uint8_t *p, size_t n)
{
	struct tunnel *t = arg;

	if (is_text || t->far_ended)
		return;
	if (n == 0) {
		t->far_ended = true;
		shut_out(t);
		return;
	}
	outlet_put(&t->out, 0, p, n, 0);
	if (t->out.n_bytes > HOLD_BYTES && !t->held) {
		t->held = true;
		line_hold(t->line, true);
	}
}

static void on_open(void *arg)
{
	struct tunnel *t = arg;

	t->opened = true;
	push(t);
}

static void on_writable(void *arg)
{
	push(arg);
}

static void on_end(void *arg, const struct fault *f, const struct err *e)
{
	struct tunnel *t = arg;
	bool proper = t->end_sent && t->far_ended;

	/* what came before the end is still for the reader here */
	if (proper && t->out.n_bytes > 0) {
		t->line = line_free(t->line);
		return;
	}
	over(t, f, proper ? NULL : e);
}

static const struct line_ops line_ops = { .on_open = on_open,
					  .on_message = on_message,
					  .on_writable = on_writable,
					  .on_end = on_end };

struct tunnel *
tunnel_new_take(struct loop *l, const struct context *ctx, const char *sandbox,
		uint16_t port, int in, int out,
		void (*on_over)(void *arg, struct tunnel *t, bool opened,
				const struct fault *f, const struct err *e),
		void *arg)
{
	struct tunnel *t = xnew(struct tunnel);
	owned_str path = xasprintf("/v1/sandboxes/%s/ports/%u/tunnel", sandbox,
				   (unsigned)port);

	t->loop = l;
	t->in_fd = in;
	t->out_fd = out;
	t->on_over = on_over;
	t->arg = arg;
	outlet_init(&t->out, l, out, out, on_progress, on_broken);
	t->line =
	    line_open(l, ctx, path, NULL, NULL, MESSAGE_MAX, &line_ops, t);
	return t;
}
