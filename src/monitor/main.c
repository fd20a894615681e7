/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/args.h"
#include "base/log.h"
#include "base/own.h"
#include "base/ready.h"
#include "monitor/monitor.h"
#include "proto/noded.h"

static void on_signal(struct loop_signal *s)
{
	loop_stop(s->loop, 0);
}

/* What it never needs it cannot have: more privileges, a core file with a
 * guest's data in it, other processes. 1: a limit of 0 is ignored when cores go
 * through a pipe. */
static void lock_down(void)
{
	struct rlimit core = { 1, 1 };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &core);
}

int main(int argc, char **argv)
{
	int64_t slot = -1, uid = -1;
	const struct arg_opt opts[] = {
		{ .name = "slot",
		  .type = ARG_INT,
		  .dest = &slot,
		  .value = "N",
		  .help = "number of the slot",
		  .max = NODED_SLOTS_MAX - 1 },
		{ .name = "node-uid",
		  .type = ARG_INT,
		  .dest = &uid,
		  .value = "UID",
		  .help = "the sandbox manager's user id",
		  .max = INT32_MAX },
	};
	const struct args args = {
		.usage = "--slot N --node-uid UID",
		.summary = "Keeps one sandbox's VM; started by caisson-noded.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct loop_signal term = { 0 };
	struct monitor *m;
	struct loop *l;
	struct err e = { 0 };
	int rest, r;

	r = args_parse(&args, argc, argv, &rest, &e);
	if (r == ARGS_HELP)
		return 0;
	if (r < 0 || slot < 0 || uid < 0 || rest != argc) {
		fprintf(stderr, "caisson-monitor: %s\n",
			r < 0 ? e.msg : "--slot and --node-uid are needed");
		return 2;
	}
	log_init("caisson-monitor", LOG_INFO_);
	lock_down();
	signal(SIGPIPE, SIG_IGN);
	if (fcntl(MONITOR_FD_LISTEN, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(MONITOR_FD_LISTEN, F_SETFL, O_NONBLOCK) < 0) {
		fprintf(stderr,
			"caisson-monitor: no listening socket as descriptor "
			"%d; it is started by caisson-noded\n",
			MONITOR_FD_LISTEN);
		return 2;
	}
	l = loop_new();
	loop_signal_add(l, &term, SIGTERM, on_signal);
	m = monitor_new_take(l, MONITOR_FD_LISTEN, (uid_t)uid, (unsigned)slot);
	log_info("serving", "slot=%lld", (long long)slot);
	ready_notify();
	r = loop_run(l);
	monitor_free(m);
	loop_signal_del(&term);
	loop_free(l);
	return r;
}
