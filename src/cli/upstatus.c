/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/upstatus.h"

#include <poll.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/cg.h"
#include "cli/jget.h"
#include "cli/supervise.h"
#include "net/json.h"

#define STATE_MAX     65536u
#define NODE_WAIT_MS  10000u /* the controller's first heartbeat */
#define NODE_POLL_MS  100
#define API_TIMEOUT_S 5

static json_t *read_state(const struct stack *s)
{
	owned_str path = xasprintf("%s/state.json", s->run);
	owned_str text = NULL;
	json_t *v = NULL;
	size_t n;

	if (file_read(path, STATE_MAX, &text, &n, NULL) < 0 ||
	    json_parse(text, n, &v, NULL) < 0)
		return NULL;
	return v;
}

bool upstatus_wait(const struct stack *s, unsigned timeout_ms)
{
	uint64_t until = now_mono_us() + 1000ull * timeout_ms;

	for (;;) {
		owned_json v = read_state(s);

		if (json_is_true(json_object_get(v, "up")))
			return true;
		if (now_mono_us() >= until)
			return false;
		poll(NULL, 0, 100);
	}
}

static bool is_ready(const json_t *unit)
{
	return !strcmp(jget_str(unit, "state", ""), "ready");
}

void upstatus_units(const json_t *state, struct buf *out)
{
	const json_t *units = json_object_get(state, "units");
	const char *gap = "";
	json_t *u;
	size_t i;

	json_array_foreach(units, i, u)
	{
		if (json_is_true(json_object_get(u, "task")) || !is_ready(u))
			continue;
		buf_printf(out, "%s%s", gap, jget_str(u, "name", "?"));
		gap = ", ";
	}
	if (*gap)
		buf_puts(out, " ready");
	json_array_foreach(units, i, u)
	{
		char why[96];

		if (is_ready(u))
			continue;
		jget_shown(u, "last_end", "", why, sizeof(why));
		buf_printf(out, "%s%s %s%s%s%s", *gap ? " · " : "",
			   jget_str(u, "name", "?"), jget_str(u, "state", "?"),
			   *why ? " (" : "", why, *why ? ")" : "");
		gap = ", ";
	}
}

/* Does the API itself reach a node? A row alone takes no sandbox yet. */
static bool api_has_engine(struct client *cl)
{
	owned_json who = NULL;
	struct fault f;
	struct err e = { 0 };

	return client_call(cl, CLIENT_CONTROL, "GET", "/v1/whoami", NULL,
			   API_TIMEOUT_S, &who, NULL, &f, &e) == CLIENT_OK &&
	       json_array_size(json_object_get(who, "engines")) > 0;
}

/* The first node that answers, waiting for it a little after a start. */
static json_t *first_node(struct client *cl, unsigned wait_ms)
{
	uint64_t until = now_mono_us() + 1000ull * wait_ms;

	for (;;) {
		owned_json body = NULL;
		struct fault f;
		struct err e = { 0 };
		json_t *n;
		size_t i;

		if (client_call(cl, CLIENT_CONTROL, "GET", "/v1/nodes", NULL,
				API_TIMEOUT_S, &body, NULL, &f,
				&e) != CLIENT_OK)
			return NULL;
		json_array_foreach(json_object_get(body, "items"), i, n)
		{
			if (!json_is_false(json_object_get(n, "alive")) &&
			    (api_has_engine(cl) || now_mono_us() >= until))
				return json_incref(n);
		}
		if (now_mono_us() >= until)
			return NULL;
		poll(NULL, 0, NODE_POLL_MS);
	}
}

static json_t *templates(struct client *cl)
{
	json_t *body = NULL;
	struct fault f;
	struct err e = { 0 };

	client_call(cl, CLIENT_CONTROL, "GET", "/v1/templates?limit=50", NULL,
		    API_TIMEOUT_S, &body, NULL, &f, &e);
	return body;
}

static void print_templates(const json_t *body)
{
	const json_t *items = json_object_get(body, "items");
	bool any = false;
	json_t *t;
	size_t i;

	json_array_foreach(items, i, t)
	{
		const char *release = jget_str(t, "release", NULL);

		if (!release)
			continue;
		any = true;
		printf("  template %s %.14s… ready\n", jget_str(t, "name", "?"),
		       release);
	}
	if (body && !any)
		printf("  no template yet: sudo caisson template build base\n");
}

static void print_node(const json_t *n)
{
	printf("  engine %s · isolation: %s (%s) · %lld slots, %lld waiting\n",
	       jget_str(n, "engine.name", "?"),
	       jget_str(n, "engine.isolation", "unknown"),
	       jget_str(n, "engine.reason", "no reason given"),
	       (long long)jget_int(n, "capacity.slots", 0),
	       (long long)jget_int(n, "waiting_vmms", 0));
}

/* A supervisor that was killed leaves the daemons running unwatched. */
static bool supervised(const struct stack *s, const json_t *state)
{
	owned_str root = cg_root();
	owned_str path = NULL;

	if (!root)
		return false;
	path = xasprintf("%s/%s/supervisor", root, s->cgroup);
	return cg_has_pid(path, (pid_t)jget_int(state, "pid", 0));
}

static bool all_ready(const json_t *state)
{
	const json_t *units = json_object_get(state, "units");
	json_t *u;
	size_t i;

	json_array_foreach(units, i, u)
	{
		if (!is_ready(u))
			return false;
	}
	return json_array_size(units) > 0;
}

static int print_text(const json_t *state, bool watched, const json_t *node,
		      const json_t *tpl, const struct context *ctx,
		      const char *path)
{
	struct buf units;

	buf_init(&units, 0);
	if (state) {
		upstatus_units(state, &units);
		printf("  %s\n", buf_cstr(&units));
		if (!watched)
			printf("  but the supervisor is gone: sudo caisson "
			       "up\n");
	}
	buf_fini(&units);
	if (node)
		print_node(node);
	else
		printf("  no node answers yet · isolation: unknown\n");
	print_templates(tpl);
	printf("  context \"%s\" in %s (0600) · control %s · data %s\n",
	       ctx->name, path, ctx->url, ctx->data_url);
	return fflush(stdout) == 0 ? CLI_OK : CLI_OURS;
}

int upstatus_print(struct cli *c, const struct stack *s)
{
	owned_json state = read_state(s);
	owned_json node = NULL;
	owned_json tpl = NULL;
	struct context_file f = { 0 };
	struct context ctx = { 0 };
	struct client *cl;
	struct err e = { 0 };
	bool watched = state && supervised(s, state);
	int ret;

	if (context_locate(&f, &e) < 0 || context_load(&f, &e) < 0 ||
	    context_get(&f, c->context, &ctx, &e) < 0) {
		context_file_fini(&f);
		return cli_fail(c, &e);
	}
	cl = client_new_take(&ctx);
	node = first_node(cl, all_ready(state) ? NODE_WAIT_MS : 0);
	tpl = templates(cl);
	if (c->json) {
		owned_json v = json_object();

		json_object_set(v, "local", state ? state : json_null());
		json_set_take(v, "supervised", json_boolean(watched));
		json_object_set(v, "node", node ? node : json_null());
		json_set_take(v, "templates",
			      json_incref(json_object_get(tpl, "items")));
		ret = cli_print_json(v);
	} else {
		ret = print_text(state, watched, node, tpl, client_context(cl),
				 f.path);
	}
	client_free(cl);
	context_file_fini(&f);
	if (!tpl || (state && (!watched || !all_ready(state))))
		return CLI_OURS;
	return ret;
}
