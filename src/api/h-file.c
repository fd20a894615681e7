/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/guest.h"
#include "api/handlers.h"
#include "api/proxy.h"
#include "api/url.h"
#include "base/check.h"
#include "base/own.h"

static const char *const pass_read[] = { "range", "if-none-match", "if-match",
					 "if-range", NULL };
static const char *const pass_write[] = { "if-none-match", "if-match",
					  "content-digest", NULL };

static const char *const pass_none[] = { NULL };

/* ---- what each call is at the guest ---- */

struct call {
	const char *route, *method; /* ours; method NULL = any */
	const char *path;	    /* the guest's */
	const char *query[8];	    /* parameters that go along */
	enum proxy_mode mode;
	const char *const *pass;
};

#define SB "/v1/sandboxes/{id}"
static const struct call calls[] = {
	{ SB "/files",
	  "GET",
	  "/v1/files",
	  { "path" },
	  PROXY_STREAM,
	  pass_read },
	{ SB "/files",
	  "HEAD",
	  "/v1/files",
	  { "path" },
	  PROXY_STREAM,
	  pass_read },
	{ SB "/files",
	  "PUT",
	  "/v1/files",
	  { "path", "mode", "owner", "parents" },
	  PROXY_UPLOAD,
	  pass_write },
	{ SB "/files",
	  "DELETE",
	  "/v1/files",
	  { "path", "recursive" },
	  PROXY_JSON,
	  pass_write },
	{ SB "/files/list",
	  "GET",
	  "/v1/files/list",
	  { "path", "depth", "limit", "after" },
	  PROXY_JSON,
	  pass_none },
	{ SB "/files/stat",
	  "GET",
	  "/v1/files/stat",
	  { "path", "follow" },
	  PROXY_JSON,
	  pass_none },
	{ SB "/files/mkdir",
	  "POST",
	  "/v1/files/mkdir",
	  { "path", "mode", "owner", "parents" },
	  PROXY_JSON,
	  pass_none },
	{ SB "/files/move",
	  "POST",
	  "/v1/files/move",
	  { "path", "to", "replace" },
	  PROXY_JSON,
	  pass_none },
	{ SB "/archive",
	  "GET",
	  "/v1/archive",
	  { "path", "format" },
	  PROXY_STREAM,
	  pass_none },
	{ SB "/archive",
	  "PUT",
	  "/v1/archive",
	  { "path", "format", "owner" },
	  PROXY_UPLOAD,
	  pass_none },
	{ SB "/watch",
	  "GET",
	  "/v1/watch",
	  { "path", "recursive" },
	  PROXY_STREAM,
	  pass_none },
};

static const struct call *call_of(const struct req *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (strcmp(calls[i].route, r->route->path) == 0 &&
		    strcmp(calls[i].method, r->route->method) == 0)
			return &calls[i];
	check_failed("a route of files without a call", __FILE__, __LINE__);
}

/* The guest's path with those parameters that it knows, escaped anew. */
static char *file_path(const struct req *r, const struct call *c)
{
	char *ret = xstrdup(c->path);

	for (size_t i = 0; i < ARRAY_SIZE(c->query) && c->query[i]; i++) {
		owned_str v = req_query(r, c->query[i]);
		owned_str e = v ? url_escape(v) : NULL;
		owned_str before = ret;

		ret = e ? xasprintf("%s%s%s=%s", before, i ? "&" : "?",
				    c->query[i], e)
			: xstrdup(before);
	}
	return ret;
}

static void on_guest(struct req *r, const struct guest *g)
{
	const struct call *c = call_of(r);
	owned_str path = file_path(r, c);
	const char *accept = req_header(r, "accept");
	bool watch = strcmp(c->path, "/v1/watch") == 0;

	proxy_start(
	    r, &(struct proxy_spec){
		   .sandbox = g->id,
		   .data_path = g->data_path,
		   .method = c->method,
		   .path = path,
		   .mode = c->mode,
		   .pass = c->pass,
		   .events = watch && !(accept && strstr(accept, "x-ndjson")),
		   .events_of = SSE_LINES,
		   .follow = true,
	       });
}

static bool check_path(struct req *r, const char *name)
{
	owned_str path = req_query(r, name);
	struct fault f;

	if (path && *path && strlen(path) <= 4096)
		return true;
	fault_set(&f, path ? "bad_path" : "missing_field", "request",
		  "add it to the query: an absolute path, percent-encoded",
		  "%s: expected 1 to 4096 bytes", name);
	snprintf(f.field, sizeof(f.field), "%s", name);
	req_fault(r, &f);
	return false;
}

static bool check_word(struct req *r, const char *name,
		       const char *const *words)
{
	owned_str v = req_query(r, name);
	struct fault f;

	for (size_t i = 0; v && words[i]; i++)
		if (strcmp(words[i], v) == 0)
			return true;
	if (!v)
		return true;
	fault_set(&f, "invalid_field", "request",
		  "GET /v1/openapi.json describes it", "%s: expected %s or %s",
		  name, words[0], words[1]);
	snprintf(f.field, sizeof(f.field), "%s", name);
	req_fault(r, &f);
	return false;
}

void h_file(struct req *r)
{
	static const char *const bits[] = { "0", "1", NULL };
	static const char *const formats[] = { "tar", "tar.zst", NULL };
	static const char *const flags[] = { "parents", "recursive", "follow",
					     "replace" };
	int64_t n;

	if (!check_path(r, "path"))
		return;
	if (strcmp(r->route->path, SB "/files/move") == 0 &&
	    !check_path(r, "to"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (!check_word(r, flags[i], bits))
			return;
	if (!check_word(r, "format", formats) ||
	    !req_query_int(r, "depth", 1, 64, 1, &n) ||
	    !req_query_int(r, "limit", 1, 1000, 1, &n))
		return;
	guest_find(r, req_param(r, "id"), on_guest);
}
