/* SPDX-License-Identifier: Apache-2.0 */

#include "base/args.h"
#include "base/log.h"
#include "base/own.h"
#include "base/ready.h"
#include "base/user.h"
#include "storaged/storaged.h"

/* A stop is equal to a crash: what is unfinished is swept by the next start. */
static int serve(struct loop *l, struct storaged *s, struct err *e)
{
	int r = storaged_listen(s, e);

	return r < 0 ? r : ready_run(l);
}

static int run(const struct storaged_conf *conf, struct err *e)
{
	struct loop *l = loop_new();
	struct storaged *s = NULL;
	int r = storaged_new(l, conf, &s, e);

	if (r == 0) {
		log_info("serving", "data=%s", conf->data);
		r = serve(l, s, e);
	}
	storaged_free(s);
	loop_free(l);
	return r;
}

int main(int argc, char **argv)
{
	struct storaged_conf conf = { .run = "/run/caisson",
				      .data = "/var/lib/caisson/store" };
	const char *node_user = "caisson-node";
	int64_t floor_mib = 1024;
	const struct arg_opt opts[] = {
		{ "run", 0, ARG_STR, &conf.run, "DIR",
		  "where the socket goes (/run/caisson)", 0, 0 },
		{ "data", 0, ARG_STR, &conf.data, "DIR",
		  "the store (/var/lib/caisson/store)", 0, 0 },
		{ "node-user", 0, ARG_STR, &node_user, "USER",
		  "who may ask (caisson-node)", 0, 0 },
		{ "floor-mib", 0, ARG_INT, &floor_mib, "MIB",
		  "begin nothing new with less free space (1024)", 0,
		  INT64_C(1) << 30 },
	};
	const struct args args = {
		.usage = "[options]",
		.summary = "Keeper of a node's artifacts and disks.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct err e = { 0 };
	int rest, r;

	log_init("caisson-storaged", LOG_INFO_);
	r = args_parse(&args, argc, argv, &rest, &e);
	if (r == ARGS_HELP)
		return 0;
	if (r == 0)
		r = user_lookup(node_user, &conf.node_uid, &conf.node_gid, &e);
	if (r < 0) {
		log_error("start", "error=%s", e.msg);
		return 2;
	}
	conf.floor_bytes = (uint64_t)floor_mib << 20;
	r = run(&conf, &e);
	if (r < 0)
		log_error("start", "error=%s", e.msg);
	return r < 0;
}
