/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/children.h"

#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"

struct children {
	struct loop_signal chld;
	struct list all;
};

static void reap_one(struct children *s, pid_t pid, int status,
		     const struct rusage *ru)
{
	struct child *c, *tmp;

	list_for_each_safe (c, tmp, &s->all, link) {
		if (c->pid != pid)
			continue;
		children_del(c);
		c->on_exit(c, status, ru);
		return;
	}
}

static void on_chld(struct loop_signal *sig)
{
	struct children *s = container_of(sig, struct children, chld);
	struct rusage ru;
	int status;
	pid_t pid;

	/* One signal may stand for many ends. */
	while ((pid = wait4(-1, &status, WNOHANG, &ru)) > 0)
		reap_one(s, pid, status, &ru);
}

struct children *children_new(struct loop *l)
{
	struct children *s = xnew(struct children);

	list_init(&s->all);
	CHECK(loop_signal_add(l, &s->chld, SIGCHLD, on_chld) >= 0);
	return s;
}

struct children *children_free(struct children *s)
{
	if (!s)
		return NULL;
	CHECK(list_empty(&s->all));
	loop_signal_del(&s->chld);
	free(s);
	return NULL;
}

void children_add(struct children *s, struct child *c, pid_t pid,
		  void (*on_exit)(struct child *, int, const struct rusage *))
{
	c->pid = pid;
	c->on_exit = on_exit;
	list_add_tail(&s->all, &c->link);
}

bool children_is_worker(const struct children *s, pid_t pid)
{
	const struct child *c;

	list_for_each (c, &s->all, link)
		if (c->pid == pid)
			return c->is_worker;
	return false;
}

void children_del(struct child *c)
{
	if (!c->pid)
		return;
	list_del(&c->link);
	c->pid = 0;
}

static void reset_signals(void)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		if (i != SIGKILL && i != SIGSTOP)
			(void)signal(i, SIG_DFL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

pid_t children_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		reset_signals();
	return pid;
}

pid_t children_fork_into(int cgroup, bool *ret_inside)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)cgroup,
	};
	long pid = -1;

	*ret_inside = false;
	/* Without the C library's fork: there is one thread, and the child does
	 * nothing that asks for its thread's number. */
	if (cgroup >= 0)
		pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		return children_fork();
	*ret_inside = true;
	if (pid == 0)
		reset_signals();
	return (pid_t)pid;
}
