/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/exec_child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "base/user.h"
#include "guestd/exec_pty.h"

#define PASSWD_MAX  (4u << 20)
#define GROUPS_MAX  64
#define PATH_ROOT   "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define ENV_DEFAULT 8

/* Tell the parent and end. Nothing is left to undo: the process goes. */
__attribute__((noreturn, format(printf, 5, 6))) static void
fail(const struct exec_setup *s, int status, int errnum, const char *field,
     const char *fmt, ...)
{
	struct exec_report r = { .status = status, .errnum = errnum };
	va_list ap;

	snprintf(r.field, sizeof(r.field), "%s", field);
	va_start(ap, fmt);
	vsnprintf(r.msg, sizeof(r.msg), fmt, ap);
	va_end(ap);
	(void)write_all(s->report_fd, &r, sizeof(r));
	_exit(127);
}

static void join_cgroup(const struct exec_setup *s)
{
	int fd;

	if (s->cgroup_procs >= 0 && write(s->cgroup_procs, "0", 1) != 1)
		fail(s, 503, errno, "", "cannot enter its cgroup: %s",
		     strerror(errno));
	/* guestd is exempt from the OOM killer, programs are not */
	fd = openat(s->proc, "self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, "0", 1);
	fd_close(fd);
}

static void set_stdio(const struct exec_setup *s)
{
	int moved[3];

	/* first out of the way of 0..2, then into place */
	for (int i = 0; i < 3; i++) {
		moved[i] = fcntl(s->stdio[i], F_DUPFD_CLOEXEC, 3);
		if (moved[i] < 0)
			fail(s, 503, errno, "", "standard streams: %s",
			     strerror(errno));
	}
	for (int i = 0; i < 3; i++)
		if (dup3(moved[i], i, 0) < 0)
			fail(s, 503, errno, "", "standard streams: %s",
			     strerror(errno));
}

static void set_terminal(const struct exec_setup *s, const struct user *u)
{
	int r = s->spec->has_pty ? pty_take_over(u->uid) : 0;

	if (r < 0)
		fail(s, 503, -r, "pty", "cannot take the terminal over: %s",
		     strerror(-r));
}

static void find_user(const struct exec_setup *s, struct user *ret)
{
	const char *name = s->spec->user ? s->spec->user : s->default_user;
	struct err e = { 0 };
	owned_str text = NULL;
	size_t n = 0;

	if (!*name) {
		if (user_lookup_uid(geteuid(), ret, &e) < 0)
			fail(s, 500, ENOENT, "", "%s", e.msg);
		return;
	}
	if (file_read("/etc/passwd", PASSWD_MAX, &text, &n, &e) < 0) {
		/* An image without users can still run programs as root. */
		if (strcmp(name, "root") != 0)
			fail(s, 400, ENOENT, "user", "%s", e.msg);
		*ret = (struct user){ .name = "root",
				      .home = "/root",
				      .shell = "/bin/sh" };
		return;
	}
	if (user_find(text, n, name, ret) < 0)
		fail(s, 400, ENOENT, "user",
		     "there is no user \"%.100s\" in the guest's /etc/passwd",
		     name);
}

static void become(const struct exec_setup *s, const struct user *u)
{
	gid_t groups[GROUPS_MAX + 1] = { u->gid };
	size_t n_groups = 1;
	owned_str text = NULL;
	size_t n = 0;
	struct err e = { 0 };

	if (geteuid() == u->uid && geteuid() != 0)
		return;
	if (file_read("/etc/group", PASSWD_MAX, &text, &n, &e) >= 0)
		n_groups +=
		    user_find_groups(text, n, u->name, groups + 1, GROUPS_MAX);
	if (setgroups(n_groups, groups) < 0 ||
	    setresgid(u->gid, u->gid, u->gid) < 0 ||
	    setresuid(u->uid, u->uid, u->uid) < 0)
		fail(s, 403, errno, "user", "cannot become user \"%s\": %s",
		     u->name, strerror(errno));
}

static void enter_cwd(const struct exec_setup *s, const struct user *u)
{
	if (s->spec->cwd) {
		if (chdir(s->spec->cwd) < 0)
			fail(s, 400, errno, "cwd",
			     "cannot enter \"%.200s\": %s", s->spec->cwd,
			     strerror(errno));
		return;
	}
	/* a home that is not there is no reason to refuse */
	if (chdir(u->home) < 0 && chdir("/") < 0)
		fail(s, 500, errno, "cwd", "cannot enter /: %s",
		     strerror(errno));
}

static bool has_name(char *const *env, size_t n, const char *entry)
{
	size_t len = strcspn(entry, "=") + 1;

	for (size_t i = 0; i < n; i++)
		if (strncmp(env[i], entry, len) == 0)
			return true;
	return false;
}

/* The request's variables, and the usual ones that it does not name. */
static char **make_env(const struct exec_spec *spec, const struct user *u)
{
	char **env = xnew_n(char *, spec->n_env + ENV_DEFAULT + 1);
	char *usual[] = {
		xasprintf("PATH=%s", PATH_ROOT),
		xasprintf("HOME=%s", u->home),
		xasprintf("USER=%s", u->name),
		xasprintf("LOGNAME=%s", u->name),
		xasprintf("SHELL=%s", u->shell),
		xstrdup("LANG=C.UTF-8"),
		xstrdup("TERM=xterm-256color"), /* last: terminals only */
	};
	size_t n = spec->n_env;

	for (size_t i = 0; i < spec->n_env; i++)
		env[i] = spec->env[i];
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if ((spec->has_pty || i + 1 < ARRAY_SIZE(usual)) &&
		    !has_name(spec->env, spec->n_env, usual[i]))
			env[n++] = usual[i];
		else
			free(usual[i]);
	return env;
}

static void set_limits(void)
{
	static const struct rlimit files = { 1024, 65536 };

	(void)setrlimit(RLIMIT_NOFILE, &files);
	(void)umask(022);
}

/* As a shell tells 127 (not found) and 126 (found, but cannot be run). */
__attribute__((noreturn)) static void cannot_run(const struct exec_setup *s,
						 int errnum)
{
	const char *name = s->spec->argv[0];

	if (errnum == ENOENT && !strchr(name, '/'))
		fail(s, 404, errnum, "cmd",
		     "there is no program \"%.200s\" in the guest's PATH "
		     "(%.120s)",
		     name, getenv("PATH"));
	if (errnum == ENOENT || errnum == ENOTDIR)
		fail(s, 404, errnum, "cmd",
		     "cannot run \"%.200s\": %s (the file or its interpreter)",
		     name, strerror(errnum));
	fail(s, errnum == EACCES || errnum == EPERM ? 403 : 400, errnum, "cmd",
	     "cannot run \"%.200s\": %s", name, strerror(errnum));
}

void exec_child(const struct exec_setup *s)
{
	char *const *argv = s->spec->argv;
	struct user u;

	(void)setsid();
	join_cgroup(s);
	set_stdio(s);
	set_limits();
	find_user(s, &u);
	set_terminal(s, &u);
	become(s, &u);
	enter_cwd(s, &u);
	environ = make_env(s->spec, &u);
	/* searches the PATH of the new environment */
	(void)execvp(argv[0], argv);
	cannot_run(s, errno);
}
