/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/supervise.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/user.h"
#include "cli/cg.h"
#include "cli/host.h"
#include "cli/logfile.h"
#include "cli/pginit.h"
#include "cli/unit.h"
#include "net/json.h"

#define UP_DEADLINE_MS 180000u /* first start of everything */
#define POLL_MS	       100u    /* of postmaster.pid while it starts */
#define ROTATE_MS      10000u
#define STATUS_WORDS   96

struct supervisor;

struct unit {
	struct supervisor *sv;
	enum unit_id id;
	struct loop_proc proc;
	struct loop_io ready_io;
	struct loop_timer timer; /* readiness: poll or deadline */
	uint64_t deadline_ms;
	int ready_fd;
	pid_t pid; /* 0 = none */
	char last_end[STATUS_WORDS];
};

struct supervisor {
	const struct stack *s;
	struct loop *loop;
	struct unit units[UNIT_MAX_];
	struct unit_track track[UNIT_MAX_];
	unsigned after[UNIT_MAX_];
	struct loop_timer next, rotate, deadline;
	struct loop_signal term, intr;
	int notify_fd;
	bool was_up;
	int status;
};

char *cg_path(const struct stack *s, const char *below)
{
	return xasprintf("%s/%s%s%s", s->cgroup_root, s->cgroup,
			 *below ? "/" : "", below);
}

int supervisor_lock(const struct stack *s, struct err *e)
{
	owned_str path = xasprintf("%s/supervisor.lock", s->run);
	owned_fd fd =
	    open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_errno(e, errno, "%s", path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			   ? -EWOULDBLOCK
			   : err_errno(e, errno, "lock %s", path);
	return take_fd(&fd);
}

static void notify(struct supervisor *sv, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void notify(struct supervisor *sv, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	if (sv->notify_fd < 0)
		return;
	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	/* whoever watched may have gone: no reason to stop */
	if (write_all(sv->notify_fd, line, (size_t)n) < 0)
		sv->notify_fd = fd_close(sv->notify_fd);
}

/* RUN/state.json: for `status`, and for a second `up`. */
static void publish(struct supervisor *sv)
{
	owned_str path = xasprintf("%s/state.json", sv->s->run);
	owned_json v = json_object();
	json_t *units = json_array();
	owned_str text = NULL;

	for (size_t i = 0; i < UNIT_MAX_; i++) {
		json_t *o = json_object();

		json_set_take(o, "name", json_string(unit_defs[i].name));
		json_set_take(o, "state",
			      json_string(unit_state_name(sv->track[i].state)));
		json_set_take(o, "task", json_boolean(unit_defs[i].once));
		json_set_take(o, "pid", json_integer(sv->units[i].pid));
		json_set_take(o, "restarts",
			      json_integer(sv->track[i].restarts));
		json_set_take(o, "last_end",
			      json_string(sv->units[i].last_end));
		json_array_append_new(units, o);
	}
	json_set_take(v, "pid", json_integer(getpid()));
	json_set_take(v, "up", json_boolean(sv->was_up));
	json_set_take(v, "control", json_string(sv->s->control));
	json_set_take(v, "data_listen", json_string(sv->s->data_listen));
	json_set_take(v, "data", json_string(sv->s->data));
	json_set_take(v, "units", units);
	text = json_text(v);
	file_write_atomic(path, text, strlen(text), 0644, NULL);
}

static void pump(struct supervisor *sv);

static void give_up(struct supervisor *sv, enum unit_id id, const char *why)
{
	log_error("unit_given_up", "unit=%s why=%s", unit_defs[id].name, why);
	notify(sv, "failed %s %s", unit_defs[id].name, why);
	sv->status = 1;
	loop_stop(sv->loop, 1);
}

static void set_ready(struct unit *u)
{
	struct supervisor *sv = u->sv;
	struct unit_track *t = &sv->track[u->id];
	uint64_t took = loop_now_ms(sv->loop) - t->since_ms;

	loop_timer_del(&u->timer);
	unit_ready(t, loop_now_ms(sv->loop));
	log_info("unit_ready", "unit=%s pid=%d ms=%llu", unit_defs[u->id].name,
		 (int)u->pid, (unsigned long long)took);
	notify(sv, "unit %s %llu", unit_defs[u->id].name,
	       (unsigned long long)took);
	pump(sv);
}

static void close_ready(struct unit *u)
{
	loop_io_del(&u->ready_io);
	u->ready_fd = fd_close(u->ready_fd);
}

static void on_ready_fd(struct loop_io *io, unsigned events)
{
	struct unit *u = container_of(io, struct unit, ready_io);
	char line[16];
	ssize_t n = read(u->ready_fd, line, sizeof(line));

	(void)events;
	if (n < 0 && errno == EAGAIN)
		return;
	close_ready(u);
	/* its end without a line: on_gone will tell */
	if (n > 0 && line[0] == '1' &&
	    u->sv->track[u->id].state == UNIT_STARTING)
		set_ready(u);
}

static void kill_unit(struct unit *u)
{
	owned_str below = xasprintf("daemons/%s", unit_defs[u->id].name);
	owned_str path = cg_path(u->sv->s, below);

	if (cg_populated(path))
		cg_kill(path);
}

static bool postgres_ready(const struct unit *u)
{
	owned_str path =
	    xasprintf("%s/postgres/postmaster.pid", u->sv->s->data);
	owned_str text = NULL;
	size_t n;
	pid_t pid;

	if (file_read(path, 4096, &text, &n, NULL) < 0)
		return false;
	return postmaster_ready(text, n, &pid) && pid == u->pid;
}

/* Readiness: PostgreSQL says it in a file; the others have a deadline. */
static void on_timer(struct loop_timer *t)
{
	struct unit *u = container_of(t, struct unit, timer);

	if (u->id == UNIT_POSTGRES && postgres_ready(u)) {
		set_ready(u);
		return;
	}
	if (loop_now_ms(u->sv->loop) < u->deadline_ms) {
		loop_timer_set(u->sv->loop, t, POLL_MS, on_timer);
		return;
	}
	log_warn("unit_not_ready", "unit=%s timeout_ms=%u",
		 unit_defs[u->id].name, unit_defs[u->id].ready_timeout_ms);
	kill_unit(u); /* on_gone goes on */
}

static void describe_end(struct unit *u, int status)
{
	if (status >= 0 && WIFEXITED(status))
		snprintf(u->last_end, sizeof(u->last_end), "exit status %d",
			 WEXITSTATUS(status));
	else if (status >= 0 && WIFSIGNALED(status))
		snprintf(u->last_end, sizeof(u->last_end), "signal %d",
			 WTERMSIG(status));
	else
		snprintf(u->last_end, sizeof(u->last_end), "ended");
}

static void on_gone(struct loop_proc *p, int status)
{
	struct unit *u = container_of(p, struct unit, proc);
	struct supervisor *sv = u->sv;
	const struct unit_def *d = &unit_defs[u->id];
	struct unit_track *t = &sv->track[u->id];
	bool ok = status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;

	loop_proc_del(p);
	loop_timer_del(&u->timer);
	close_ready(u);
	describe_end(u, status);
	u->pid = 0;
	/* children it left; PostgreSQL's end by themselves, and must: two
	 * generations never share the data */
	if (u->id != UNIT_POSTGRES)
		kill_unit(u);
	unit_ended(t, d->once, ok, loop_now_ms(sv->loop));
	if (t->state == UNIT_READY) {
		notify(sv, "unit %s 0", d->name);
	} else {
		log_warn("unit_ended", "unit=%s again_ms=%llu how=%s", d->name,
			 (unsigned long long)unit_backoff_ms(t->failures),
			 u->last_end);
		if (t->state == UNIT_FAILED) {
			give_up(sv, u->id, u->last_end);
			return;
		}
	}
	pump(sv);
}

static int unit_ids(const struct unit_def *d, struct spawn *sp, struct err *e)
{
	int r;

	if (!d->user)
		return 0;
	sp->set_ids = true;
	sp->no_new_privs = true;
	r = user_lookup(d->user, &sp->uid, &sp->gid, e);
	if (r < 0 || !d->also)
		return r;
	sp->n_groups = 1;
	return group_lookup(d->also, &sp->groups[0], e);
}

/* Fork from inside the unit's cgroup, so that nothing of it is ever outside. */
static int spawn_in(struct unit *u, const struct spawn *sp, pid_t *ret_pid,
		    int *ret_pidfd, struct err *e)
{
	owned_str below = xasprintf("daemons/%s", unit_defs[u->id].name);
	owned_str there = cg_path(u->sv->s, below);
	owned_str home = cg_path(u->sv->s, "supervisor");
	int r;

	r = cg_renew(there, e);
	if (r == 0)
		r = cg_enter(there, e);
	if (r < 0)
		return r;
	r = spawn_start(sp, ret_pid, ret_pidfd, e);
	CHECK(cg_enter(home, NULL) == 0);
	return r;
}

static int start(struct unit *u, struct err *e)
{
	const struct unit_def *d = &unit_defs[u->id];
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
					   "LC_ALL=C.UTF-8", "TZ=UTC",
					   "CAISSON_READY_FD=3", NULL };
	owned_str log = host_log_path(u->sv->s, d->name);
	struct unit_argv argv;
	owned_fd out = -1, theirs = -1, pidfd = -1;
	int pipefd[2];
	struct spawn sp = { .envp = env, .exe_fd = -1, .n_fds = 1 };
	int r = 0;

	if (u->id == UNIT_POSTGRES)
		r = pg_configure(u->sv->s, e);
	if (r == 0)
		r = unit_ids(d, &sp, e);
	if (r < 0)
		return r;
	out = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		   0640);
	if (out < 0)
		return err_errno(e, errno, "%s", log);
	if (pipe2(pipefd, O_CLOEXEC) < 0)
		return err_errno(e, errno, "pipe");
	u->ready_fd = pipefd[0];
	theirs = pipefd[1];
	fcntl(u->ready_fd, F_SETFL, O_NONBLOCK);
	unit_argv(u->sv->s, u->id, &argv);
	sp.argv = (const char *const *)argv.v;
	sp.stdio[0] = -1;
	sp.stdio[1] = sp.stdio[2] = out;
	sp.fds = &theirs;
	sp.new_session = true;
	r = spawn_in(u, &sp, &u->pid, &pidfd, e);
	unit_argv_fini(&argv);
	if (r < 0) {
		u->ready_fd = fd_close(u->ready_fd);
		u->pid = 0;
		return r;
	}
	loop_proc_add_take(u->sv->loop, &u->proc, take_fd(&pidfd), u->pid,
			   on_gone);
	if (!d->once && u->id != UNIT_POSTGRES)
		loop_io_add(u->sv->loop, &u->ready_io, u->ready_fd, LOOP_IN,
			    on_ready_fd);
	u->deadline_ms = loop_now_ms(u->sv->loop) + d->ready_timeout_ms;
	loop_timer_set(u->sv->loop, &u->timer, POLL_MS, on_timer);
	return 0;
}

static void try_start(struct unit *u)
{
	struct supervisor *sv = u->sv;
	struct unit_track *t = &sv->track[u->id];
	struct err e = { 0 };

	unit_started(t, loop_now_ms(sv->loop));
	if (start(u, &e) == 0)
		return;
	log_error("unit_start", "unit=%s why=%s", unit_defs[u->id].name, e.msg);
	snprintf(u->last_end, sizeof(u->last_end), "%.95s", e.msg);
	unit_ended(t, unit_defs[u->id].once, false, loop_now_ms(sv->loop));
	if (t->state == UNIT_FAILED)
		give_up(sv, u->id, e.msg);
}

static void on_next(struct loop_timer *t)
{
	pump(container_of(t, struct supervisor, next));
}

static void pump(struct supervisor *sv)
{
	uint64_t now = loop_now_ms(sv->loop), wait;

	for (size_t i = 0; i < UNIT_MAX_; i++) {
		if (unit_may_start(sv->track, sv->after, UNIT_MAX_, i, now))
			try_start(&sv->units[i]);
	}
	if (!sv->was_up && units_all_ready(sv->track, UNIT_MAX_)) {
		sv->was_up = true;
		loop_timer_del(&sv->deadline);
		publish(sv);
		notify(sv, "up");
		sv->notify_fd = fd_close(sv->notify_fd);
	} else {
		publish(sv);
	}
	wait = unit_next_ms(sv->track, sv->after, UNIT_MAX_, now);
	if (wait != UINT64_MAX)
		loop_timer_set(sv->loop, &sv->next, wait, on_next);
}

static void on_deadline(struct loop_timer *t)
{
	struct supervisor *sv = container_of(t, struct supervisor, deadline);

	for (size_t i = 0; i < UNIT_MAX_; i++) {
		if (sv->track[i].state != UNIT_READY) {
			give_up(sv, (enum unit_id)i,
				*sv->units[i].last_end ? sv->units[i].last_end
						       : "not ready in time");
			return;
		}
	}
}

static void on_rotate(struct loop_timer *t)
{
	struct supervisor *sv = container_of(t, struct supervisor, rotate);

	for (size_t i = 0; i < UNIT_MAX_; i++) {
		owned_str path = host_log_path(sv->s, unit_defs[i].name);

		logfile_rotate(path, LOGFILE_MAX);
	}
	loop_timer_set(sv->loop, t, ROTATE_MS, on_rotate);
}

static void on_signal(struct loop_signal *sig)
{
	loop_stop(sig->loop, 0);
}

static int enter_own_cgroup(const struct stack *s, struct err *e)
{
	owned_str home = cg_path(s, "supervisor");
	int r = cg_make(home, e);

	return r == 0 ? cg_enter(home, e) : r;
}

static void write_pid(const struct stack *s)
{
	owned_str path = xasprintf("%s/supervisor.pid", s->run);
	char text[32];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	file_write_atomic(path, text, (size_t)n, 0644, NULL);
}

static void units_init(struct supervisor *sv)
{
	for (size_t i = 0; i < UNIT_MAX_; i++) {
		sv->units[i].sv = sv;
		sv->units[i].id = (enum unit_id)i;
		sv->units[i].ready_fd = -1;
		sv->after[i] = unit_defs[i].after;
	}
}

static void units_fini(struct supervisor *sv)
{
	for (size_t i = 0; i < UNIT_MAX_; i++) {
		loop_proc_del(&sv->units[i].proc);
		loop_timer_del(&sv->units[i].timer);
		close_ready(&sv->units[i]);
	}
	loop_timer_del(&sv->next);
	loop_timer_del(&sv->rotate);
	loop_timer_del(&sv->deadline);
	loop_signal_del(&sv->term);
	loop_signal_del(&sv->intr);
}

int supervise_take(const struct stack *s, int notify_fd)
{
	struct supervisor sv = { .s = s, .notify_fd = notify_fd };
	struct err e = { 0 };
	owned_fd lock = supervisor_lock(s, &e);

	if (lock < 0 || enter_own_cgroup(s, &e) < 0) {
		if (!e.code)
			err_set(&e, -EWOULDBLOCK, ERR_EXISTS,
				"another supervisor runs");
		log_error("supervise", "why=%s", e.msg);
		notify(&sv, "failed supervisor %s", e.msg);
		fd_close(sv.notify_fd);
		return 125;
	}
	write_pid(s);
	sv.loop = loop_new();
	units_init(&sv);
	loop_signal_add(sv.loop, &sv.term, SIGTERM, on_signal);
	loop_signal_add(sv.loop, &sv.intr, SIGINT, on_signal);
	loop_timer_set(sv.loop, &sv.rotate, ROTATE_MS, on_rotate);
	loop_timer_set(sv.loop, &sv.deadline, UP_DEADLINE_MS, on_deadline);
	pump(&sv);
	loop_run(sv.loop);
	units_fini(&sv);
	loop_free(sv.loop);
	fd_close(sv.notify_fd);
	return sv.status;
}
