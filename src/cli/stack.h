/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One machine's Caisson: where things are, who runs as what, and what each
 * daemon's command line is. Filled from options over a configuration file over
 * the defaults; checked once, then constant.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/args.h"
#include "base/buf.h"
#include "base/err.h"

#define STACK_CONFIG  "/etc/caisson/caisson.conf"
#define STACK_RUN_MAX 72u /* sockets below it must fit into sun_path */

struct stack {
	/* configuration */
	char *run, *data, *control, *data_listen, *cgroup, *engine, *context;
	char *node;
	int64_t uid_base, slots, waiting, memory_mib; /* 0 = the daemon's own */
	/* found */
	char *self, *libexec, *share; /* relative to this program */
	char *cgroup_root;	      /* where cgroup v2 is mounted */
	char *pg_bin;		      /* NULL if PostgreSQL is missing */
};

void stack_init(struct stack *s); /* defaults, and where this program lies */
void stack_fini(struct stack *s);
/* An INI file with a section [caisson] and the keys run, data, control,
 * data_listen, cgroup, engine, context, node, uid_base, slots, waiting,
 * memory_mib. */
int stack_config(struct stack *s, const char *name, const char *text, size_t n,
		 struct err *e);
int stack_config_file(struct stack *s, const char *path, struct err *e);
/* Every value makes sense; the message names the option. */
int stack_check(const struct stack *s, struct err *e);

/* The options of up, down, status, supervise: strings, NULL or 0 = not given.
 */
struct stack_opts {
	const char *config, *run, *data, *control, *data_listen, *cgroup,
	    *engine, *context, *node;
	int64_t uid_base, slots, waiting, memory_mib;
};
#define STACK_OPTS(o)                                                          \
	{ "config", 0,                                                         \
	  ARG_STR,  &(o)->config,                                              \
	  "FILE",   "read this instead of " STACK_CONFIG,                      \
	  0,	    0 },                                                       \
	    { "run",	 0,	ARG_STR,                                       \
	      &(o)->run, "DIR", "sockets and locks (/run/caisson)",            \
	      0,	 0 },                                                  \
	    { "data",	  0,	 ARG_STR,                                      \
	      &(o)->data, "DIR", "database and store (/var/lib/caisson)",      \
	      0,	  0 },                                                 \
	    { "cgroup", 0,                                                     \
	      ARG_STR,	&(o)->cgroup,                                          \
	      "NAME",	"top control group (caisson)",                         \
	      0,	0 },                                                   \
	{                                                                      \
		"uid-base", 0, ARG_INT, &(o)->uid_base, "N",                   \
		    "first uid of the slots (200000)", 1000, 2000000000        \
	}
#define STACK_UP_OPTS(o)                                                       \
	{ "control",   0,                                                      \
	  ARG_STR,     &(o)->control,                                          \
	  "ADDR:PORT", "control listener (127.0.0.1:7700)",                    \
	  0,	       0 },                                                    \
	    { "data-listen",                                                   \
	      0,                                                               \
	      ARG_STR,                                                         \
	      &(o)->data_listen,                                               \
	      "ADDR:PORT",                                                     \
	      "data listener (127.0.0.1:7710)",                                \
	      0,                                                               \
	      0 },                                                             \
	    { "engine",                                                        \
	      0,                                                               \
	      ARG_STR,                                                         \
	      &(o)->engine,                                                    \
	      "auto|qemu|null",                                                \
	      "what runs the sandboxes (auto)",                                \
	      0,                                                               \
	      0 },                                                             \
	    { "node",	  0,	  ARG_STR,                                     \
	      &(o)->node, "NAME", "this node's name (the host's)",             \
	      0,	  0 },                                                 \
	    { "slots", 0,   ARG_INT, &(o)->slots, "N", "sandboxes at once",    \
	      1,       1024 },                                                 \
	    { "waiting", 0,                                                    \
	      ARG_INT,	 &(o)->waiting,                                        \
	      "N",	 "VMs kept ready for the next create",                 \
	      1,	 64 },                                                 \
	{                                                                      \
		"memory-mib", 0, ARG_INT, &(o)->memory_mib, "MIB",             \
		    "memory for all sandboxes", 64, 1 << 24                    \
	}
/* Configuration file, then options, then stack_check(). */
int stack_load(struct stack *s, const struct stack_opts *o, struct err *e);

/* ADDR:PORT of IPv4, "[::1]:PORT" or "localhost:PORT". */
int listen_valid(const char *s);

/* ---- units: what `up` starts ---- */

enum unit_id {
	UNIT_INITDB,
	UNIT_POSTGRES,
	UNIT_MIGRATE,
	UNIT_NODED,
	UNIT_STORAGED,
	UNIT_SANDBOXD,
	UNIT_API,
	UNIT_CONTROLLER,
	UNIT_MAX_,
};

struct unit_def {
	const char *name;
	const char *user; /* NULL = root */
	const char *also; /* a supplementary group, NULL for none */
	unsigned after;	  /* bits of units that must be ready (done) first */
	unsigned ready_timeout_ms;
	int once; /* a task: done when it ends with 0 */
};
extern const struct unit_def unit_defs[UNIT_MAX_];

#define UNIT_ARGV_MAX 40
struct unit_argv {
	char *v[UNIT_ARGV_MAX]; /* NULL-terminated, allocated */
	size_t n;
};
void unit_argv(const struct stack *s, enum unit_id id, struct unit_argv *ret);
/* noded's clean-up run of `down`. */
void noded_cleanup_argv(const struct stack *s, struct unit_argv *ret);
void unit_argv_fini(struct unit_argv *a);

/* ---- PostgreSQL ---- */

void pg_conf_text(const struct stack *s, struct buf *out);
void pg_hba_text(struct buf *out);
void pg_ident_text(struct buf *out);
/* libpq's connection string of a role. */
char *pg_conninfo(const struct stack *s, const char *role);
/* Is this text of postmaster.pid that of a server which takes connections? */
int postmaster_ready(const char *text, size_t n, pid_t *ret_pid);
