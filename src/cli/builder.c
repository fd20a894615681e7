/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/builder.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/spawn.h"
#include "cli/host.h"

#define TICK_MS	   1000
#define LINE_BYTES 512u

extern char **environ;

char *builder_out(const struct stack *s, const char *name)
{
	return xasprintf("%s/build/%s", s->data, name);
}

struct build {
	pid_t pid;
	int pidfd, out; /* what it writes for us */
	char line[LINE_BYTES];
	size_t n;
	bool overlong;
};

/* stdout: the builder's stdout is the pipe (else the pipe is its descriptor
 * 3 and stdout joins the log). */
static int start(struct build *b, const char *const *argv, int log,
		 bool use_stdout, struct err *e)
{
	struct spawn sp = { .argv = argv,
			    /* apt's and npm's settings, proxies, PATH */
			    .envp = (const char *const *)environ,
			    .exe_fd = -1,
			    .stdio = { -1, log, log },
			    .new_session = true };
	owned_fd theirs = -1;
	int p[2], r;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_errno(e, errno, "pipe");
	theirs = p[1];
	b->out = p[0];
	if (use_stdout) {
		sp.stdio[1] = theirs;
	} else {
		sp.fds = &theirs;
		sp.n_fds = 1;
	}
	r = spawn_start(&sp, &b->pid, &b->pidfd, e);
	if (r < 0)
		b->out = fd_close(b->out);
	return r;
}

/* Its end; 0 if it was good. */
static int finish(struct build *b, const char *what, struct err *e)
{
	int status;

	while (waitpid(b->pid, &status, 0) < 0) {
		if (errno != EINTR)
			return err_errno(e, errno, "wait for %s", what);
	}
	b->pidfd = fd_close(b->pidfd);
	b->out = fd_close(b->out);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status))
		return err_set(e, -EIO, ERR_INTERNAL, "%s: exit status %d",
			       what, WEXITSTATUS(status));
	return err_set(e, -EIO, ERR_INTERNAL, "%s: ended by signal %d", what,
		       WTERMSIG(status));
}

static void take_bytes(struct build *b, struct meter *m, const char *p,
		       size_t n)
{
	for (; n > 0; p++, n--) {
		if (*p == '\n') {
			b->line[b->n] = '\0';
			if (!b->overlong)
				meter_line(m, b->line);
			b->n = 0;
			b->overlong = false;
		} else if (b->n + 1 < sizeof(b->line)) {
			b->line[b->n++] = *p;
		} else {
			b->overlong = true;
		}
	}
}

/* Progress until it has ended; the signal that stopped it, or 0. */
static int follow(struct build *b, struct meter *m, int signal_fd)
{
	struct pollfd p[3] = { { .fd = b->out, .events = POLLIN },
			       { .fd = b->pidfd, .events = POLLIN },
			       { .fd = signal_fd, .events = POLLIN } };
	struct signalfd_siginfo si;
	char bytes[1024];
	int signo = 0;
	ssize_t n;

	while (!(p[1].revents & POLLIN)) {
		if (poll(p, 3, TICK_MS) < 0 && errno != EINTR)
			break;
		if (p[0].revents) {
			n = read(b->out, bytes, sizeof(bytes));
			if (n > 0)
				take_bytes(b, m, bytes, (size_t)n);
			else
				p[0].fd = -1;
		}
		if ((p[2].revents & POLLIN) &&
		    read(signal_fd, &si, sizeof(si)) == sizeof(si)) {
			/* it cleans up on TERM; a second wish is final */
			kill(-b->pid, signo ? SIGKILL : SIGTERM);
			signo = (int)si.ssi_signo;
		}
		meter_tick(m);
	}
	return signo;
}

/* Shared by all instances of a machine and kept by `down --purge`: what is in
 * it was fetched from package archives and checked there, and costs minutes.
 * The builder locks it. */
static const char *builder_cache(void)
{
	const char *dir = getenv("CAISSON_CACHE");

	return dir && *dir == '/' ? dir : "/var/cache/caisson";
}

int builder_run(const struct stack *s, const char *name, bool refresh,
		int signal_fd, struct meter *m, char **ret_log, int *ret_signo,
		struct err *e)
{
	owned_str script = xasprintf("%s/templates/build", s->share);
	owned_str out = builder_out(s, name);
	owned_str guestd = xasprintf("%s/caisson-guestd", s->libexec);
	owned_str unit = xasprintf("template-%s", name);
	const char *argv[] = { script,
			       name,
			       "--out",
			       out,
			       "--cache",
			       builder_cache(),
			       "--guestd",
			       guestd,
			       "--progress-fd",
			       "3",
			       refresh ? "--refresh" : NULL,
			       NULL };
	struct build b = { .pidfd = -1, .out = -1 };
	owned_fd log = -1;
	int r;

	*ret_log = host_log_path(s, unit);
	*ret_signo = 0;
	log = open(*ret_log,
		   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
	if (log < 0)
		return err_errno(e, errno, "%s", *ret_log);
	r = start(&b, argv, log, false, e);
	if (r < 0)
		return r;
	*ret_signo = follow(&b, m, signal_fd);
	meter_end(m);
	r = finish(&b, "template build", e);
	if (*ret_signo)
		return err_set(e, -ECANCELED, ERR_CONFLICT,
			       "interrupted; what was fetched is kept");
	return r;
}

char *builder_inputs(const struct stack *s, const char *name, struct err *e)
{
	owned_str script = xasprintf("%s/templates/build", s->share);
	owned_str guestd = xasprintf("%s/caisson-guestd", s->libexec);
	const char *argv[] = { script,		 name, "--guestd", guestd,
			       "--print-digest", NULL };
	struct build b = { .pidfd = -1, .out = -1 };
	char text[80] = "";
	size_t n = 0;
	ssize_t got;

	if (start(&b, argv, STDERR_FILENO, true, e) < 0)
		return NULL;
	while (n < sizeof(text) - 1 &&
	       (got = read(b.out, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	if (finish(&b, "template build --print-digest", e) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return xstrdup(text);
}
