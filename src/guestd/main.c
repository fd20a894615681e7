/* SPDX-License-Identifier: Apache-2.0 */

/*
 * caisson-guestd: PID 1 of a guest, or with --root-less --socket-fd N an
 * ordinary process that serves the same protocol on a socket.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <unistd.h>

#include "base/args.h"
#include "base/log.h"
#include "guestd/boot.h"
#include "guestd/children.h"
#include "guestd/exec.h"
#include "guestd/life.h"
#include "guestd/port.h"
#include "guestd/service.h"

static void on_gone(void *owner)
{
	struct guestd *g = owner;

	loop_stop(g->loop, 0);
}

static int serve(struct guestd *g, int port_fd)
{
	static const struct http_conn_ops ops = {
		.on_request = service_request,
	};
	struct port *port;
	int r;

	(void)signal(SIGPIPE, SIG_IGN);
	g->loop = loop_new();
	g->children = children_new(g->loop);
	g->life = life_new(g);
	g->execs = execs_new(g);
	port = port_new_take(g->loop, port_fd, g->root_less, &ops, g, on_gone);
	r = loop_run(g->loop);
	port_free(port);
	g->execs = execs_free(g->execs);
	g->life = life_free(g->life);
	return r;
}

/* PID 1 must not return: the kernel would panic, which says less than this. */
static void boot_failed(const struct err *e)
{
	log_error("boot", "error=%s", e->msg);
	sync();
	(void)reboot(RB_POWER_OFF);
	(void)reboot(RB_AUTOBOOT);
}

int main(int argc, char **argv)
{
	bool root_less = false;
	int64_t socket_fd = -1;
	const struct arg_opt opts[] = {
		{ .name = "root-less",
		  .type = ARG_FLAG,
		  .dest = &root_less,
		  .help = "serve as an ordinary process; mount nothing" },
		{ .name = "socket-fd",
		  .type = ARG_INT,
		  .dest = &socket_fd,
		  .value = "N",
		  .max = 1 << 20,
		  .help = "the channel: a connected stream socket" },
	};
	const struct args args = {
		.usage = "--root-less --socket-fd N",
		.summary = "Guest daemon of a Caisson sandbox.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	static struct guestd g;
	struct err e = { 0 };
	int rest = 0, fd = -1, r;

	log_init("caisson-guestd", LOG_WARN_);
	/* whatever a starter left open is nothing for programs of the guest */
	(void)close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
	held_init(&g.held);
	if (getpid() == 1) {
		if (boot_run(&g, &fd, &e) < 0)
			boot_failed(&e);
		return serve(&g, fd);
	}
	r = args_parse(&args, argc, argv, &rest, &e);
	if (r == ARGS_HELP)
		return 0;
	if (r == 0 && (!root_less || socket_fd < 0 || rest != argc))
		r = err_set(&e, -EINVAL, ERR_INVALID,
			    "outside of a guest only --root-less --socket-fd N "
			    "is possible");
	g.root_less = true;
	if (r < 0 || boot_root_less(&g, &e) < 0) {
		log_error("start", "error=%s", e.msg);
		return 2;
	}
	/* orphans of execs come to us, as they do to PID 1 */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	fd = (int)socket_fd;
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	return serve(&g, fd);
}
