/* SPDX-License-Identifier: Apache-2.0 */

/* From an exec's pipes into its log. */

#include <errno.h>
#include <unistd.h>

#include "guestd/exec.h"
#include "guestd/exec_stream.h"

/* Read per pipe and round, so that one exec cannot keep the loop. */
#define ROUND_BYTES (512u << 10)
/* A pipe holds at most 256 KiB, a terminal less. */
#define DRAIN_BYTES (512u << 10)
#define RETRY_MS    50u
#define KEEP_FLOOR  65536u
/* A round that brings so much is a stream's, and more will follow. One that
 * brings as much as REST_MAX was worth its turn without a rest. */
#define REST_MIN 4096u
#define REST_MAX 131072u
#define REST_MS	 1u

static void pipe_close(struct exec_pipe *p)
{
	loop_io_del(&p->io);
	p->fd = fd_close(p->fd);
	p->waiting = p->resting = false;
}

static void on_pipe(struct loop_io *io, unsigned events);

/* A pipe that waits is not watched: epoll would report its hang-up for ever. */
static void pipe_wait(struct exec_pipe *p)
{
	loop_io_del(&p->io);
	p->waiting = true;
}

static void on_retry(struct loop_timer *t)
{
	exec_output_resume(container_of(t, struct exec, retry));
}

/*
 * When the memory for all logs is used up: a rolling log keeps less; one that
 * waits for readers keeps only what they need, and little of that. Each may
 * always hold something, so that all go on.
 */
static bool fits(struct exec_pipe *p)
{
	struct exec *x = p->exec;
	struct execs *s = x->g->execs;

	if (execs_log_fits(s) || x->state == EXEC_ST_DRAINING)
		return true;
	if (!x->spec.block && !x->writer) {
		if (x->log.keep_bytes > KEEP_FLOOR)
			x->log.keep_bytes /= 2;
		return true;
	}
	execlog_shrink(&x->log);
	if (execs_log_fits(s) || execlog_unread(&x->log) < KEEP_FLOOR)
		return true;
	pipe_wait(p);
	loop_timer_set(x->g->loop, &x->retry, RETRY_MS, on_retry);
	return false;
}

/*
 * What a pipe still holds when the leader has ended is taken whether or not a
 * reader keeps up: the log has to grow by that much only, and the exec is over
 * when it is over.
 */
static size_t room(const struct exec_pipe *p)
{
	const struct exec *x = p->exec;
	size_t n = execlog_room(&x->log);

	if (x->state == EXEC_ST_DRAINING && n < DRAIN_BYTES - p->drained)
		n = DRAIN_BYTES - p->drained;
	return n;
}

/* 1 = there may be more, 0 = nothing now, -1 = ended or waiting. */
static int pipe_read(struct exec_pipe *p, size_t *ret_n)
{
	struct exec *x = p->exec;
	size_t may = room(p), n;
	uint8_t *to;
	ssize_t r;

	if (may == 0) {
		pipe_wait(p);
		return -1;
	}
	if (!fits(p))
		return -1;
	to = execlog_reserve(&x->log, p->kind, &n);
	if (!to) {
		pipe_wait(p);
		loop_timer_set(x->g->loop, &x->retry, RETRY_MS, on_retry);
		return -1;
	}
	r = read(p->fd, to, n < may ? n : may);
	if (r > 0) {
		execlog_commit(&x->log, (size_t)r);
		if (x->state == EXEC_ST_DRAINING)
			p->drained += (size_t)r;
		*ret_n += (size_t)r;
		return 1;
	}
	if (r < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	pipe_close(p);
	return -1;
}

static void on_rest(struct loop_timer *t)
{
	struct exec *x = container_of(t, struct exec, rest);

	for (int i = 0; i < 2; i++)
		x->pipes[i].resting = false;
	exec_output_resume(x);
}

/*
 * A program that writes much wakes us at each write, and on one processor takes
 * its turn only after ours: eight kilobytes a turn, with a channel's write and
 * two switches of address spaces for each. Left alone for a moment it fills the
 * pipe instead.
 */
static void pipe_rest(struct exec_pipe *p, size_t n)
{
	struct exec *x = p->exec;

	if (p->fd < 0 || p->waiting || n < REST_MIN || n >= REST_MAX)
		return;
	pipe_wait(p);
	p->resting = true;
	if (!x->rest.loop)
		loop_timer_set(x->g->loop, &x->rest, REST_MS, on_rest);
}

static void pipe_run(struct exec_pipe *p)
{
	struct exec *x = p->exec;
	size_t n = 0;

	while (n < ROUND_BYTES && pipe_read(p, &n) == 1)
		;
	if (n > 0)
		exec_streams_wake(x);
	pipe_rest(p, n);
	exec_check_end(x);
}

static void on_pipe(struct loop_io *io, unsigned events)
{
	struct exec_pipe *p = container_of(io, struct exec_pipe, io);

	(void)events;
	/* Before the report nothing is read, so that a program that did not
	 * start has no output. */
	if (p->exec->state < EXEC_ST_RUNNING)
		pipe_wait(p);
	else
		pipe_run(p);
}

void exec_output_watch_take(struct exec *x, unsigned which, int fd)
{
	struct exec_pipe *p = &x->pipes[which];

	p->fd = fd;
	(void)loop_io_add(x->g->loop, &p->io, fd, LOOP_IN, on_pipe);
}

void exec_output_resume(struct exec *x)
{
	if (x->state < EXEC_ST_RUNNING || execlog_room(&x->log) == 0)
		return;
	for (int i = 0; i < 2; i++) {
		struct exec_pipe *p = &x->pipes[i];

		if (!p->waiting || p->resting)
			continue;
		p->waiting = false;
		(void)loop_io_add(x->g->loop, &p->io, p->fd, LOOP_IN, on_pipe);
	}
}

void exec_output_stop(struct exec *x)
{
	pipe_close(&x->pipes[0]);
	pipe_close(&x->pipes[1]);
	loop_timer_del(&x->retry);
	loop_timer_del(&x->rest);
}

bool exec_output_done(const struct exec *x)
{
	return x->pipes[0].fd < 0 && x->pipes[1].fd < 0;
}

void exec_output_drain(struct exec *x)
{
	for (int i = 0; i < 2; i++) {
		size_t n = 0;

		/* what a pipe can hold, not what a child goes on writing */
		while (x->pipes[i].fd >= 0 && n < ROUND_BYTES &&
		       pipe_read(&x->pipes[i], &n) == 1)
			;
	}
	exec_streams_wake(x);
}

void exec_room(struct exec *x)
{
	exec_output_resume(x);
}
