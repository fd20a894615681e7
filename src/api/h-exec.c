/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/body.h"
#include "api/guest.h"
#include "api/handlers.h"
#include "api/mint.h"
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

/* Of the guest's record (a replayed one has its own id): the id, if it is one
 * of the sandbox of this exec. */
static const char *id_in(const json_t *record, const char *exec)
{
	const char *id = json_string_value(json_object_get(record, "id"));

	return id && id_valid(id, "ex_", 28) &&
		       strncmp(id, exec, strlen("ex_") + 20) == 0
		   ? id
		   : NULL;
}

static json_t *attach_json(struct req *r, const char *exec, bool watch,
			   int64_t ttl_s)
{
	owned_str base = mint_data_url(r, "ws");
	owned_str url = xasprintf("%s/v1/execs/%s/attach", base, exec);
	json_t *o;
	struct minted m;

	if (!mint_attach(r, exec, watch, ttl_s, &m))
		return NULL;
	o = json_object();
	json_set_take(o, "url", json_string(url));
	json_set_take(o, "token", json_string(m.text));
	json_set_take(o, "expires_at", json_string(m.expires_at));
	explicit_bzero(&m, sizeof(m));
	return o;
}

/* r->json is what went to the guest. */
static char *edit_created(struct req *r, const char *text, size_t n)
{
	owned_json record = NULL;
	json_t *attach;
	const char *id;

	if (json_parse(text, n, &record, NULL) < 0)
		return NULL;
	id = id_in(record, json_string_value(json_object_get(r->json, "id")));
	attach = id ? attach_json(r, id, false, TOKEN_TTL_MAX) : NULL;
	if (!attach)
		return NULL;
	json_set_take(record, "attach", attach);
	return json_text(record);
}

static void on_create_guest(struct req *r, const struct guest *g)
{
	owned_json defaults = parsed(g->defaults);
	owned_json env = parsed(g->env);
	owned_str text = NULL;
	json_t *body;
	char id[32];

	snprintf(id, sizeof(id), "ex_%.20s", g->id + 2);
	random_id(id + 23, 8);
	body = body_exec_merge(r->json, id, defaults, env);
	text = json_text(body);
	json_decref(r->json);
	r->json = body;
	proxy_start(r, &(struct proxy_spec){ .sandbox = g->id,
					     .data_path = g->data_path,
					     .method = "POST",
					     .path = "/v1/execs",
					     .body = text,
					     .mode = PROXY_JSON,
					     .pass = pass_idem,
					     .edit = edit_created });
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

static void on_size_guest(struct req *r, const struct guest *g)
{
	owned_str path = exec_path(r, "/size");
	owned_str text = json_text(r->json);

	to_guest(r, g, "POST", path, text, PROXY_JSON, NULL);
}

void h_exec_size(struct req *r)
{
	struct fault f;

	if (body_size(r->json, &f) < 0)
		req_fault(r, &f);
	else
		find_by_exec(r, on_size_guest);
}

/* ---- a token for another client ---- */

/* The guest knows the exec: only then there is something to attach to. */
static char *edit_token(struct req *r, const char *text, size_t n)
{
	owned_json record = NULL;
	owned_json attach = NULL;
	struct body_attach_token b;
	const char *id = req_param(r, "ex");
	struct fault f;

	if (json_parse(text, n, &record, NULL) < 0 || !id_in(record, id) ||
	    body_attach_token(r->json, &b, &f) < 0)
		return NULL;
	attach = attach_json(r, id, b.watch, b.ttl_s);
	if (!attach)
		return NULL;
	json_set_take(attach, "exec", json_string(id));
	json_set_take(attach, "watch", json_boolean(b.watch));
	return json_text(attach);
}

static void on_token_guest(struct req *r, const struct guest *g)
{
	owned_str path = exec_path(r, "");

	proxy_start(r, &(struct proxy_spec){ .sandbox = g->id,
					     .data_path = g->data_path,
					     .method = "GET",
					     .path = path,
					     .mode = PROXY_JSON,
					     .edit = edit_token,
					     .edit_status = 201 });
}

void h_exec_token(struct req *r)
{
	struct body_attach_token b;
	struct fault f;

	if (body_attach_token(r->json, &b, &f) < 0)
		req_fault(r, &f);
	else
		find_by_exec(r, on_token_guest);
}

/* ---- output ---- */

static bool wants_events(const struct req *r)
{
	const char *accept = req_header(r, "accept");

	return accept && strstr(accept, "text/event-stream");
}

/* Where to go on: a browser that comes back asks with the URL it was given
 * first, so Last-Event-ID counts more than from. false: answered. */
static bool output_from(struct req *r, int64_t *ret_from, int64_t *ret_follow)
{
	const char *last = req_header(r, "last-event-id");
	struct fault f;

	if (!req_query_int(r, "from", 0, INT64_MAX, 0, ret_from) ||
	    !req_query_int(r, "follow", 0, 1, 0, ret_follow))
		return false;
	if (!last || !*last)
		return true;
	*ret_from = sse_last_id(last);
	if (*ret_from >= 0)
		return true;
	fault_set(&f, "invalid_field", "request",
		  "send the id of the last event, or none",
		  "Last-Event-ID: expected an offset");
	snprintf(f.field, sizeof(f.field), "Last-Event-ID");
	req_fault(r, &f);
	return false;
}

static void stream_from(struct req *r, const struct guest *g, const char *path,
			enum sse_of of)
{
	owned_str whole = NULL;
	int64_t from, follow;

	if (!output_from(r, &from, &follow))
		return;
	whole = xasprintf("%s?from=%" PRId64 "&follow=%" PRId64, path, from,
			  follow);
	proxy_start(r, &(struct proxy_spec){
			   .sandbox = g->id,
			   .data_path = g->data_path,
			   .method = "GET",
			   .path = whole,
			   .mode = PROXY_STREAM,
			   .pass = wants_events(r) ? NULL : pass_accept,
			   .events = wants_events(r),
			   .events_of = of,
			   .follow = follow != 0 });
}

static void on_output_guest(struct req *r, const struct guest *g)
{
	owned_str path = exec_path(r, "/output");

	stream_from(r, g, path, SSE_FRAMES);
}

void h_exec_output(struct req *r)
{
	int64_t from, follow;

	if (output_from(r, &from, &follow))
		find_by_exec(r, on_output_guest);
}

/* The serial console: kept by the monitor, so it tells of a guest that does
 * not boot or died. */
static void on_logs_guest(struct req *r, const struct guest *g)
{
	stream_from(r, g, "/v1/console", SSE_LINES);
}

void h_sandbox_logs(struct req *r)
{
	int64_t from, follow;

	if (output_from(r, &from, &follow))
		guest_find(r, req_param(r, "id"), on_logs_guest);
}
