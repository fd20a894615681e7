/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stop.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/spawn.h"
#include "cli/cg.h"
#include "cli/host.h"
#include "cli/supervise.h"
#include "cli/tree.h"

#define TERM_MS	    3000u  /* SIGTERM is "exit now" for our daemons */
#define KILL_MS	    10000u /* SIGKILL; a process may sit in the kernel */
#define POSTGRES_MS 60000u /* fast shutdown writes a checkpoint */
#define CLEANUP_MS  60000

static void nothing(const char *line)
{
	(void)line;
}

/* SIGTERM (or another), patience, SIGKILL, patience. */
static int end_group(const char *path, int signo, unsigned patience_ms,
		     struct err *e)
{
	if (!cg_populated(path))
		return 0;
	cg_signal(path, signo);
	if (cg_wait_empty(path, patience_ms))
		return 0;
	cg_kill(path);
	if (cg_wait_empty(path, KILL_MS))
		return 0;
	return err_set(e, -EBUSY, ERR_INTERNAL,
		       "processes in %s do not end even by SIGKILL", path);
}

static int end_unit(const struct stack *s, enum unit_id id, int signo,
		    unsigned patience_ms, struct err *e)
{
	owned_str below = xasprintf("daemons/%s", unit_defs[id].name);
	owned_str path = cg_path(s, below);

	return end_group(path, signo, patience_ms, e);
}

/* SIGINT to the postmaster alone: backends get theirs from it ("fast"). */
static int end_postgres(const struct stack *s, struct err *e)
{
	owned_str below =
	    xasprintf("daemons/%s", unit_defs[UNIT_POSTGRES].name);
	owned_str path = cg_path(s, below);
	owned_str pidfile = xasprintf("%s/postgres/postmaster.pid", s->data);
	FILE *f = fopen(pidfile, "re");
	long pid = 0;
	char line[32];

	if (f && fgets(line, sizeof(line), f))
		pid = strtol(line, NULL, 10);
	if (f)
		fclose(f);
	/* a stale file names a stranger: believe it only with the cgroup */
	if (pid > 1 && cg_has_pid(path, (pid_t)pid)) {
		kill((pid_t)pid, SIGINT);
		cg_wait_empty(path, POSTGRES_MS);
	}
	return end_group(path, SIGINT, TERM_MS, e);
}

static int end_supervisor(const struct stack *s, struct err *e)
{
	owned_str path = cg_path(s, "supervisor");

	return end_group(path, SIGTERM, TERM_MS, e);
}

int stop_daemons(const struct stack *s, void (*say)(const char *line),
		 struct err *e)
{
	static const enum unit_id order[] = { UNIT_API,	    UNIT_CONTROLLER,
					      UNIT_MIGRATE, UNIT_SANDBOXD,
					      UNIT_NODED,   UNIT_STORAGED,
					      UNIT_INITDB };
	owned_str all = cg_path(s, "daemons");
	int r;

	if (!say)
		say = nothing;
	r = end_supervisor(s, e);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(order); i++)
		r = end_unit(s, order[i], SIGTERM, TERM_MS, e);
	if (r == 0)
		r = end_postgres(s, e);
	if (r == 0)
		r = end_group(all, SIGKILL, KILL_MS, e);
	if (r == 0)
		say("daemons ended");
	return r;
}

/* noded's own way to destroy slots: it alone knows what belongs to one. */
static int cleanup_slots(const struct stack *s, struct err *e)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
					   "LC_ALL=C.UTF-8", NULL };
	owned_str log = host_log_path(s, "noded");
	struct unit_argv argv;
	owned_fd out = open(log, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	struct spawn sp = { .envp = env,
			    .exe_fd = -1,
			    .stdio = { -1, out, out } };
	owned_fd pidfd = -1;
	pid_t pid;
	int status = 0, r, waited = 0;

	noded_cleanup_argv(s, &argv);
	if (access(argv.v[0], X_OK) < 0) {
		unit_argv_fini(&argv);
		return 0; /* never installed, so nothing to clean */
	}
	sp.argv = (const char *const *)argv.v;
	r = spawn_start(&sp, &pid, &pidfd, e);
	unit_argv_fini(&argv);
	if (r < 0)
		return r;
	while ((r = waitpid(pid, &status, WNOHANG)) == 0 &&
	       waited < CLEANUP_MS) {
		usleep(10000);
		waited += 10;
	}
	if (r == 0) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return err_set(e, -ETIMEDOUT, ERR_TIMEOUT,
			       "destroying sandboxes takes too long; see %s",
			       log);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, -EIO, ERR_INTERNAL,
			       "sandboxes could not be destroyed (status "
			       "%d); see %s",
			       status, log);
	return 0;
}

int stop_all(const struct stack *s, void (*say)(const char *line),
	     struct err *e)
{
	owned_str top = cg_path(s, "");
	owned_str daemons = cg_path(s, "daemons");
	owned_str supervisor = cg_path(s, "supervisor");
	struct stat st;
	int r;

	if (!say)
		say = nothing;
	r = stop_daemons(s, say, e);
	/* noded removes the top group, which must then hold slots only */
	if (r == 0)
		r = cg_remove(daemons, e);
	if (r == 0)
		r = cg_remove(supervisor, e);
	if (r == 0 && stat(s->run, &st) == 0)
		r = cleanup_slots(s, e);
	if (r < 0)
		return r;
	/* whatever a broken noded left: nothing of ours survives a `down` */
	r = end_group(top, SIGKILL, KILL_MS, e);
	if (r == 0)
		r = cg_remove(top, e);
	if (r == 0)
		say("sandboxes ended");
	if (r == 0)
		r = tree_remove(s->run, e);
	return r;
}

bool stop_needed(const struct stack *s)
{
	owned_str top = cg_path(s, "");
	struct stat st;

	return cg_populated(top) || stat(top, &st) == 0 ||
	       stat(s->run, &st) == 0;
}
