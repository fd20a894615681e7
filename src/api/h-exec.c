/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/body.h"
#include "api/guest.h"
#include "api/handlers.h"
#include "api/proxy.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

static const char *const pass_idem[] = { "idempotency-key", NULL };
static const char *const pass_accept[] = { "accept", NULL };

static void to_guest(struct req *r, const struct guest *g, const char *method,
		     const char *path, const char *body, enum proxy_mode mode,
		     const char *const *pass)
{
	proxy_start(r, &(struct proxy_spec){ .sandbox = g->id,
					     .data_path = g->data_path,
					     .method = method,
					     .path = path,
					     .body = body,
					     .mode = mode,
					     .pass = pass });
}

/* ---- of a sandbox ---- */

static void on_list_guest(struct req *r, const struct guest *g)
{
	to_guest(r, g, "GET", "/v1/execs", NULL, PROXY_JSON, NULL);
}

void h_exec_list(struct req *r)
{
	guest_find(r, req_param(r, "id"), on_list_guest);
}

static json_t *parsed(const char *text)
{
	json_t *v = NULL;

	if (!text || json_parse(text, strlen(text), &v, NULL) < 0)
		return NULL;
	return v;
}

static void on_create_guest(struct req *r, const struct guest *g)
{
	owned_json defaults = parsed(g->defaults);
	owned_json env = parsed(g->env);
	owned_json body = NULL;
	owned_str text = NULL;
	char id[32];

	snprintf(id, sizeof(id), "ex_%.20s", g->id + 2);
	random_id(id + 23, 8);
	body = body_exec_merge(r->json, id, defaults, env);
	text = json_text(body);
	to_guest(r, g, "POST", "/v1/execs", text, PROXY_JSON, pass_idem);
}

void h_exec_create(struct req *r)
{
	struct body_exec b;
	const char *idem;
	struct fault f;

	if (!req_idem(r, &idem))
		return;
	if (body_exec(r->json, &b, &f) < 0) {
		req_fault(r, &f);
		return;
	}
	guest_find(r, req_param(r, "id"), on_create_guest);
}

/* ---- of an exec ---- */

static void find_by_exec(struct req *r,
			 void (*done)(struct req *r, const struct guest *g))
{
	char sandbox[23];
	struct fault f;

	if (guest_of_exec(req_param(r, "ex"), sandbox)) {
		guest_find(r, sandbox, done);
		return;
	}
	fault_set(&f, "not_found", "request",
		  "GET /v1/sandboxes/{id}/execs lists them", "no such exec");
	req_fault(r, &f);
}

static char *exec_path(const struct req *r, const char *more)
{
	return xasprintf("/v1/execs/%s%s", req_param(r, "ex"), more);
}

static void on_exec_guest(struct req *r, const struct guest *g)
{
	owned_str path = exec_path(r, "");

	to_guest(r, g, r->route->method, path, NULL, PROXY_JSON, NULL);
}

void h_exec_get(struct req *r)
{
	find_by_exec(r, on_exec_guest);
}

void h_exec_forget(struct req *r)
{
	find_by_exec(r, on_exec_guest);
}

static void on_signal_guest(struct req *r, const struct guest *g)
{
	owned_str path = exec_path(r, "/signal");
	owned_str text = json_text(r->json);

	to_guest(r, g, "POST", path, text, PROXY_JSON, NULL);
}

void h_exec_signal(struct req *r)
{
	struct fault f;

	if (body_signal(r->json, &f) < 0)
		req_fault(r, &f);
	else
		find_by_exec(r, on_signal_guest);
}

static void on_stdin_guest(struct req *r, const struct guest *g)
{
	int64_t offset = 0, end = 0;
	char more[64];
	owned_str path = NULL;

	if (!req_query_int(r, "offset", 0, INT64_MAX, -1, &offset) ||
	    !req_query_int(r, "end", 0, 1, 0, &end))
		return;
	if (offset >= 0)
		snprintf(more, sizeof(more),
			 "/stdin?offset=%" PRId64 "&end=%" PRId64, offset, end);
	else
		snprintf(more, sizeof(more), "/stdin?end=%" PRId64, end);
	path = exec_path(r, more);
	to_guest(r, g, "POST", path, NULL, PROXY_UPLOAD, NULL);
}

void h_exec_stdin(struct req *r)
{
	int64_t v;

	if (req_query_int(r, "offset", 0, INT64_MAX, -1, &v) &&
	    req_query_int(r, "end", 0, 1, 0, &v))
		find_by_exec(r, on_stdin_guest);
}

static void on_output_guest(struct req *r, const struct guest *g)
{
	int64_t from = 0, follow = 0;
	char more[64];
	owned_str path = NULL;

	if (!req_query_int(r, "from", 0, INT64_MAX, 0, &from) ||
	    !req_query_int(r, "follow", 0, 1, 0, &follow))
		return;
	snprintf(more, sizeof(more), "/output?from=%" PRId64 "&follow=%" PRId64,
		 from, follow);
	path = exec_path(r, more);
	to_guest(r, g, "GET", path, NULL, PROXY_STREAM, pass_accept);
}

void h_exec_output(struct req *r)
{
	int64_t v;

	if (req_query_int(r, "from", 0, INT64_MAX, 0, &v) &&
	    req_query_int(r, "follow", 0, 1, 0, &v))
		find_by_exec(r, on_output_guest);
}
