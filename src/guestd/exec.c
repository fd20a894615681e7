/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/check.h"
#include "base/text.h"
#include "guestd/cgroup.h"
#include "guestd/exec_child.h"
#include "guestd/exec_kill.h"
#include "guestd/exec_pty.h"
#include "guestd/exec_stream.h"
#include "proto/data.h"

#define RSS_MARGIN (256u << 10)

void exec_ref(struct exec *x)
{
	x->refs++;
}

void exec_drop_cgroup(struct exec *x)
{
	if (x->cgroup < 0)
		return;
	/* busy while something was left behind: swept later */
	(void)cgroup_remove(x->g->held.workload, x->id);
	x->cgroup = fd_close(x->cgroup);
}

void exec_unref(struct exec *x)
{
	CHECK(x->refs > 0);
	if (--x->refs > 0)
		return;
	exec_output_stop(x);
	exec_stdin_fini(x);
	loop_io_del(&x->report_io);
	fd_close(x->report_fd);
	loop_timer_del(&x->timeout);
	loop_timer_del(&x->drain);
	loop_timer_del(&x->kill);
	loop_timer_del(&x->retry);
	loop_timer_del(&x->rest);
	loop_defer_del(&x->wake);
	children_del(&x->child);
	fd_close(x->pty);
	exec_drop_cgroup(x);
	execlog_fini(&x->log);
	spec_fini(&x->spec);
	free(x->refused);
	free(x);
}

/* ---- the beginning ---- */

static void expire(struct exec *x, const char *why)
{
	x->state = EXEC_ST_EXPIRED;
	x->ended_ms = loop_now_ms(x->g->loop);
	exec_streams_close(x, why, false);
}

static void on_nobody_came(struct loop_timer *t)
{
	expire(container_of(t, struct exec, timeout), "expired");
}

struct exec *exec_new(struct execs *s, struct exec_spec *spec)
{
	struct exec *x = xnew(struct exec);

	x->g = s->g;
	x->spec = *spec;
	*spec = (struct exec_spec){ 0 };
	snprintf(x->id, sizeof(x->id), "%s", x->spec.id);
	x->refs = 1;
	x->state = EXEC_ST_CREATED;
	x->created_at_ms = now_unix_ms();
	x->cgroup = x->report_fd = x->pty = -1;
	x->fact.code = x->fact.signo = -1;
	list_init(&x->link);
	list_init(&x->followers);
	list_init(&x->waiters);
	exec_stdin_init(x);
	execlog_init(&x->log, x->spec.keep_bytes, &s->log_bytes);
	if (x->spec.block) {
		x->log.slack = EXEC_SLACK_BYTES;
		execlog_set_floor(&x->log, 0);
	}
	for (int i = 0; i < 2; i++) {
		x->pipes[i].exec = x;
		x->pipes[i].fd = -1;
		x->pipes[i].kind = i == 0 ? EXEC_STDOUT : EXEC_STDERR;
	}
	if (x->spec.has_pty)
		x->pipes[0].kind = EXEC_PTY;
	loop_timer_set(s->g->loop, &x->timeout, EXEC_ATTACH_MS, on_nobody_came);
	return x;
}

/* ---- the end ---- */

static void find_left_behind(struct exec *x)
{
	ssize_t n;

	if (x->cgroup < 0)
		return;
	n = cgroup_pids(x->cgroup, x->fact.left, EXEC_LEFT_MAX);
	if (n > 0)
		x->fact.n_left = n < EXEC_LEFT_MAX ? (size_t)n : EXEC_LEFT_MAX;
}

/*
 * wait4() counts what the child was before it became the program: guestd's own
 * pages. Where those were more, the cgroup's peak is the better bound.
 */
static void correct_rss(struct exec *x)
{
	struct exec_fact *f = &x->fact;
	int64_t peak = cgroup_value(x->cgroup, "memory.peak", "");

	if (peak > 0 && f->max_rss_bytes <= x->fork_rss_bytes + RSS_MARGIN &&
	    (uint64_t)peak < f->max_rss_bytes)
		f->max_rss_bytes = (uint64_t)peak;
}

static void end(struct exec *x)
{
	int64_t cpu_us;

	find_left_behind(x);
	correct_rss(x);
	exec_output_stop(x);
	loop_timer_del(&x->drain);
	cpu_us = cgroup_value(x->cgroup, "cpu.stat", "usage_usec");
	if (cpu_us >= 0)
		x->fact.cpu_ms = (uint64_t)cpu_us / 1000;
	exec_stdin_fini(x);
	x->pty = fd_close(x->pty);
	x->state = EXEC_ST_ENDED;
	x->ended_ms = loop_now_ms(x->g->loop);
	x->ended_at_ms = now_unix_ms();
	x->g->execs->n_live--;
	if (x->fact.n_left == 0)
		exec_drop_cgroup(x);
	exec_streams_wake(x);
}

void exec_check_end(struct exec *x)
{
	if (x->state == EXEC_ST_DRAINING && exec_output_done(x) &&
	    !x->is_killed)
		end(x);
}

static void on_drain(struct loop_timer *t)
{
	struct exec *x = container_of(t, struct exec, drain);

	exec_output_drain(x);
	/* those who are being killed have their own deadline */
	if (x->is_killed)
		loop_timer_set(x->g->loop, &x->drain, EXEC_DRAIN_MS, on_drain);
	else if (x->state == EXEC_ST_DRAINING)
		end(x);
}

static void begin_drain(struct exec *x)
{
	x->state = EXEC_ST_DRAINING;
	loop_timer_set(x->g->loop, &x->drain, EXEC_DRAIN_MS, on_drain);
	exec_output_drain(x);
}

/* A shell passes the end of its last program on as 128 + SIGKILL. */
static bool was_out_of_memory(const struct exec *x)
{
	const struct exec_fact *f = &x->fact;

	return (f->signo == SIGKILL || f->code == 128 + SIGKILL) &&
	       cgroup_value(x->cgroup, "memory.events", "oom_kill") > 0;
}

static void find_reason(struct exec *x, int status)
{
	struct exec_fact *f = &x->fact;

	if (WIFEXITED(status)) {
		f->reason = EXEC_EXITED;
		f->code = WEXITSTATUS(status);
	} else if (WIFSIGNALED(status)) {
		f->reason = EXEC_SIGNALED;
		f->signo = WTERMSIG(status);
	} else {
		f->reason = EXEC_UNKNOWN;
	}
	if (x->timed_out)
		f->reason = EXEC_TIMEOUT;
	else if (x->guest_ends && f->reason == EXEC_SIGNALED)
		f->reason = EXEC_GUEST_ENDED;
	else if (was_out_of_memory(x))
		f->reason = EXEC_OOM;
}

void exec_on_exit(struct child *c, int status, const struct rusage *ru)
{
	struct exec *x = container_of(c, struct exec, child);
	struct exec_fact *f = &x->fact;

	f->wall_ms = (now_mono_us() - x->began_us) / 1000;
	f->cpu_ms = (uint64_t)ru->ru_utime.tv_sec * 1000 +
		    (uint64_t)ru->ru_utime.tv_usec / 1000 +
		    (uint64_t)ru->ru_stime.tv_sec * 1000 +
		    (uint64_t)ru->ru_stime.tv_usec / 1000;
	f->max_rss_bytes = (uint64_t)ru->ru_maxrss << 10;
	find_reason(x, status);
	if (x->state == EXEC_ST_STARTING)
		return; /* the report decides what this was */
	loop_timer_del(&x->timeout);
	begin_drain(x);
	exec_check_end(x);
}

static void on_timeout(struct loop_timer *t)
{
	struct exec *x = container_of(t, struct exec, timeout);

	/* in the same moment: then it was not the time that ended it */
	if (exec_leader_has_ended(x))
		return;
	x->timed_out = true;
	exec_kill_tree(x);
}

/* ---- the start, once the child has told how it went ---- */

void exec_started(struct exec *x)
{
	x->state = EXEC_ST_RUNNING;
	loop_timer_del(&x->timeout);
	if (x->spec.timeout_ms && x->child.pid)
		loop_timer_set(x->g->loop, &x->timeout, x->spec.timeout_ms,
			       on_timeout);
	exec_waiters_answer(x, NULL);
	/* it ended before we heard that it began */
	if (!x->child.pid)
		begin_drain(x);
	exec_output_resume(x);
	exec_streams_wake(x);
	exec_check_end(x);
}

void exec_refused(struct exec *x, const struct exec_report *r)
{
	x->g->execs->n_live--;
	loop_timer_del(&x->timeout);
	children_del(&x->child);
	exec_output_stop(x);
	exec_stdin_fini(x);
	x->pty = fd_close(x->pty);
	exec_drop_cgroup(x);
	exec_ref(x);
	x->refused = xnew(struct exec_report);
	*x->refused = *r;
	expire(x, "not_started");
	exec_waiters_answer(x, r);
	if (x->spec.start_now)
		execs_remove(x);
	exec_unref(x);
}

/* ---- calls ---- */

int exec_signal(struct exec *x, int signo, bool tree)
{
	/* After the leader was reaped its number may be somebody else's; the
	 * tree is still known by its cgroup. */
	if (!x->child.pid && (!tree || x->cgroup < 0))
		return -ESRCH;
	if (tree && x->cgroup >= 0)
		return cgroup_signal(x->cgroup, signo) > 0 ? 0 : -ESRCH;
	if (kill(tree ? -x->pid : x->pid, signo) < 0) {
		/* setsid has not run yet: there is no group so far */
		if (errno != ESRCH || !tree || kill(x->pid, signo) < 0)
			return -errno;
	}
	return 0;
}

int exec_resize(struct exec *x, struct exec_size size)
{
	if (!x->spec.has_pty)
		return -ENOTTY;
	if (x->state == EXEC_ST_ENDED || x->state == EXEC_ST_EXPIRED)
		return -ESRCH;
	x->spec.size = size;
	return x->pty < 0 ? 0 : pty_resize(x->pty, size);
}

void execs_shutdown(struct execs *s)
{
	struct exec *x;

	list_for_each (x, &s->all, link) {
		if (!x->child.pid)
			continue;
		x->guest_ends = true;
		(void)exec_signal(x, SIGKILL, true);
	}
}
