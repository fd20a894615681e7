/* SPDX-License-Identifier: Apache-2.0 */
#include "base/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/test.h"

static struct seen {
	int n_done;
	struct worker_report rep;
	size_t n_fds;
	int kept;
} seen;

static void on_done(struct worker *w, const struct worker_report *rep, int *fds,
		    size_t n_fds)
{
	(void)w;
	seen.n_done++;
	seen.rep = *rep;
	seen.n_fds = n_fds;
	seen.kept = n_fds ? take_fd(&fds[0]) : -1;
}

static int job_add(void *arg, struct worker_report *rep, int *ret_fds,
		   size_t *ret_n_fds, struct err *e)
{
	(void)ret_fds;
	(void)ret_n_fds;
	(void)e;
	rep->a = *(int *)arg + 1u;
	snprintf(rep->data, sizeof(rep->data), "done");
	return 0;
}

static int job_open(void *arg, struct worker_report *rep, int *ret_fds,
		    size_t *ret_n_fds, struct err *e)
{
	(void)rep;
	ret_fds[0] = open(arg, O_RDONLY | O_CLOEXEC);
	if (ret_fds[0] < 0)
		return err_errno(e, errno, "open %s", (char *)arg);
	*ret_n_fds = 1;
	return 0;
}

static int job_crash(void *arg, struct worker_report *rep, int *ret_fds,
		     size_t *ret_n_fds, struct err *e)
{
	(void)arg;
	(void)rep;
	(void)ret_fds;
	(void)ret_n_fds;
	(void)e;
	kill(getpid(), SIGKILL);
	return 0;
}

static int job_hang(void *arg, struct worker_report *rep, int *ret_fds,
		    size_t *ret_n_fds, struct err *e)
{
	(void)arg;
	(void)rep;
	(void)ret_fds;
	(void)ret_n_fds;
	(void)e;
	while (pause() < 0)
		;
	return 0;
}

static void run(worker_fn *fn, void *arg, uint64_t timeout_ms)
{
	struct loop *l = loop_new();
	struct worker w = { 0 };
	struct err e = { 0 };

	memset(&seen, 0, sizeof(seen));
	T_INT(worker_start(l, &w, fn, arg, timeout_ms, on_done, &e), 0);
	T_INT(seen.n_done, 0); /* never from within worker_start */
	while (!seen.n_done)
		loop_once(l, -1);
	T_TRUE(waitpid(-1, NULL, WNOHANG) < 0); /* reaped */
	loop_free(l);
}

TEST(worker_reports_its_result)
{
	int n = 41;

	run(job_add, &n, 60000);
	T_INT(seen.rep.r, 0);
	T_INT(seen.rep.a, 42);
	T_STR(seen.rep.data, "done");
	T_INT(seen.n_fds, 0);
}

TEST(worker_hands_over_descriptors)
{
	char path[] = "/dev/null";

	run(job_open, path, 60000);
	T_INT(seen.rep.r, 0);
	T_INT(seen.n_fds, 1);
	T_INT(fcntl(seen.kept, F_GETFD), FD_CLOEXEC);
	close(seen.kept);
}

TEST(worker_reports_its_error_with_kind_and_words)
{
	char path[] = "/no/such";

	run(job_open, path, 60000);
	T_INT(seen.rep.r, -ENOENT);
	T_INT(seen.rep.kind, ERR_NOT_FOUND);
	T_STR(seen.rep.msg, "open /no/such: No such file or directory");
}

TEST(worker_that_dies_is_an_error)
{
	run(job_crash, NULL, 60000);
	T_INT(seen.rep.r, -EIO);
	T_HAS(seen.rep.msg, "without a report");
}

TEST(worker_past_its_deadline_is_killed)
{
	run(job_hang, NULL, 20);
	T_INT(seen.rep.r, -ETIMEDOUT);
	T_INT(seen.rep.kind, ERR_TIMEOUT);
	T_HAS(seen.rep.msg, "deadline");
}

TEST(worker_stop_kills_and_calls_nobody)
{
	struct loop *l = loop_new();
	struct worker w = { 0 };
	struct err e = { 0 };

	memset(&seen, 0, sizeof(seen));
	T_INT(worker_start(l, &w, job_hang, NULL, 60000, on_done, &e), 0);
	worker_stop(&w);
	worker_stop(&w); /* no-op */
	T_TRUE(waitpid(-1, NULL, WNOHANG) < 0);
	loop_once(l, 0);
	T_INT(seen.n_done, 0);
	loop_free(l);
}
