/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rows against a node's list: 1. the rows, 2. the list, 3. which of the listed
 * no row knows. In this order nothing that appears or goes meanwhile is taken
 * for lost or leaked (decide.h). Acts on what is found; the next comparison
 * finds what did not take effect.
 */

#include "controller/controller.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "base/own.h"
#include "controller/decide.h"
#include "net/json.h"

#define QUERY_MS    10000u
#define LIST_TMO_MS 10000u
#define END_TMO_MS  35000u
#define END_LEFT_MS 30000
#define ID_MAX	    32
#define WORD_MAX    16
#define ROWS_MAX    100000

struct row {
	char id[ID_MAX], desired[WORD_MAX], observed[WORD_MAX];
	struct row_facts facts;
};

struct compare {
	struct controller *c;
	struct node *node;
	char name[64];
	void (*done)(void *arg, bool ok);
	void *arg;
	struct row *rows;
	size_t n_rows;
	json_t *items; /* of the node's list */
	unsigned pending;
	bool ok;
};

static struct pg_stmt rows_stmt = {
	.name = "node_sandboxes",
	.sql = "SELECT id, desired, observed, generation, fence, settled FROM "
	       "caisson.node_sandboxes($1)",
	.n_params = 1,
};
static struct pg_stmt strangers_stmt = {
	.name = "node_strangers",
	.sql = "SELECT id FROM caisson.node_strangers($1, $2::text[])",
	.n_params = 2,
};
static struct pg_stmt gone_stmt = {
	.name = "sandbox_gone_listed",
	.sql = "SELECT caisson.sandbox_gone($1, $2, $3, $4, $5)",
	.n_params = 5,
};

static void finish(struct compare *k)
{
	k->done(k->arg, k->ok);
	json_decref(k->items);
	free(k->rows);
	free(k);
}

static void release(struct compare *k)
{
	if (--k->pending == 0)
		finish(k);
}

/* ---- actions ---- */

static void on_gone(void *arg, const struct pg_result *res, const struct err *e)
{
	struct compare *k = arg;

	(void)res;
	if (e)
		k->ok = false;
	release(k);
}

static void row_gone(struct compare *k, const struct row *r, bool lost)
{
	const char *params[] = { k->name, r->id, lost ? "lost" : "ended",
				 lost ? "node_lost" : "request",
				 lost ? "the node has no such sandbox any more"
				      : "gone from the node" };

	log_warn("sandbox_missing", "node=%s sandbox=%s as=%s", k->name, r->id,
		 params[2]);
	k->pending++;
	if (pg_query(k->c->pool, &gone_stmt, params, QUERY_MS, on_gone, k,
		     NULL) < 0) {
		k->ok = false;
		k->pending--; /* the caller holds one, too */
	}
}

static void on_ended(void *arg, int status, const char *body, size_t n,
		     const struct err *e)
{
	struct compare *k = arg;

	(void)body;
	(void)n;
	if (e || status < 200 || status > 299)
		k->ok = false; /* found again next time */
	release(k);
}

static void end_on_node(struct compare *k, const char *id, int64_t generation,
			int64_t fence)
{
	owned_str path = xasprintf("/v1/sandboxes/%s/end", id);
	owned_json body = json_object();
	owned_str text = NULL;

	json_set_take(body, "incarnation",
		      json_string(node_incarnation(k->node)));
	json_set_take(body, "generation", json_integer(generation));
	json_set_take(body, "fence", json_integer(fence));
	json_set_take(body, "operation", json_string("leftover"));
	json_set_take(body, "time_left_ms", json_integer(END_LEFT_MS));
	text = json_text(body);
	k->pending++;
	if (node_call(k->node, "POST", path, text, END_TMO_MS, on_ended, k,
		      NULL) < 0) {
		k->ok = false;
		k->pending--;
	}
}

static json_t *listed(const struct compare *k, const char *id)
{
	json_t *item;
	size_t i;

	json_array_foreach(k->items, i, item)
	{
		const char *s = json_string_value(json_object_get(item, "id"));

		if (s && !strcmp(s, id))
			return item;
	}
	return NULL;
}

static int64_t number(const json_t *item, const char *name)
{
	return json_integer_value(json_object_get(item, name));
}

static void on_strangers(void *arg, const struct pg_result *res,
			 const struct err *e)
{
	struct compare *k = arg;

	if (e)
		k->ok = false;
	for (int i = 0; !e && i < pg_rows(res); i++) {
		json_t *item = listed(k, pg_text(res, i, 0));

		log_warn("stranger", "node=%s sandbox=%s", k->name,
			 pg_text(res, i, 0));
		if (item)
			end_on_node(k, pg_text(res, i, 0),
				    number(item, "generation") + 1,
				    number(item, "fence"));
	}
	release(k);
}

/* ---- steps ---- */

static void ask_strangers(struct compare *k)
{
	struct buf ids;
	json_t *item;
	size_t i, n = 0;

	buf_init(&ids, 0);
	buf_puts(&ids, "{");
	json_array_foreach(k->items, i, item)
	{
		const char *s = json_string_value(json_object_get(item, "id"));

		/* only names of ours become part of an array literal */
		if (s && strlen(s) < ID_MAX &&
		    strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789") ==
			strlen(s))
			buf_printf(&ids, "%s%s", n++ ? "," : "", s);
	}
	buf_puts(&ids, "}");
	if (n > 0) {
		const char *params[] = { k->name, buf_cstr(&ids) };

		k->pending++;
		if (pg_query(k->c->pool, &strangers_stmt, params, QUERY_MS,
			     on_strangers, k, NULL) < 0) {
			k->ok = false;
			k->pending--;
		}
	}
	buf_fini(&ids);
}

static void judge_rows(struct compare *k)
{
	struct map *by_id = map_new();
	json_t *item;
	size_t i;

	json_array_foreach(k->items, i, item)
	{
		const char *s = json_string_value(json_object_get(item, "id"));

		if (s)
			map_set(by_id, s, item);
	}
	for (i = 0; i < k->n_rows; i++) {
		struct row *r = &k->rows[i];
		struct list_facts l = { 0 };
		enum row_action what;

		item = map_get(by_id, r->id);
		if (item) {
			l.observed = "running";
			l.generation = number(item, "generation");
			l.fence = number(item, "fence");
		}
		what = decide_row(&r->facts, item ? &l : NULL);
		if (what == ROW_LOST || what == ROW_ENDED)
			row_gone(k, r, what == ROW_LOST);
		else if (what == ROW_END)
			end_on_node(k, r->id, r->facts.generation,
				    r->facts.fence);
	}
	map_free(by_id);
}

static void on_list(void *arg, int status, const char *body, size_t n,
		    const struct err *e)
{
	struct compare *k = arg;
	owned_json v = NULL;
	json_t *items;

	if (e || status != 200 || json_parse(body, n, &v, NULL) < 0) {
		k->ok = false;
		finish(k);
		return;
	}
	items = json_object_get(v, "items");
	if (!json_is_array(items)) {
		k->ok = false; /* absent is not empty: nothing is judged */
		finish(k);
		return;
	}
	k->items = json_incref(items);
	k->pending = 1; /* ours, until all has been begun */
	judge_rows(k);
	ask_strangers(k);
	release(k);
}

static void keep_row(struct row *r, const struct pg_result *res, int i)
{
	snprintf(r->id, sizeof(r->id), "%s", pg_text(res, i, 0));
	snprintf(r->desired, sizeof(r->desired), "%s", pg_text(res, i, 1));
	snprintf(r->observed, sizeof(r->observed), "%s", pg_text(res, i, 2));
	r->facts = (struct row_facts){
		.desired = r->desired,
		.observed = r->observed,
		.generation = pg_int(res, i, 3, 0),
		.fence = pg_int(res, i, 4, 0),
		.settled = pg_bool(res, i, 5),
	};
}

static void on_rows(void *arg, const struct pg_result *res, const struct err *e)
{
	struct compare *k = arg;

	if (e) {
		k->ok = false;
		finish(k);
		return;
	}
	k->n_rows = (size_t)pg_rows(res);
	if (k->n_rows > ROWS_MAX)
		k->n_rows = ROWS_MAX;
	k->rows = xnew_n(struct row, k->n_rows + 1);
	for (size_t i = 0; i < k->n_rows; i++)
		keep_row(&k->rows[i], res, (int)i);
	if (node_call(k->node, "GET", "/v1/sandboxes", NULL, LIST_TMO_MS,
		      on_list, k, NULL) < 0) {
		k->ok = false;
		finish(k);
	}
}

void compare_start(struct controller *c, struct node *n, const char *name,
		   void (*done)(void *arg, bool ok), void *arg)
{
	struct compare *k = xnew(struct compare);
	const char *params[] = { k->name };

	k->c = c;
	k->node = n;
	k->done = done;
	k->arg = arg;
	k->ok = true;
	snprintf(k->name, sizeof(k->name), "%s", name);
	if (pg_query(c->pool, &rows_stmt, params, QUERY_MS, on_rows, k, NULL) <
	    0) {
		k->ok = false;
		finish(k);
	}
}
