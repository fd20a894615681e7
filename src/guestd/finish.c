/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/finish.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <sys/reboot.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "guestd/children.h"
#include "guestd/renew.h"
#include "guestd/reply.h"

#define FINISH_MAX_MS	30000
#define SHUTDOWN_MAX_MS 5000

struct sync_job {
	struct guestd *g;
	struct child child;
	struct loop_timer deadline;
	struct http_stream *s; /* NULL: gone, or nobody waits */
	void (*done)(struct sync_job *j, bool ok);
};

/* The 8254 was left running by the boot; each of its ticks wakes the VMM, about
 * half of an idle guest's cost. Mode 0 with count 0: it stays silent. */
static void stop_pit(void)
{
	if (ioperm(0x40, 4, 1) < 0) {
		log_warn("pit", "error=%m");
		return;
	}
	outb(0x30, 0x43);
	outb(0, 0x40);
	outb(0, 0x40);
	(void)ioperm(0x40, 4, 0);
}

static void job_end(struct sync_job *j, bool ok)
{
	loop_timer_del(&j->deadline);
	children_del(&j->child);
	j->done(j, ok);
	free(j);
}

static void job_exit(struct child *c, int status, const struct rusage *ru)
{
	(void)ru;
	job_end(container_of(c, struct sync_job, child), status == 0);
}

static void job_deadline(struct loop_timer *t)
{
	struct sync_job *j = container_of(t, struct sync_job, deadline);

	(void)kill(j->child.pid, SIGKILL);
	job_end(j, false);
}

static void job_on_body(struct http_stream *s)
{
	(void)s;
}

static void job_on_close(struct http_stream *s, const struct err *e)
{
	struct sync_job *j = http_stream_owner(s);

	(void)e;
	if (j)
		j->s = NULL;
}

static const struct http_handler job_handler = {
	.on_body = job_on_body,
	.on_close = job_on_close,
};

/* sync, then drop the page cache if asked: in a child, because a dead file
 * system would hold us for ever. */
static void sync_start(struct guestd *g, struct http_stream *s, bool drop,
		       uint64_t timeout_ms,
		       void (*done)(struct sync_job *, bool))
{
	struct sync_job *j = xnew(struct sync_job);
	pid_t pid;

	j->g = g;
	j->s = s;
	j->done = done;
	if (s)
		http_stream_handle(s, &job_handler, j);
	pid = children_fork();
	if (pid == 0) {
		int fd;

		sync();
		fd = drop ? openat(g->held.proc, "sys/vm/drop_caches",
				   O_WRONLY | O_CLOEXEC)
			  : -1;
		_exit(drop && !g->root_less && write(fd, "3", 1) != 1);
	}
	if (pid < 0) {
		job_end(j, false);
		return;
	}
	j->child.is_worker = true;
	children_add(g->children, &j->child, pid, job_exit);
	loop_timer_set(g->loop, &j->deadline, timeout_ms, job_deadline);
}

static void finish_done(struct sync_job *j, bool ok)
{
	char source[64] = "";
	owned_fd fd = openat(j->g->held.sys,
			     "devices/system/clocksource/clocksource0/"
			     "current_clocksource",
			     O_RDONLY | O_CLOEXEC);
	char text[160];
	json_t *v;

	if (fd >= 0 && read(fd, source, sizeof(source) - 1) > 0)
		source[strcspn(source, "\n")] = '\0';
	/* what our own work left behind need not be in every child's memory */
	(void)malloc_trim(0);
	if (!j->s)
		return;
	http_stream_handle(j->s, &job_handler, NULL);
	if (!ok) {
		reply_error(j->s, 504, "timeout", NULL, NULL,
			    "the disk was not written back in time");
		return;
	}
	if (strcmp(source, "tsc") != 0 && strcmp(source, "kvm-clock") != 0) {
		snprintf(text, sizeof(text),
			 "the clock source is \"%s\"; a template needs tsc or "
			 "kvm-clock",
			 source);
		reply_wrong_state(j->s, text, "boot again on a calmer host");
		return;
	}
	v = json_object();
	json_set_take(v, "clocksource", json_string(source));
	json_set_take(v, "realtime_ns", json_integer(renew_realtime_ns()));
	reply_json_take(j->s, 200, v);
}

void finish_start(struct guestd *g, struct http_stream *s)
{
	if (!g->root_less)
		stop_pit();
	sync_start(g, s, true, FINISH_MAX_MS, finish_done);
}

static void shutdown_done(struct sync_job *j, bool ok)
{
	if (!ok)
		log_warn("shutdown", "error=\"disk not written back\"");
	if (j->g->root_less) {
		loop_stop(j->g->loop, 0);
		return;
	}
	(void)reboot(RB_POWER_OFF);
	/* no power switch: a reset ends the VMM as well (-no-reboot) */
	(void)reboot(RB_AUTOBOOT);
}

void shutdown_start(struct guestd *g, struct http_stream *s)
{
	http_stream_reply(s, 202, "application/json", "{}", 2);
	sync_start(g, NULL, false, SHUTDOWN_MAX_MS, shutdown_done);
}
