/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/close_range.h>

#include "base/own.h"
#include "noded/argv.h"

/* Above every target, so that moving never overwrites what is still needed. */
#define SAFE_FD 64

static const char *const step_names[JAIL_STEP_MAX_] = {
	[JAIL_STEP_NONE] = "start",
	[JAIL_STEP_FDS] = "arrange its descriptors",
	[JAIL_STEP_SOURCES] = "find what its root shows (/usr, /dev/null, "
			      "/dev/urandom, shim, slot)",
	[JAIL_STEP_ROOT] = "build its root",
	[JAIL_STEP_PIVOT] = "enter its root",
	[JAIL_STEP_LIMITS] = "set its limits",
	[JAIL_STEP_IDS] = "give up privileges",
	[JAIL_STEP_ARGV] = "read its command line (a memfd with all seals, "
			   "NUL-terminated strings)",
	[JAIL_STEP_EXEC] = "execute its program",
};

const char *jail_step_name(int step)
{
	return step > 0 && step < JAIL_STEP_MAX_ ? step_names[step]
						 : step_names[0];
}

__attribute__((noreturn)) static void give_up(int fd, int step, int r)
{
	struct jail_report rep = { .step = step, .errnum = -r };

	if (write(fd, &rep, sizeof(rep)) < 0)
		_exit(3);
	_exit(2);
}

/* Move *fd above all targets. */
static int lift(int *fd)
{
	int high = fcntl(*fd, F_DUPFD_CLOEXEC, SAFE_FD);

	if (high < 0)
		return -errno;
	*fd = high;
	return 0;
}

static int lift_all(struct jail *j)
{
	int r = lift(&j->report_fd);

	r = r < 0 ? r : lift(&j->exe_fd);
	r = r < 0 ? r : lift(&j->stderr_fd);
	if (r == 0 && j->argv_fd >= 0)
		r = lift(&j->argv_fd);
	for (size_t i = 0; i < j->n_fds && r == 0; i++)
		r = lift(&j->fds[i]);
	return r;
}

/* 0..2, then the process's own; everything else goes at exec. */
static int arrange(struct jail *j)
{
	int null, r = lift_all(j);

	if (r < 0)
		return r;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return -errno;
	/* like all the others: any fixed number may be one of theirs, once a
	 * noded holds many slots */
	r = lift(&null);
	if (r < 0)
		return r;
	if (dup3(null, 0, 0) < 0 || dup3(null, 1, 0) < 0 ||
	    dup3(j->stderr_fd, 2, 0) < 0)
		return -errno;
	for (size_t i = 0; i < j->n_fds; i++)
		if (dup3(j->fds[i], 3 + (int)i, 0) < 0)
			return -errno;
	return syscall(SYS_close_range, 3 + (unsigned)j->n_fds, UINT_MAX,
		       CLOSE_RANGE_CLOEXEC) < 0
		   ? -errno
		   : 0;
}

static int limit(const struct jail *j)
{
	/* 0 would be ignored where core_pattern is a pipe */
	const struct rlimit core = { 1, 1 };
	const struct rlimit files = { j->max_fds, j->max_fds };
	const struct rlimit procs = { j->max_procs, j->max_procs };
	const struct rlimit lock = { 65536, 65536 };

	if (setrlimit(RLIMIT_CORE, &core) < 0 ||
	    setrlimit(RLIMIT_NOFILE, &files) < 0 ||
	    setrlimit(RLIMIT_NPROC, &procs) < 0 ||
	    setrlimit(RLIMIT_MEMLOCK, &lock) < 0)
		return -errno;
	return 0;
}

static int drop(const struct jail *j)
{
	const gid_t gid = (gid_t)j->uid;

	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
		    errno != EINVAL) /* a cap this kernel does not know */
			return -errno;
	if (setgroups(j->group ? 1 : 0, &j->group) < 0 ||
	    setresgid(gid, gid, gid) < 0 ||
	    setresuid(j->uid, j->uid, j->uid) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	/* if any of it did not bite, root would exec a stranger's argv */
	return setuid(0) == 0 || geteuid() != j->uid ? -EPERM : 0;
}

static void signals_reset(void)
{
	sigset_t none;

	for (int s = 1; s < SIGRTMIN; s++)
		signal(s, SIG_DFL); /* KILL and STOP refuse; no matter */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void jail_enter(const struct jail *given)
{
	static char text[ARGV_BYTES_MAX];
	static const char *words[ARGV_WORDS_MAX + 1];
	struct jail j = *given;
	const char *const *argv = j.argv;
	int step = JAIL_STEP_FDS, r;

	signals_reset();
	setsid();
	r = sethostname("caisson", 7) < 0 ? -errno : arrange(&j);
	if (r < 0)
		give_up(j.report_fd, step, r);
	r = jail_root_enter(&j, &step);
	if (r < 0)
		give_up(j.report_fd, step, r);
	r = limit(&j);
	if (r < 0)
		give_up(j.report_fd, JAIL_STEP_LIMITS, r);
	r = drop(&j);
	if (r < 0)
		give_up(j.report_fd, JAIL_STEP_IDS, r);
	if (j.argv_fd >= 0) {
		r = argv_read(j.argv_fd, text, words);
		if (r < 0)
			give_up(j.report_fd, JAIL_STEP_ARGV, r);
		argv = words;
	}
	syscall(SYS_execveat, j.exe_fd, "", argv, j.envp, AT_EMPTY_PATH);
	give_up(j.report_fd, JAIL_STEP_EXEC, -errno);
}
