/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/jget.h"
#include "cli/names.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "net/json.h"

#define CALL_S 120u /* a file system that syncs */

char *remote_path(const char *id, const char *what, const char *path)
{
	owned_str p = client_escape(path);

	return xasprintf("/v1/sandboxes/%s/%s?path=%s", id, what, p);
}

int remote_call(const struct cli *c, struct client *cl, const char *method,
		const char *path, json_t **ret_body, int *ret_exit)
{
	json_t *answer = NULL;
	struct fault f;
	struct err e = { 0 };
	int r = client_call(cl, CLIENT_DATA, method, path, NULL, CALL_S,
			    &answer, NULL, &f, &e);

	if (r != CLIENT_OK) {
		*ret_exit =
		    r == CLIENT_FAULT ? cli_fault(c, &f) : cli_fail(c, &e);
		return -1;
	}
	if (ret_body)
		*ret_body = answer;
	else
		json_decref(answer);
	return 0;
}

int remote_stat(const struct cli *c, struct client *cl, const char *id,
		const char *path, bool follow, json_t **ret, int *ret_exit)
{
	owned_str base = remote_path(id, "files/stat", path);
	owned_str url = xasprintf("%s&follow=%d", base, follow);
	struct fault f;
	struct err e = { 0 };
	int r = client_call(cl, CLIENT_DATA, "GET", url, NULL, CALL_S, ret,
			    NULL, &f, &e);

	if (r == CLIENT_OK && *ret)
		return 0;
	/* a sandbox that is not there has no field */
	if (r == CLIENT_FAULT && f.status == 404 && !strcmp(f.cause, "guest"))
		return 1;
	*ret_exit = r == CLIENT_FAULT ? cli_fault(c, &f) : cli_fail(c, &e);
	return -1;
}

json_t *list_after(const struct cli *c, struct client *cl, const char *path,
		   const char *from, size_t max, int *ret_exit)
{
	owned_json all = json_array();
	owned_str after = from ? client_escape(from) : NULL;

	for (;;) {
		size_t have = json_array_size(all);
		size_t want = max && max - have < 200 ? max - have : 200;
		owned_str url = xasprintf(
		    "%s%climit=%zu%s%s", path, strchr(path, '?') ? '&' : '?',
		    want, after ? "&after=" : "", after ? after : "");
		owned_json body = NULL;
		const char *next;

		if (cli_call(c, cl, "GET", url, NULL, &body, ret_exit) < 0)
			return NULL;
		json_array_extend(all, json_object_get(body, "items"));
		next = jget_str(body, "next", NULL);
		if (!next || (max && json_array_size(all) >= max) ||
		    json_array_size(all) == have)
			return TAKE(all);
		free(after);
		after = client_escape(next);
	}
}

json_t *list_all(const struct cli *c, struct client *cl, const char *path,
		 size_t max, int *ret_exit)
{
	return list_after(c, cl, path, NULL, max, ret_exit);
}

/* The text of one value, allocated. */
static char *shown(const json_t *record, const struct column *col)
{
	const json_t *v = jget(record, col->path);
	int64_t at;
	char age[32];
	char *dump, *ret;

	if (!v || json_is_null(v))
		return xstrdup("-");
	if (json_is_string(v)) {
		at = col->kind == COL_AGE ? parse_rfc3339(json_string_value(v))
					  : -1;
		if (at >= 0) {
			format_age((now_unix_ms() - at) / 1000, age,
				   sizeof(age));
			return xstrdup(age);
		}
		if (col->kind == COL_TIME)
			return xasprintf("%.19s", json_string_value(v));
		return name_shown(json_string_value(v), json_string_length(v));
	}
	if (json_is_true(v) || json_is_false(v))
		return xstrdup(json_is_true(v) ? "yes" : "no");
	if (json_is_real(v))
		return xasprintf("%.1f", json_real_value(v));
	dump =
	    json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
	ret = name_shown_str(dump);
	free(dump);
	return ret;
}

int records_print(const struct cli *c, const json_t *items,
		  const struct column *cols, size_t n_cols)
{
	struct table t;
	json_t *item;
	size_t i;

	if (c->json)
		return cli_print_json(items);
	table_init(&t, n_cols);
	for (i = 0; i < n_cols; i++)
		table_cell(&t, cols[i].title);
	json_array_foreach(items, i, item)
	{
		for (size_t k = 0; k < n_cols; k++) {
			owned_str text = shown(item, &cols[k]);

			table_cell(&t, text);
		}
	}
	table_print(&t);
	table_fini(&t);
	return CLI_OK;
}

int record_print(const struct cli *c, const json_t *v,
		 const struct column *lines, size_t n_lines)
{
	struct table t;

	if (c->json)
		return cli_print_json(v ? v : json_null());
	table_init(&t, 2);
	for (size_t i = 0; i < n_lines; i++) {
		const json_t *x = jget(v, lines[i].path);
		owned_str text = shown(v, &lines[i]);

		if (!x || json_is_null(x))
			continue;
		table_cell(&t, lines[i].title);
		table_cell(&t, text);
	}
	table_print(&t);
	table_fini(&t);
	return CLI_OK;
}

int list_print(struct cli *c, const char *path, size_t max,
	       const struct column *cols, size_t n_cols)
{
	owned_json items = NULL;
	struct client *cl;
	int ret = CLI_OK;

	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	items = list_all(c, cl, path, max, &ret);
	client_free(cl);
	return items ? records_print(c, items, cols, n_cols) : ret;
}

int call_print(struct cli *c, const char *method, const char *path,
	       const json_t *body, const struct column *lines, size_t n_lines)
{
	owned_json answer = NULL;
	struct client *cl;
	int ret = CLI_OK, r;

	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	r = cli_call(c, cl, method, path, body, &answer, &ret);
	client_free(cl);
	return r == 0 ? record_print(c, answer, lines, n_lines) : ret;
}

char *sandbox_of(struct cli *c, const char *word, struct client **ret_client,
		 int *ret_exit)
{
	char *id;

	*ret_client = cli_client(c, ret_exit);
	if (!*ret_client)
		return NULL;
	id = sandbox_resolve(c, *ret_client, word, ret_exit);
	if (!id)
		*ret_client = client_free(*ret_client);
	return id;
}
