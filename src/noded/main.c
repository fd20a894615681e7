/* SPDX-License-Identifier: Apache-2.0 */

#include "base/args.h"
#include "base/log.h"
#include "base/own.h"
#include "base/ready.h"
#include "base/user.h"
#include "noded/noded.h"
#include "noded/privs.h"

/* 4 uids for each of 1024 slots must fit below 2^32 - 1 */
#define UID_BASE_MIN 65536
#define UID_BASE_MAX (INT64_C(4294967294) - INT64_C(4096))

/* A stop is equal to a crash: what lives on is found again by the next start.
 */
static int serve(struct loop *l, struct noded *n, struct err *e)
{
	int r = noded_listen(n, e);

	return r < 0 ? r : ready_run(l);
}

static int run(const struct noded_conf *conf, bool cleanup, struct err *e)
{
	struct noded *n = NULL;
	struct loop *l;
	int r = privs_reduce(e); /* first: it closes what it does not know */

	if (r < 0)
		return r;
	l = loop_new();
	r = noded_new(l, conf, &n, e);
	if (r == 0 && !cleanup)
		log_info("serving", "run=%s qemu=%s uid_base=%u", conf->run,
			 conf->qemu, conf->uid_base);
	if (r == 0)
		r = cleanup ? noded_cleanup(n, e) : serve(l, n, e);
	noded_free(n);
	loop_free(l);
	return r;
}

int main(int argc, char **argv)
{
	struct noded_conf conf = { .run = "/run/caisson",
				   .libexec = "/usr/libexec/caisson",
				   .qemu = "/usr/bin/qemu-system-x86_64",
				   .nft = "/usr/sbin/nft",
				   .cgroup = "caisson" };
	const char *node_user = "caisson-node";
	int64_t uid_base = 200000;
	bool cleanup = false;
	const struct arg_opt opts[] = {
		{ "run", 0, ARG_STR, &conf.run, "DIR",
		  "sockets and slots (/run/caisson)", 0, 0 },
		{ "libexec", 0, ARG_STR, &conf.libexec, "DIR",
		  "caisson-monitor and caisson-shim.so", 0, 0 },
		{ "node-user", 0, ARG_STR, &node_user, "USER",
		  "who may ask (caisson-node)", 0, 0 },
		{ "qemu", 0, ARG_STR, &conf.qemu, "FILE",
		  "the VMM's program (/usr/bin/qemu-system-x86_64)", 0, 0 },
		{ "nft", 0, ARG_STR, &conf.nft, "FILE",
		  "nftables' program (/usr/sbin/nft)", 0, 0 },
		{ "uid-base", 0, ARG_INT, &uid_base, "N",
		  "first of the slots' user ids (200000)", UID_BASE_MIN,
		  UID_BASE_MAX },
		{ "cgroup", 0, ARG_STR, &conf.cgroup, "NAME",
		  "our cgroup below the v2 root (caisson)", 0, 0 },
		{ "cleanup", 0, ARG_FLAG, &cleanup, NULL,
		  "destroy every slot, then exit", 0, 0 },
	};
	const struct args args = {
		.usage = "[options]",
		.summary = "Root's part of a node: slots, their networks and "
			   "jails.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct err e = { 0 };
	int rest, r;

	log_init("caisson-noded", LOG_INFO_);
	r = args_parse(&args, argc, argv, &rest, &e);
	if (r == ARGS_HELP)
		return 0;
	if (r == 0)
		r = user_lookup(node_user, &conf.node_uid, &conf.node_gid, &e);
	if (r < 0) {
		log_error("start", "error=%s", e.msg);
		return 2;
	}
	conf.uid_base = (uid_t)uid_base;
	r = run(&conf, cleanup, &e);
	if (r < 0)
		log_error("start", "error=%s", e.msg);
	return r < 0;
}
