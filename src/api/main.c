/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/openapi.h"
#include "base/args.h"
#include "base/log.h"
#include "base/own.h"
#include "base/ready.h"
#include "net/addr.h"

struct options {
	const char *run, *db, *control, *data, *data_url, *preview;
	struct arg_list hosts, origins, webhook_allow;
	int64_t db_conns, rate;
	bool openapi;
};

static const char more[] = "Example:\n"
			   "  caisson-api --db 'host=/run/caisson/pg "
			   "dbname=caisson user=caisson_api'\n";

static int check_allow(const struct arg_list *list, struct err *e)
{
	struct addr_net net;

	for (size_t i = 0; i < list->n; i++)
		if (!addr_net_parse(list->v[i], strlen(list->v[i]), &net))
			return err_set(e, -EINVAL, ERR_INVALID,
				       "--webhook-allow %s: expected a network "
				       "such as 10.1.0.0/16",
				       list->v[i]);
	return 0;
}

static int parse(int argc, char **argv, struct options *o, struct err *e)
{
	const struct arg_opt opts[] = {
		{ "run", 0, ARG_STR, &o->run, "DIR",
		  "runtime directory (/run/caisson)", 0, 0 },
		{ "db", 0, ARG_STR, &o->db, "CONNINFO",
		  "connection string of the database, role caisson_api", 0, 0 },
		{ "control", 0, ARG_STR, &o->control, "ADDRESS:PORT",
		  "control listener (127.0.0.1:7700)", 0, 0 },
		{ "data", 0, ARG_STR, &o->data, "ADDRESS:PORT",
		  "data listener (127.0.0.1:7710)", 0, 0 },
		{ "data-url", 0, ARG_STR, &o->data_url, "HOST:PORT",
		  "the data listener as clients reach it (the name they ask "
		  "by, its port)",
		  0, 0 },
		{ "preview-domain", 0, ARG_STR, &o->preview, "DOMAIN[:PORT]",
		  "what follows PORT-ID. in URLs of sandboxes' ports "
		  "(localhost and the data listener's port)",
		  0, 0 },
		{ "host", 0, ARG_LIST, &o->hosts, "NAME",
		  "a Host to answer to, beside loopback; may be repeated", 0,
		  0 },
		{ "origin", 0, ARG_LIST, &o->origins, "URL",
		  "an Origin (page) to let in; may be repeated", 0, 0 },
		{ "webhook-allow", 0, ARG_LIST, &o->webhook_allow, "CIDR",
		  "a network that webhooks may go to, beside public addresses; "
		  "the controller needs it too",
		  0, 0 },
		{ "db-connections", 0, ARG_INT, &o->db_conns, "N",
		  "connections to the database (16)", 1, 256 },
		{ "rate", 0, ARG_INT, &o->rate, "N",
		  "calls a second that one key may make on the control "
		  "listener, twice as many at once; 0 = no limit (1000)",
		  0, 1000000 },
		{ "openapi", 0, ARG_FLAG, &o->openapi, NULL,
		  "print the OpenAPI document and exit", 0, 0 },
	};
	const struct args a = {
		.usage = "caisson-api --db CONNINFO [options]",
		.summary = "Serve Caisson's public API.",
		.more = more,
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int rest = 0, r = args_parse(&a, argc, argv, &rest, e);

	if (r != ARGS_OK)
		return r;
	if (rest < argc)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "unexpected argument \"%s\"", argv[rest]);
	if (check_allow(&o->webhook_allow, e) < 0)
		return -EINVAL;
	if (!o->db && !o->openapi)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "--db CONNINFO is needed; `caisson up` passes "
			       "the private database's");
	return ARGS_OK;
}

/* A restart is equal to a crash: what was accepted is in the database. */
static void on_term(struct loop_signal *s)
{
	loop_stop(s->loop, 0);
}

static int serve(const struct options *o, struct err *e)
{
	struct api_conf conf = {
		.conninfo = o->db,
		.hosts = o->hosts.v,
		.n_hosts = o->hosts.n,
		.origins = o->origins.v,
		.n_origins = o->origins.n,
		.webhook_allow = o->webhook_allow.v,
		.n_webhook_allow = o->webhook_allow.n,
		.data_url = o->data_url,
		.preview_domain = o->preview,
		.db_conns = (unsigned)o->db_conns,
		.rate_per_s = (unsigned)o->rate,
	};
	struct loop_signal term = { 0 }, intr = { 0 };
	owned_fd control = api_bind(o->control, e);
	owned_fd data = control < 0 ? -1 : api_bind(o->data, e);
	struct loop *l;
	struct api *a;

	if (control < 0 || data < 0)
		return e->code;
	signal(SIGPIPE, SIG_IGN);
	l = loop_new();
	loop_signal_add(l, &term, SIGTERM, on_term);
	loop_signal_add(l, &intr, SIGINT, on_term);
	a = api_new(l, &conf);
	api_listen_take(a, take_fd(&control), take_fd(&data));
	log_info("listening", "control=%s data=%s", o->control, o->data);
	ready_notify();
	loop_run(l);
	api_free(a);
	loop_signal_del(&term);
	loop_signal_del(&intr);
	loop_free(l);
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = { .run = "/run/caisson",
			     .control = "127.0.0.1:7700",
			     .data = "127.0.0.1:7710",
			     .db_conns = 16,
			     .rate = 1000 };
	struct err e = { 0 };
	int r;

	log_init("caisson-api", LOG_INFO_);
	r = parse(argc, argv, &o, &e);
	if (r == ARGS_HELP)
		return 0;
	if (r == ARGS_OK && o.openapi) {
		owned_str text = openapi_text();

		return fputs(text, stdout) < 0 || fflush(stdout) ? 1 : 0;
	}
	if (r == ARGS_OK)
		r = serve(&o, &e);
	if (r >= 0)
		return 0;
	fprintf(stderr, "caisson-api: %s\n", e.msg);
	return 1;
}
