/* SPDX-License-Identifier: Apache-2.0 */

/* template build, template ls. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/builder.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/logfile.h"
#include "cli/meter.h"
#include "cli/sigs.h"
#include "cli/storeclient.h"
#include "cli/table.h"
#include "cli/verb-tag.h"
#include "net/json.h"

#define BUILD_JSON_MAX (1u << 20)

struct job {
	struct cli *cli;
	struct stack s;
	const char *name;
	bool if_changed, refresh;
	int signal_fd, signo;
	struct meter meter;
	struct client *cl;
	const char *importing; /* phase in words */
};

static const struct {
	const char *role, *file;
} artifacts[] = {
	{ "kernel", "kernel" },
	{ "initramfs", "initramfs" },
	{ "root", "root.ext4" },
};

/* Is the newest release made of the same inputs? Unknown is "no". */
static bool unchanged(struct job *j, struct err *e)
{
	owned_str name = client_escape(j->name);
	owned_str path = xasprintf("/v1/templates/%s", name);
	owned_str inputs = builder_inputs(&j->s, j->name, e);
	owned_str release = NULL;
	owned_json t = NULL;
	owned_json r = NULL;
	const char *digest;
	struct fault f;

	if (!inputs || client_call(j->cl, CLIENT_CONTROL, "GET", path, NULL, 20,
				   &t, NULL, &f, e) != CLIENT_OK)
		return false;
	digest = jget_str(t, "release", jget_str(t, "template.release", NULL));
	if (!digest)
		return false;
	release = xasprintf("/v1/releases/%s", digest);
	if (client_call(j->cl, CLIENT_CONTROL, "GET", release, NULL, 20, &r,
			NULL, &f, e) != CLIENT_OK)
		return false;
	if (strcmp(jget_str(r, "manifest.provenance.inputs_digest", ""),
		   inputs) != 0)
		return false;
	if (j->cli->json)
		cli_print_json(r);
	else
		printf("template %s %s is up to date\n", j->name, digest);
	return true;
}

static int on_import(void *arg, uint64_t done, uint64_t total)
{
	struct job *j = arg;

	meter_set(&j->meter, done, total, j->importing);
	return 0;
}

/* The built files into the store; {kernel, initramfs, root} of digests. */
static json_t *import(struct job *j, struct err *e)
{
	owned_str out = builder_out(&j->s, j->name);
	owned_json digests = json_object();
	struct storeclient store;
	int r;

	if (storeclient_open(&store, j->s.run, e) < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(artifacts); i++) {
		owned_str path = xasprintf("%s/%s", out, artifacts[i].file);
		owned_str phase = xasprintf("importing %s", artifacts[i].role);
		char digest[72];

		j->importing = phase;
		r = storeclient_import(&store, path, digest, on_import, j, e);
		if (r < 0) {
			storeclient_close(&store);
			return NULL;
		}
		json_set_take(digests, artifacts[i].role, json_string(digest));
	}
	meter_end(&j->meter);
	storeclient_close(&store);
	return TAKE(digests);
}

/* Body of POST /v1/templates/{t}/builds from what was built. */
static json_t *build_body(struct job *j, json_t *digests, struct err *e)
{
	owned_str out = builder_out(&j->s, j->name);
	owned_str path = xasprintf("%s/build.json", out);
	owned_json built = NULL;
	owned_str text = NULL;
	json_t *body, *from, *defaults;
	size_t n;

	if (file_read(path, BUILD_JSON_MAX, &text, &n, e) < 0)
		return NULL;
	if (json_parse(text, n, &built, e) < 0) {
		err_wrap(e, "%s", path);
		return NULL;
	}
	body = json_object();
	from = json_object();
	json_object_set(from, "artifacts", digests);
	json_set_take(body, "from", from);
	json_set_take(body, "root_format", json_string("raw"));
	defaults = json_object_get(built, "defaults");
	if (defaults)
		json_object_set(body, "defaults", defaults);
	json_object_del(built, "defaults");
	json_object_set(body, "provenance", built);
	return body;
}

static void show_progress(struct job *j, const json_t *operation)
{
	const json_t *p = json_object_get(operation, "progress");
	char phase[64];
	int64_t done = jget_int(p, "done", 0), total = jget_int(p, "total", 0);

	jget_shown(p, "phase", "waiting for the node", phase, sizeof(phase));
	if (total <= 0)
		total = 1;
	meter_set(&j->meter, (uint64_t)(done > 0 ? done : 0), (uint64_t)total,
		  phase);
}

static bool is_over(const json_t *operation)
{
	const char *state = jget_str(operation, "state", "failed");

	return strcmp(state, "pending") != 0 && strcmp(state, "running") != 0;
}

/* Until the checkpoint is ready. The operation goes on without us. */
static int follow_build(struct job *j, json_t *answer_take)
{
	owned_json answer = answer_take;
	const json_t *op = json_object_get(answer, "operation");
	owned_str id = xstrdup(jget_str(op, "id", ""));
	owned_str path = xasprintf("/v1/operations/%s?wait_s=2", id);
	char why[512];
	int ret = CLI_OK;

	while (!is_over(op)) {
		json_t *next = NULL;

		show_progress(j, op);
		if (cli_call(j->cli, j->cl, "GET", path, NULL, &next, &ret) < 0)
			return ret;
		json_decref(answer);
		answer = next;
		op = json_object_get(answer, "operation");
		if (!op)
			op = answer;
	}
	meter_end(&j->meter);
	if (!strcmp(jget_str(op, "state", ""), "succeeded"))
		return CLI_OK;
	jget_shown(op, "error.message", "no reason given", why, sizeof(why));
	return cli_usage("the node could not prepare the template: %s", why);
}

static int report(struct job *j)
{
	owned_str name = client_escape(j->name);
	owned_str path = xasprintf("/v1/templates/%s", name);
	owned_json t = NULL;
	int ret = CLI_OK;

	if (cli_call(j->cli, j->cl, "GET", path, NULL, &t, &ret) < 0)
		return ret;
	if (j->cli->json)
		return cli_print_json(t);
	printf("template %s %s ready\n", j->name,
	       jget_str(t, "release", jget_str(t, "template.release", "?")));
	return CLI_OK;
}

static int run_builder(struct job *j)
{
	struct err e = { 0 };
	owned_str log = NULL;
	struct buf tail;
	int ret, signo = 0;

	if (builder_run(&j->s, j->name, j->refresh, j->signal_fd, &j->meter,
			&log, &signo, &e) == 0)
		return CLI_OK;
	ret = cli_fail(j->cli, &e);
	if (signo)
		return 128 + signo;
	buf_init(&tail, 0);
	if (logfile_tail(log, 15, &tail) == 0 && buf_len(&tail) > 0)
		fprintf(stderr, "--- %s\n%.*s---\n", log, (int)buf_len(&tail),
			(const char *)buf_data(&tail));
	buf_fini(&tail);
	return ret;
}

static int build(struct job *j)
{
	owned_str name = client_escape(j->name);
	owned_str path = xasprintf("/v1/templates/%s/builds", name);
	owned_json digests = NULL;
	owned_json body = NULL;
	json_t *answer = NULL;
	struct err e = { 0 };
	int ret = CLI_OK;

	j->cl = cli_client(j->cli, &ret);
	if (!j->cl)
		return ret;
	if (j->if_changed && unchanged(j, &e))
		return CLI_OK;
	err_clear(&e);
	j->signal_fd = follow_signals();
	ret = run_builder(j);
	if (ret != CLI_OK)
		return ret;
	/* from here on Ctrl-C may end us: the store forgets drafts by itself,
	 * and the operation needs nobody to watch it */
	j->signal_fd = fd_close(j->signal_fd);
	unblock_signals();
	digests = import(j, &e);
	if (digests)
		body = build_body(j, digests, &e);
	if (!body)
		return cli_fail(j->cli, &e);
	if (cli_call(j->cli, j->cl, "POST", path, body, &answer, &ret) < 0)
		return ret;
	ret = follow_build(j, answer);
	return ret == CLI_OK ? report(j) : ret;
}

static int template_build(struct cli *c, int argc, char **argv)
{
	struct job j = { .cli = c, .signal_fd = -1 };
	struct stack_opts o = { 0 };
	const struct arg_opt opts[] = {
		{ "if-changed", 0, ARG_FLAG, &j.if_changed, NULL,
		  "do nothing if the newest release has the same inputs", 0,
		  0 },
		{ "refresh", 0, ARG_FLAG, &j.refresh, NULL,
		  "look for newer packages, not into the cache", 0, 0 },
		STACK_OPTS(&o),
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "template build [options] NAME",
		.summary = "Build a template on this node and make it ready. "
			   "Needs root.",
		.more = "Fetches packages into a cache, makes a disk, boots "
			"it once and keeps the\ncheckpoint. May be "
			"interrupted and repeated.\n\n"
			"  sudo caisson template build base\n"
			"  sudo caisson template build tiny --if-changed\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct err e = { 0 };
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (rest + 1 != argc)
		return cli_usage("template build: which one? `base`, `tiny`");
	if (geteuid() != 0)
		return cli_usage("template build needs root: sudo caisson "
				 "template build %s",
				 argv[rest]);
	j.name = argv[rest];
	meter_init(&j.meter, false);
	stack_init(&j.s);
	ret = stack_load(&j.s, &o, &e) < 0 ? cli_fail(c, &e) : build(&j);
	client_free(j.cl);
	fd_close(j.signal_fd);
	stack_fini(&j.s);
	return ret;
}

static int template_ls(struct cli *c, int argc, char **argv)
{
	const struct arg_opt opts[] = { CLI_COMMON(c) };
	const struct args a = {
		.usage = "template ls",
		.summary = "Templates and their newest releases.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json body = NULL;
	struct client *cl;
	struct table t;
	json_t *item;
	size_t i;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	cli_call(c, cl, "GET", "/v1/templates?limit=200", NULL, &body, &ret);
	client_free(cl);
	if (!body)
		return ret;
	if (c->json)
		return cli_print_json(json_object_get(body, "items"));
	table_init(&t, 4);
	table_cell(&t, "NAME");
	table_cell(&t, "RELEASE");
	table_cell(&t, "PUBLIC");
	table_cell(&t, "CREATED");
	json_array_foreach(json_object_get(body, "items"), i, item)
	{
		table_cell(&t, jget_str(item, "name", "?"));
		table_cellf(&t, "%.19s",
			    jget_str(item, "release", "not ready"));
		table_cell(&t, json_is_true(json_object_get(item, "public"))
				   ? "yes"
				   : "no");
		table_cellf(&t, "%.19s", jget_str(item, "created_at", ""));
	}
	table_print(&t);
	table_fini(&t);
	return CLI_OK;
}

int verb_template(struct cli *c, int argc, char **argv)
{
	static const struct verb verbs[] = {
		{ "build", NULL, "template", "build one", template_build },
		{ "ls", "list", "template", "list them", template_ls },
		{ "info", "show", "template", "one with its tags and release",
		  template_info },
		{ "tag", NULL, "template", "move or delete a tag",
		  template_tag },
		{ "rm", NULL, "template", "delete one", template_rm },
	};
	static const struct verb_later later[] = {
		{ "audit", "`caisson template info T --json` names digests" },
	};
	static const struct verb_group g = {
		"template", "Templates: what sandboxes start from.",
		verbs,	    ARRAY_SIZE(verbs),
		later,	    ARRAY_SIZE(later),
		"ls"
	};

	return verb_group(c, &g, argc, argv);
}
