/* SPDX-License-Identifier: Apache-2.0 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/log.h"
#include "base/ready.h"
#include "controller/controller.h"
#include "net/addr.h"

static void on_ready(struct controller *c)
{
	log_info("ready", "owner=%s", c->owner);
	ready_notify();
}

static int serve(const struct controller_conf *conf)
{
	static struct controller c;
	struct loop *l = loop_new();
	struct err e = { 0 };
	int r;

	r = controller_start(&c, l, conf, on_ready, &e);
	if (r < 0) {
		log_error("start", "why=%s", e.msg);
		return EXIT_FAILURE;
	}
	/* SIGTERM keeps its default: a restart is a crash */
	r = loop_run(l);
	controller_stop(&c);
	loop_free(l);
	return r;
}

#define ALLOW_MAX 32

/* --webhook-allow CIDR, each. false: *bad is the one that is none. */
static bool read_allow(const struct arg_list *list, struct addr_net *ret,
		       const char **bad)
{
	for (size_t i = 0; i < list->n; i++) {
		*bad = list->v[i];
		if (i == ALLOW_MAX ||
		    !addr_net_parse(list->v[i], strlen(list->v[i]), &ret[i]))
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct controller_conf conf = { .run = "/run/caisson" };
	static struct addr_net allow[ALLOW_MAX];
	struct arg_list nets = { 0 };
	const char *bad = NULL;
	const struct arg_opt opts[] = {
		{ "run", 0, ARG_STR, &conf.run, "DIR",
		  "where sandboxd.sock lies (/run/caisson)", 0, 0 },
		{ "db", 0, ARG_STR, &conf.db, "CONNINFO",
		  "the database, role caisson_controller", 0, 0 },
		{ "webhook-allow", 0, ARG_LIST, &nets, "CIDR",
		  "a network that webhooks may go to, beside public addresses; "
		  "may be repeated",
		  0, 0 },
	};
	const struct args a = {
		.usage = "--run DIR --db CONNINFO",
		.summary = "Makes what is agree with what is wished.",
		.opts = opts,
		.n_opts = sizeof(opts) / sizeof(opts[0]),
	};
	struct err e = { 0 };
	int rest, r;

	log_init("caisson-controller", LOG_INFO_);
	signal(SIGPIPE, SIG_IGN);
	r = args_parse(&a, argc, argv, &rest, &e);
	if (r == ARGS_HELP)
		return EXIT_SUCCESS;
	if (r < 0 || rest < argc || !conf.db) {
		fprintf(stderr, "caisson-controller: %s\n",
			r < 0 ? e.msg : "usage: --run DIR --db CONNINFO");
		return EXIT_FAILURE;
	}
	if (!read_allow(&nets, allow, &bad)) {
		fprintf(stderr,
			"caisson-controller: --webhook-allow %s: expected at "
			"most 32 networks such as 10.1.0.0/16\n",
			bad);
		return EXIT_FAILURE;
	}
	conf.webhook_allow = allow;
	conf.n_webhook_allow = nets.n;
	return serve(&conf);
}
