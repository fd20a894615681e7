/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Execs: programs started for the host, each in its own session, process group
 * and cgroup, with its output in a log that survives disconnects.
 *
 *   CREATED --(first attach, or start "now")--> STARTING --> RUNNING
 *      \--(60 s without an attach)--> EXPIRED <--(refused)--/     |
 *                                                  (leader ended)
 *                               ENDED <--(it is over)-- DRAINING <-/
 *
 * One that start "now" could not start is answered as an error and forgotten;
 * one that an attach could not start keeps the refusal, so that the attach may
 * be repeated and is told the same.
 *
 * The exit fact comes from wait4() alone. An exec is over when its leader has
 * ended and its pipes are drained, or 2 s later: a child in the background that
 * still holds them does not hold the exec and is named in left_behind. One that
 * timed out is over when its whole tree is gone (exec_kill.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/own.h"
#include "guestd/children.h"
#include "guestd/exec_stdin.h"
#include "guestd/execlog.h"
#include "guestd/guestd.h"
#include "guestd/spec.h"
#include "net/http.h"
#include "net/json.h"

#define EXECS_LIVE_MAX	  256
#define EXECS_MAX	  1024
#define EXEC_KEEP_MS	  3600000u /* a finished record */
#define EXEC_START_MAX_MS 15000u
#define EXEC_ATTACH_MS	  60000u /* to the first attach */
#define EXEC_DRAIN_MS	  2000u
#define EXEC_KEYS_MAX	  1024
#define EXEC_KEY_MS	  600000u
#define EXEC_LEFT_MAX	  64
/* Bytes that a reader "took" may still be on their way through the channel and
 * the host's processes when a connection breaks. With overflow "block" so many
 * are kept behind the reader, so that it can resume without a gap. */
#define EXEC_SLACK_BYTES (2u << 20)

enum exec_state {
	EXEC_ST_CREATED,
	EXEC_ST_EXPIRED,
	EXEC_ST_STARTING,
	EXEC_ST_RUNNING,
	EXEC_ST_DRAINING,
	EXEC_ST_ENDED,
};

enum exec_reason {
	EXEC_EXITED,
	EXEC_SIGNALED,
	EXEC_TIMEOUT,
	EXEC_OOM,
	EXEC_GUEST_ENDED, /* the guest was shut down */
	EXEC_UNKNOWN,
};

struct exec_fact {
	enum exec_reason reason;
	int code, signo; /* -1 = none */
	uint64_t wall_ms, cpu_ms, max_rss_bytes;
	pid_t left[EXEC_LEFT_MAX];
	size_t n_left;
};

struct execs;
struct exec_input;
struct exec_report;
struct follower;

/* One of stdout, stderr; or the terminal, as the first. */
struct exec_pipe {
	struct loop_io io;
	struct exec *exec;
	int fd; /* -1 once it ended */
	uint8_t kind;
	bool waiting;	/* the log has no room; not watched */
	bool resting;	/* lets its writer fill it; not watched */
	size_t drained; /* read since the leader ended */
};

struct exec {
	struct list link; /* in execs, oldest first */
	struct guestd *g;
	char id[EXEC_ID_MAX];
	enum exec_state state;
	struct exec_spec spec;
	int refs; /* table + streams */

	struct child child;
	pid_t pid;
	int cgroup;	 /* -1 without */
	bool timed_out;	 /* timeout_s was reached while the leader ran */
	bool guest_ends; /* the guest shuts down */
	bool is_killed;	 /* its tree is being ended, see exec_kill.h */
	int64_t created_at_ms, started_at_ms, ended_at_ms; /* wall clock */
	uint64_t began_us, ended_ms, kill_began_ms;
	uint64_t fork_rss_bytes; /* of guestd, which the child began as */
	struct loop_timer timeout, drain, kill;

	/* what the child reports if it could not exec */
	struct loop_io report_io;
	int report_fd;
	struct exec_report *refused; /* EXPIRED: the start that failed */

	int pty; /* the terminal's master, for ioctls; -1 without */
	struct exec_pipe pipes[2];
	struct execlog log;
	struct list followers;
	struct follower *writer; /* the one that writes, or NULL */
	struct loop_defer wake;
	struct loop_timer retry; /* memory was short */
	struct loop_timer rest;	 /* of pipes that rest */

	struct exec_stdin in;
	struct exec_input *input; /* POST /stdin that writes, or NULL */

	struct list waiters; /* requests that wait for the start */
	struct exec_fact fact;
};

struct execs {
	struct guestd *g;
	struct list all;
	size_t n, n_live;
	struct map *by_id;
	struct map *keys; /* idempotency key -> struct exec_key */
	struct list key_order;
	struct loop_timer sweep;
	size_t log_bytes, log_budget;
	size_t held_bytes; /* of all standard inputs */
};

struct execs *execs_new(struct guestd *g);
struct execs *execs_free(struct execs *s); /* kills what still runs */
void execs_forget_keys(struct execs *s);   /* a new life begins */
/* NULL if unknown. */
struct exec *execs_get(struct execs *s, const char *id);
/* Is there memory for more output? May drop logs of finished execs. */
bool execs_log_fits(struct execs *s);
/* Take it out of the table; it is freed with its last stream. */
void execs_remove(struct exec *x);

void exec_ref(struct exec *x);
void exec_unref(struct exec *x);

/* A new one, CREATED, not in the table; spec is moved into it. */
struct exec *exec_new(struct execs *s, struct exec_spec *spec);
/* Fork (CREATED only). 0, or a negative errno with *e: nothing was started.
 * -EBUSY: too many run. */
int exec_start(struct exec *x, struct err *e);
/* Watch the report of a child; the parent's half of a start. */
void exec_started(struct exec *x);
void exec_refused(struct exec *x, const struct exec_report *r);
/* wait4() has told how the leader ended. */
void exec_on_exit(struct child *c, int status, const struct rusage *ru);
/* Forget its cgroup: the last process in it has gone. */
void exec_drop_cgroup(struct exec *x);
/* The guest shuts down: kill what runs, and let that be its reason. */
void execs_shutdown(struct execs *s);

/* Signal the tree or only the leader. -ESRCH when it has ended. */
int exec_signal(struct exec *x, int signo, bool tree);
/* -ENOTTY without a terminal, -ESRCH when it has ended. */
int exec_resize(struct exec *x, struct exec_size size);
/* The log may have room again: readers moved on. */
void exec_room(struct exec *x);
/* Read on if output waits and the log has room; called by exec_room(). */
void exec_output_resume(struct exec *x);
/* Both pipes and their sources. */
void exec_output_stop(struct exec *x);
bool exec_output_done(const struct exec *x);
/* Watch a pipe that the child writes. Takes fd. */
void exec_output_watch_take(struct exec *x, unsigned which, int fd);
/* Take what is in the pipes without waiting. */
void exec_output_drain(struct exec *x);
/* The leader ended or a pipe did: is it over? */
void exec_check_end(struct exec *x);

json_t *exec_record(const struct exec *x);
json_t *exec_fact_json(const struct exec *x);
