/* SPDX-License-Identifier: Apache-2.0 */

/* audit: read the chain, and recompute it. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/chain.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/remote.h"
#include "net/json.h"

static const struct column columns[] = {
	{ "N", "n", COL_TEXT },
	{ "TIME", "time", COL_TIME },
	{ "ACTOR", "actor_name", COL_TEXT },
	{ "ACTION", "action", COL_TEXT },
	{ "TARGET", "target", COL_TEXT },
	{ "OUTCOME", "outcome", COL_TEXT },
	{ "CODE", "code", COL_TEXT },
	{ "DETAIL", "detail", COL_TEXT },
};

struct filters {
	const char *actor, *action, *target, *outcome;
	bool cluster;
	int64_t limit;
};
#define FILTER_OPTS(f)                                                          \
	{                                                                       \
		"actor",     0,	    ARG_STR,                                    \
		&(f)->actor, "KEY", "only of this key's id",                    \
		0,	     0                                                  \
	},                                                                      \
	    { "action", 0,                                                      \
	      ARG_STR,	&(f)->action,                                           \
	      "WORD",	"only this, e.g. sandbox.create",                       \
	      0,	0 },                                                    \
	    { "target", 0, ARG_STR, &(f)->target, "ID", "only to this", 0, 0 }, \
	    { "outcome",	 0, ARG_STR, &(f)->outcome, "WORD",             \
	      "done or refused", 0, 0 },                                        \
	{                                                                       \
		"cluster", 0, ARG_FLAG, &(f)->cluster, NULL,                    \
		    "the chain of what belongs to no tenant (operator)", 0, 0   \
	}

static char *audit_path(const struct filters *f, const char *order)
{
	const struct {
		const char *name, *value;
	} all[] = { { "order", order },
		    { "actor", f->actor },
		    { "action", f->action },
		    { "target", f->target },
		    { "outcome", f->outcome } };
	struct buf b;
	char *ret;

	buf_init(&b, 0);
	buf_puts(&b, f->cluster ? "/v1/audit?cluster=1" : "/v1/audit");
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		owned_str v = client_escape(all[i].value ? all[i].value : "");

		if (all[i].value)
			buf_printf(&b, "%c%s=%s",
				   strchr(buf_cstr(&b), '?') ? '&' : '?',
				   all[i].name, v);
	}
	ret = xstrdup(buf_cstr(&b));
	buf_fini(&b);
	return ret;
}

static int audit_tail(struct cli *c, int argc, char **argv)
{
	struct filters f = { .limit = 50 };
	const struct arg_opt opts[] = {
		FILTER_OPTS(&f),
		{ "limit", 'n', ARG_INT, &f.limit, "N", "the newest N (50)", 1,
		  1000000 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "audit tail [options]",
		.summary = "Who did what, or was refused what; the newest "
			   "last.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_json items = NULL;
	owned_json shown = NULL;
	owned_str path = NULL;
	struct client *cl;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	path = audit_path(&f, NULL);
	items = list_all(c, cl, path, (size_t)f.limit, &ret);
	client_free(cl);
	if (!items)
		return ret;
	shown = json_array();
	for (size_t i = json_array_size(items); i-- > 0;)
		json_array_append(shown, json_array_get(items, i));
	return records_print(c, shown, columns, ARRAY_SIZE(columns));
}

/* Each record of the chain in its order, a page at a time. 0, or -1 with
 * *ret_exit; on_record non-zero ends it with that. */
static int each_record(struct cli *c, struct client *cl, const char *path,
		       int (*on_record)(void *arg, const json_t *r), void *arg,
		       int *ret_exit)
{
	owned_str after = NULL;

	for (;;) {
		owned_str url =
		    xasprintf("%s&limit=200%s%s", path, after ? "&after=" : "",
			      after ? after : "");
		owned_json body = NULL;
		const char *next;
		json_t *r;
		size_t i;

		if (cli_call(c, cl, "GET", url, NULL, &body, ret_exit) < 0)
			return -1;
		json_array_foreach(json_object_get(body, "items"), i, r)
		{
			int k = on_record(arg, r);

			if (k)
				return k;
		}
		next = jget_str(body, "next", NULL);
		if (!next)
			return 0;
		free(after);
		after = client_escape(next);
	}
}

static int print_line(void *arg, const json_t *r)
{
	owned_str text = json_text(r);

	(void)arg;
	return printf("%s\n", text) < 0;
}

static int audit_export(struct cli *c, int argc, char **argv)
{
	struct filters f = { 0 };
	const struct arg_opt opts[] = { FILTER_OPTS(&f), CLI_COMMON(c) };
	const struct args a = {
		.usage = "audit export [options]",
		.summary = "All records that are kept, oldest first, one JSON "
			   "object a line.",
		.more = "  caisson audit export > audit.ndjson\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	owned_str path = NULL;
	struct client *cl;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	path = audit_path(&f, "oldest");
	if (each_record(c, cl, path, print_line, NULL, &ret) >= 0)
		ret = fflush(stdout) == 0 ? CLI_OK : CLI_OURS;
	client_free(cl);
	return ret;
}

/* ---- verify ---- */

struct verifying {
	struct chain chain;
	const char *why;
	int64_t bad_n;
	/* an anchor of before: N:HASH */
	uint64_t anchor_n;
	const char *anchor;
	bool anchored;
};

static int verify_record(void *arg, const json_t *r)
{
	struct verifying *v = arg;

	v->why = chain_next(&v->chain, r);
	v->bad_n = jget_int(r, "n", 0);
	if (v->anchor && v->chain.n == v->anchor_n && !v->why) {
		v->anchored = !strcmp(jget_str(r, "hash", ""), v->anchor);
		if (!v->anchored)
			v->why = "its hash is not the one that was noted";
	}
	return v->why != NULL;
}

static int verify(struct cli *c, struct client *cl, bool cluster,
		  struct verifying *v, json_t **ret_head)
{
	const struct filters f = { .cluster = cluster };
	owned_str path = audit_path(&f, "oldest");
	char hex[DIGEST_HEX];
	int ret = CLI_OK;

	if (cli_call(c, cl, "GET",
		     cluster ? "/v1/audit/head?cluster=1" : "/v1/audit/head",
		     NULL, ret_head, &ret) < 0)
		return ret;
	if (!chain_start(&v->chain, json_object_get(*ret_head, "floor"))) {
		v->why = "the head's floor is none";
		return CLI_OK;
	}
	if (each_record(c, cl, path, verify_record, v, &ret) < 0)
		return ret;
	text_hex(v->chain.prev, sizeof(v->chain.prev), hex);
	if (!v->why && v->chain.n < (uint64_t)jget_int(*ret_head, "n", 0))
		v->why = "the end of the chain is missing";
	if (!v->why && v->chain.n == (uint64_t)jget_int(*ret_head, "n", 0) &&
	    v->chain.n > 0 && strcmp(hex, jget_str(*ret_head, "hash", "")) != 0)
		v->why = "the head has another hash than the last record";
	if (!v->why && v->anchor && !v->anchored)
		v->why = "the noted record is not in the chain";
	return CLI_OK;
}

static int verify_print(const struct cli *c, const struct verifying *v)
{
	char hex[DIGEST_HEX];
	owned_json o = json_object();

	text_hex(v->chain.prev, sizeof(v->chain.prev), hex);
	if (c->json) {
		json_set_take(o, "whole", json_boolean(!v->why));
		json_set_take(o, "n", json_integer((json_int_t)v->chain.n));
		json_set_take(o, "hash", json_string(hex));
		json_set_take(o, "reason",
			      v->why ? json_string(v->why) : json_null());
		if (v->why)
			json_set_take(o, "broken", json_integer(v->bad_n));
		cli_print_json(o);
	} else if (!v->why) {
		printf("whole: %" PRIu64 " records; keep this elsewhere: "
		       "%" PRIu64 ":%s\n",
		       v->chain.n, v->chain.n, hex);
	} else {
		fprintf(stderr,
			"caisson: the audit chain is broken at record %" PRId64
			": %s\n",
			v->bad_n, v->why);
	}
	return v->why ? 1 : CLI_OK;
}

static int audit_verify(struct cli *c, int argc, char **argv)
{
	const char *anchor = NULL;
	bool cluster = false;
	const struct arg_opt opts[] = {
		{ "anchor", 0, ARG_STR, &anchor, "N:HASH",
		  "what an earlier verify printed: must be in the chain", 0,
		  0 },
		{ "cluster", 0, ARG_FLAG, &cluster, NULL,
		  "the chain of what belongs to no tenant (operator)", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "audit verify [options]",
		.summary = "Recompute the hash chain here; exit 1 if a record "
			   "does not fit.",
		.more = "The last line is the head: kept elsewhere, it proves "
			"that nothing before was changed.\n\n"
			"  caisson audit verify\n"
			"  caisson audit verify --anchor 1200:4bf9...\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct verifying v = { 0 };
	owned_json head = NULL;
	owned_str number = NULL;
	const char *colon;
	struct client *cl;
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	colon = anchor ? strchr(anchor, ':') : NULL;
	if (anchor) {
		number = xstrndup(anchor, colon ? (size_t)(colon - anchor) : 0);
		if (!colon || strlen(colon) != DIGEST_HEX ||
		    !text_int(number, 1, INT64_MAX, (int64_t *)&v.anchor_n))
			return cli_usage("audit verify: --anchor takes "
					 "NUMBER:HASH");
		v.anchor = colon + 1;
	}
	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	ret = verify(c, cl, cluster, &v, &head);
	client_free(cl);
	return ret == CLI_OK ? verify_print(c, &v) : ret;
}

int verb_audit(struct cli *c, int argc, char **argv)
{
	static const struct verb verbs[] = {
		{ "tail", "ls", "audit", "the newest records", audit_tail },
		{ "verify", NULL, "audit", "recompute the chain",
		  audit_verify },
		{ "export", NULL, "audit", "all records, a line each",
		  audit_export },
	};
	static const struct verb_group g = {
		.name = "audit",
		.summary = "Who did what, in a chain of hashes.",
		.verbs = verbs,
		.n = ARRAY_SIZE(verbs),
	};

	return verb_group(c, &g, argc, argv);
}
