/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/args.h"
#include "base/channel.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/own.h"
#include "base/ready.h"
#include "base/user.h"
#include "proto/noded.h"
#include "sandboxd/data.h"
#include "sandboxd/node.h"
#include "sandboxd/rpc.h"

#define QEMU_PATH "/usr/bin/qemu-system-x86_64"

struct options {
	const char *run, *name, *engine, *qemu, *libexec, *client;
	int64_t slots, waiting, memory_mib;
};

static int read_options(int argc, char **argv, struct options *o, struct err *e)
{
	const struct arg_opt opts[] = {
		{ "run", 0, ARG_STR, &o->run, "DIR",
		  "sockets and slots [/run/caisson]", 0, 0 },
		{ "name", 0, ARG_STR, &o->name, "NODE",
		  "this node's name in the control plane [local]", 0, 0 },
		{ "engine", 0, ARG_STR, &o->engine, "auto|qemu|null",
		  "how sandboxes become real [auto]", 0, 0 },
		{ "slots", 0, ARG_INT, &o->slots, "N",
		  "most sandboxes at once [256]", 1, NODED_SLOTS_MAX },
		{ "waiting", 0, ARG_INT, &o->waiting, "N",
		  "VMs kept warm per release [2]", 0, 64 },
		{ "memory-mib", 0, ARG_INT, &o->memory_mib, "N",
		  "memory promised to sandboxes [80 % of what is available]", 0,
		  INT32_MAX },
		{ "qemu", 0, ARG_STR, &o->qemu, "FILE",
		  "the VMM, part of checkpoints' keys [" QEMU_PATH "]", 0, 0 },
		{ "libexec", 0, ARG_STR, &o->libexec, "DIR",
		  "where caisson-shim.so lies [beside this program]", 0, 0 },
		{ "client-user", 0, ARG_STR, &o->client, "USER",
		  "whose group may connect [caisson, if it exists]", 0, 0 },
	};
	const struct args a = {
		.usage = "[options]",
		.summary = "Manage the sandboxes of one node.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int rest, r = args_parse(&a, argc, argv, &rest, e);

	if (r != 0)
		return r;
	if (rest < argc)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "unexpected word \"%s\"", argv[rest]);
	if (strcmp(o->engine, "auto") != 0 && strcmp(o->engine, "qemu") != 0 &&
	    strcmp(o->engine, "null") != 0)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "--engine %s: expected auto, qemu or null",
			       o->engine);
	return 0;
}

/* The folder of this program, allocated. */
static char *own_folder(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (n <= 0)
		return xstrdup(".");
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	return xstrdup(path);
}

/* Let the control plane's group in, where there is one. */
static int listen_at(const struct options *o, const char *name, struct err *e)
{
	owned_str path = xasprintf("%s/%s", o->run, name);
	const char *user = o->client ? o->client : "caisson";
	owned_fd fd = unix_listen(path, SOCK_STREAM, 0660, e);
	struct err ignored = { 0 };
	uid_t uid;
	gid_t gid;
	int r;

	if (fd < 0)
		return fd;
	r = user_lookup(user, &uid, &gid, o->client ? e : &ignored);
	if (r < 0)
		return o->client ? r : take_fd(&fd);
	if (chown(path, (uid_t)-1, gid) < 0)
		return err_errno(e, errno,
				 "give %s to group %u (make this daemon's user "
				 "a member of it)",
				 path, gid);
	return take_fd(&fd);
}

static void on_ready(struct node *n)
{
	(void)n;
	ready_notify();
}

/* Nothing is put in order at the end: a stop is equal to a crash, and the next
 * start takes everything over. */
static int serve(const struct options *o, const struct node_conf *conf,
		 struct err *e)
{
	struct loop *l = loop_new();
	struct node *n;
	int rpc_fd, data_fd;

	rpc_fd = listen_at(o, "sandboxd.sock", e);
	if (rpc_fd < 0)
		return rpc_fd;
	data_fd = listen_at(o, "sandboxd-data.sock", e);
	if (data_fd < 0)
		return data_fd;
	n = node_new(l, conf, on_ready, e);
	if (!n)
		return e->code;
	rpc_new_take(n, rpc_fd);
	data_new_take(n, data_fd);
	return loop_run(l);
}

int main(int argc, char **argv)
{
	struct options o = { .run = "/run/caisson",
			     .name = "local",
			     .engine = "auto",
			     .qemu = QEMU_PATH,
			     .slots = 256,
			     .waiting = 2 };
	owned_str folder = own_folder();
	owned_str shim = NULL;
	struct node_conf conf;
	struct err e = { 0 }, ignored = { 0 };
	uid_t client_uid = 0;
	int r;

	log_init("caisson-sandboxd", LOG_INFO_);
	r = read_options(argc, argv, &o, &e);
	if (r == ARGS_HELP)
		return 0;
	if (r < 0) {
		fprintf(stderr, "caisson-sandboxd: %s\n", e.msg);
		return 2;
	}
	shim = xasprintf("%s/caisson-shim.so", o.libexec ? o.libexec : folder);
	/* an unknown name is refused when we listen, if it was given */
	if (user_lookup(o.client ? o.client : "caisson", &client_uid, NULL,
			&ignored) < 0)
		client_uid = 0;
	conf = (struct node_conf){
		.run = o.run,
		.name = o.name,
		.engine = o.engine,
		.qemu = o.qemu,
		.shim = shim,
		.slots = (uint32_t)o.slots,
		.waiting = (uint32_t)o.waiting,
		.client_uid = client_uid,
		.memory_mib = o.memory_mib ? (uint32_t)o.memory_mib
					   : node_memory_default_mib(),
	};
	/* back only with an error */
	(void)serve(&o, &conf, &e);
	log_error("failed", "why=%s", e.msg);
	return 1;
}
