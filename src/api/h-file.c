/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/guest.h"
#include "api/handlers.h"
#include "api/proxy.h"
#include "api/url.h"
#include "base/own.h"

static const char *const pass_read[] = { "range", "if-none-match", "if-match",
					 "if-range", NULL };
static const char *const pass_write[] = { "if-none-match", "if-match",
					  "content-digest", NULL };

/* The guest's path with those of the query's parameters that it knows. */
static char *file_path(const struct req *r, bool write)
{
	static const char *const names[] = { "mode", "owner", "parents" };
	owned_str path = req_query(r, "path");
	owned_str escaped = path ? url_escape(path) : NULL;
	char *ret = escaped ? xasprintf("/v1/files?path=%s", escaped) : NULL;

	for (size_t i = 0; ret && write && i < ARRAY_SIZE(names); i++) {
		owned_str v = req_query(r, names[i]);
		owned_str e = v ? url_escape(v) : NULL;
		owned_str before = ret;

		ret = e ? xasprintf("%s&%s=%s", before, names[i], e)
			: xstrdup(before);
	}
	return ret;
}

static void on_guest(struct req *r, const struct guest *g)
{
	const char *m = r->route->method;
	bool write = strcmp(m, "PUT") == 0;
	bool read = strcmp(m, "GET") == 0 || strcmp(m, "HEAD") == 0;
	owned_str path = file_path(r, write);

	proxy_start(r, &(struct proxy_spec){
			   .sandbox = g->id,
			   .data_path = g->data_path,
			   .method = m,
			   .path = path,
			   .mode = write  ? PROXY_UPLOAD
				   : read ? PROXY_STREAM
					  : PROXY_JSON,
			   .pass = read ? pass_read : pass_write,
		       });
}

static void find(struct req *r)
{
	owned_str path = req_query(r, "path");
	struct fault f;

	if (path && *path && strlen(path) <= 4096) {
		guest_find(r, req_param(r, "id"), on_guest);
		return;
	}
	fault_set(&f, path ? "bad_path" : "missing_field", "request",
		  "add ?path=/absolute/path, percent-encoded",
		  "path: expected 1 to 4096 bytes");
	snprintf(f.field, sizeof(f.field), "path");
	req_fault(r, &f);
}

void h_file_read(struct req *r)
{
	find(r);
}

void h_file_write(struct req *r)
{
	find(r);
}

void h_file_remove(struct req *r)
{
	find(r);
}
