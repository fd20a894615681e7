/* SPDX-License-Identifier: Apache-2.0 */

/* events, usage, metrics. */

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/names.h"
#include "cli/remote.h"
#include "cli/sandbox.h"
#include "cli/stream.h"
#include "net/json.h"

struct events {
	struct cli *cli;
	char *query; /* "type=…&sandbox=…&" */
	const char *after;
};

static int print_event(const struct cli *c, const json_t *v)
{
	owned_str data = NULL;
	owned_str type = name_shown_str(jget_str(v, "type", "?"));
	owned_str id = name_shown_str(
	    jget_str(v, "sandbox", jget_str(v, "operation", "-")));
	owned_str line = NULL;
	char *dump;

	if (c->json) {
		line = json_text(v);
		return printf("%s\n", line) < 0 || fflush(stdout) != 0;
	}
	dump = json_dumps(json_object_get(v, "data"),
			  JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	data = name_shown_str(dump);
	free(dump);
	return printf("%.19s  %-20s  %-22s  %s\n", jget_str(v, "time", "?"),
		      type, id, data) < 0 ||
	       fflush(stdout) != 0;
}

static char *events_path(void *arg, const char *id)
{
	const struct events *v = arg;
	owned_str after = client_escape(*id ? id : v->after ? v->after : "");

	return xasprintf("/v1/events?%sfollow=1%s%s", v->query,
			 *after ? "&after=" : "", after);
}

static int on_event(void *arg, const struct sse_event *ev)
{
	const struct events *v = arg;
	owned_json o = NULL;

	if (json_parse(ev->data, ev->n, &o, NULL) < 0)
		return 0;
	return print_event(v->cli, o);
}

/* What there is now, up to limit. */
static int events_list(struct events *v, struct client *cl, int64_t limit)
{
	owned_str path = xasprintf("/v1/events?%s", v->query);
	owned_json items = NULL;
	json_t *x;
	size_t i;
	int ret = CLI_OK;

	path[strlen(path) - 1] = '\0'; /* "?" or "&" */
	items = list_after(v->cli, cl, path, v->after, (size_t)limit, &ret);
	json_array_foreach(items, i, x)
	{
		if (print_event(v->cli, x))
			break;
	}
	return ret;
}

int verb_events(struct cli *c, int argc, char **argv)
{
	const char *type = NULL, *sandbox = NULL;
	struct events v = { .cli = c };
	bool follow = false;
	int64_t limit = 1000;
	const struct arg_opt opts[] = {
		{ "follow", 'f', ARG_FLAG, &follow, NULL,
		  "wait for more, from now on unless --after says else", 0, 0 },
		{ "type", 0, ARG_STR, &type, "T,…",
		  "only these types; sandbox.* means all of a kind", 0, 0 },
		{ "sandbox", 0, ARG_STR, &sandbox, "SB", "only of this one", 0,
		  0 },
		{ "after", 0, ARG_STR, &v.after, "CURSOR",
		  "behind this event; `now` for only what comes", 0, 0 },
		{ "limit", 'n', ARG_INT, &limit, "N", "at most N (1000)", 1,
		  1000000 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "events [options]",
		.summary = "What happened, oldest first; kept for 7 days.",
		.more = "A lost connection goes on behind the last event. "
			"--json prints one object a line.\n\n"
			"  caisson events -f --type 'sandbox.*'\n"
			"  caisson events --sandbox box --json\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct stream s = { .cli = c,
			    .path = events_path,
			    .on_event = on_event,
			    .arg = &v,
			    .resumes = true };
	owned_str t = NULL;
	owned_str id = NULL;
	int rest, ret = CLI_OK;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest < argc)
		return cli_usage("events takes no words; --sandbox SB");
	s.client = cli_client(c, &ret);
	if (!s.client)
		return ret;
	if (sandbox) {
		id = sandbox_resolve(c, s.client, sandbox, &ret);
		if (!id) {
			client_free(s.client);
			return ret;
		}
	}
	t = client_escape(type ? type : "");
	v.query =
	    xasprintf("%s%s%s%s%s%s", type ? "type=" : "", t, type ? "&" : "",
		      id ? "sandbox=" : "", id ? id : "", id ? "&" : "");
	if (follow && !v.after)
		v.after = "now";
	ret = follow ? stream_follow(&s) : events_list(&v, s.client, limit);
	client_free(s.client);
	free(v.query);
	return ret;
}

/* ---- usage ---- */

int verb_usage(struct cli *c, int argc, char **argv)
{
	static const struct column cols[] = {
		{ "GROUP", "group", COL_TEXT },
		{ "SANDBOXES", "sandboxes", COL_TEXT },
		{ "RUNNING S", "running_s", COL_TEXT },
		{ "CPU S", "cpu_s", COL_TEXT },
		{ "MEMORY MIB S", "memory_mib_s", COL_TEXT },
		{ "DISK MIB S", "disk_mib_s", COL_TEXT },
		{ "SENT BYTES", "egress_bytes", COL_TEXT },
	};
	const char *from = NULL, *to = NULL, *group = NULL;
	const struct arg_opt opts[] = {
		{ "from", 0, ARG_STR, &from, "TIME",
		  "since, e.g. 2026-12-01T00:00:00Z", 0, 0 },
		{ "to", 0, ARG_STR, &to, "TIME", "until", 0, 0 },
		{ "group", 0, ARG_STR, &group, "BY",
		  "project, sandbox or label:KEY", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "usage [options]",
		.summary = "What sandboxes used, in whole hours.",
		.more = "  caisson usage --group label:team\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_str f = NULL;
	owned_str t = NULL;
	owned_str g = NULL;
	owned_str path = NULL;
	owned_json body = NULL;
	struct client *cl;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	f = client_escape(from ? from : "");
	t = client_escape(to ? to : "");
	g = client_escape(group ? group : "project");
	path = xasprintf("/v1/usage?group=%s%s%s%s%s", g, from ? "&from=" : "",
			 f, to ? "&to=" : "", t);
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	cli_call(c, cl, "GET", path, NULL, &body, &ret);
	client_free(cl);
	if (!body)
		return ret;
	if (c->json)
		return cli_print_json(body);
	printf("from %.19s to %.19s\n", jget_str(body, "from", "?"),
	       jget_str(body, "to", "?"));
	return records_print(c, json_object_get(body, "items"), cols,
			     ARRAY_SIZE(cols));
}

/* ---- metrics ---- */

int verb_metrics(struct cli *c, int argc, char **argv)
{
	static const struct column cols[] = {
		{ "TIME", "at", COL_TIME },
		{ "CPU MS", "cpu_ms", COL_TEXT },
		{ "CPU %", "cpu_pct", COL_TEXT },
		{ "MEMORY BYTES", "memory_bytes", COL_TEXT },
		{ "DISK BYTES", "disk_bytes", COL_TEXT },
		{ "RECEIVED BYTES", "net_rx_bytes", COL_TEXT },
		{ "SENT BYTES", "net_tx_bytes", COL_TEXT },
	};
	const char *from = NULL, *to = NULL;
	bool now = false;
	int64_t step_s = 60;
	const struct arg_opt opts[] = {
		{ "now", 0, ARG_FLAG, &now, NULL,
		  "the guest's own sample of this moment, as JSON", 0, 0 },
		{ "from", 0, ARG_STR, &from, "TIME", "since (an hour ago)", 0,
		  0 },
		{ "to", 0, ARG_STR, &to, "TIME", "until (now)", 0, 0 },
		{ "step", 0, ARG_INT, &step_s, "S", "seconds of a row (60)", 10,
		  86400 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "metrics [options] SB",
		.summary = "CPU, memory, disk and traffic of a sandbox over "
			   "time, as its node measured them.",
		.more = "  caisson metrics box --step 10\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_str id = NULL;
	owned_str f = NULL;
	owned_str t = NULL;
	owned_str path = NULL;
	owned_json body = NULL;
	struct client *cl = NULL;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc)
		return cli_usage("metrics: caisson metrics SB");
	id = sandbox_of(c, argv[rest], &cl, &ret);
	if (!id)
		return ret;
	f = client_escape(from ? from : "");
	t = client_escape(to ? to : "");
	path = now ? xasprintf("/v1/sandboxes/%s/metrics", id)
		   : xasprintf("/v1/sandboxes/%s/metrics?step_s=%d%s%s%s%s", id,
			       (int)step_s, from ? "&from=" : "", f,
			       to ? "&to=" : "", t);
	cli_call(c, cl, "GET", path, NULL, &body, &ret);
	client_free(cl);
	if (!body)
		return ret;
	if (c->json || now)
		return cli_print_json(body);
	return records_print(c, json_object_get(body, "items"), cols,
			     ARRAY_SIZE(cols));
}
