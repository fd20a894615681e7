/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/samples.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "net/json.h"

#define EVERY_MS  10000u
#define ABSENT_MS 60000u /* a node that knows no samples */
#define CALL_MS	  10000u
#define QUERY_MS  20000u

struct samples {
	struct controller *c;
	struct node *node;
	struct loop_timer timer;
	int64_t after;
	char incarnation[64]; /* that `after` counts in; "" = not known */
	bool told;
};

static struct pg_stmt after_stmt = {
	.name = "samples_after",
	.sql = "SELECT caisson.samples_after($1, $2)",
	.n_params = 2,
};
static struct pg_stmt put_stmt = {
	.name = "samples_put",
	.sql = "SELECT caisson.samples_put($1, $2, $3, $4::jsonb)",
	.n_params = 4,
};

static void on_due(struct loop_timer *t);

static void due_in(struct samples *s, uint64_t ms)
{
	if (!s->c->stopping)
		loop_timer_set(s->c->loop, &s->timer, ms, on_due);
}

static void on_put(void *arg, const struct pg_result *res, const struct err *e)
{
	struct samples *s = arg;

	if (e)
		log_warn("samples", "node=%s why=%s", node_name(s->node),
			 e->msg);
	else
		s->after = pg_int(res, 0, 0, s->after);
	due_in(s, EVERY_MS);
}

static bool put(struct samples *s, const json_t *page)
{
	const char *inc =
	    json_string_value(json_object_get(page, "incarnation"));
	json_t *next = json_object_get(page, "next");
	json_t *items = json_object_get(page, "items");
	owned_str text = NULL;
	char number[24];

	if (!inc || strcmp(inc, s->incarnation) != 0 || !json_is_array(items) ||
	    !json_is_integer(next))
		return false;
	if (json_integer_value(next) == s->after)
		return false; /* nothing new */
	snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
		 json_integer_value(next));
	text = json_text(items);
	{
		const char *params[] = { node_name(s->node), inc, number,
					 text };

		return pg_query(s->c->pool, &put_stmt, params, QUERY_MS, on_put,
				s, NULL) == 0;
	}
}

static void on_page(void *arg, int status, const char *body, size_t n,
		    const struct err *e)
{
	struct samples *s = arg;
	owned_json page = NULL;

	if (!e && status == 404) {
		if (!s->told)
			log_info("samples", "node=%s has none",
				 node_name(s->node));
		s->told = true;
		due_in(s, ABSENT_MS);
		return;
	}
	if (e || status != 200 || json_parse(body, n, &page, NULL) < 0 ||
	    !put(s, page)) {
		/* a new start of the node: where to go on is asked again */
		if (strcmp(s->incarnation, node_incarnation(s->node)) != 0)
			*s->incarnation = '\0';
		due_in(s, EVERY_MS);
	}
}

static void ask(struct samples *s)
{
	char path[80];

	snprintf(path, sizeof(path), "/v1/samples?after=%" PRId64, s->after);
	if (node_call(s->node, "GET", path, NULL, CALL_MS, on_page, s, NULL) <
	    0)
		due_in(s, EVERY_MS);
}

static void on_after(void *arg, const struct pg_result *res,
		     const struct err *e)
{
	struct samples *s = arg;

	if (e) {
		*s->incarnation = '\0';
		due_in(s, EVERY_MS);
		return;
	}
	s->after = pg_int(res, 0, 0, 0);
	ask(s);
}

static void on_due(struct loop_timer *t)
{
	struct samples *s = container_of(t, struct samples, timer);
	const char *params[] = { node_name(s->node), s->incarnation };

	if (!node_is_ours(s->node)) {
		*s->incarnation = '\0'; /* another one may read meanwhile */
		due_in(s, EVERY_MS);
		return;
	}
	if (*s->incarnation &&
	    strcmp(s->incarnation, node_incarnation(s->node)) == 0) {
		ask(s);
		return;
	}
	snprintf(s->incarnation, sizeof(s->incarnation), "%s",
		 node_incarnation(s->node));
	if (pg_query(s->c->pool, &after_stmt, params, QUERY_MS, on_after, s,
		     NULL) < 0)
		due_in(s, EVERY_MS);
}

struct samples *samples_new(struct controller *c, struct node *n)
{
	struct samples *s = xnew(struct samples);

	s->c = c;
	s->node = n;
	due_in(s, 1000);
	return s;
}

struct samples *samples_free(struct samples *s)
{
	if (!s)
		return NULL;
	loop_timer_del(&s->timer);
	free(s);
	return NULL;
}
