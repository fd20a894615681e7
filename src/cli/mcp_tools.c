/* SPDX-License-Identifier: Apache-2.0 */

/* Tools for sandboxes and files. */

#include <stdarg.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/jget.h"
#include "cli/mcp.h"
#include "cli/remote.h"
#include "cli/sandbox.h"

#define CALL_S	75u
#define PATH_IN 4096u

void mcp_text(struct mcp_call *c, const char *p, size_t n)
{
	json_t *v = json_object();

	json_set_take(v, "type", json_string("text"));
	json_set_take(v, "text", json_str_lossy(p, n));
	json_array_append_new(c->content, v);
}

void mcp_json_take(struct mcp_call *c, json_t *v)
{
	owned_str text = json_text(v);

	mcp_text(c, text, strlen(text));
	json_decref(v);
}

void mcp_fail(struct mcp_call *c, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	c->failed = true;
	mcp_text(c, text, strlen(text));
}

bool mcp_args_end(struct mcp_call *c)
{
	if (json_reader_end(&c->reader) == 0)
		return true;
	mcp_fail(c, "%s", c->e.msg);
	return false;
}

char *mcp_sandbox(struct mcp_call *c)
{
	const char *word = "";
	owned_str escaped = NULL;

	json_required(&c->reader, "sandbox");
	if (!json_str(&c->reader, "sandbox", 128, &word))
		return NULL;
	escaped = client_escape(word);
	return sandbox_id_valid(word) ? TAKE(escaped)
				      : xasprintf("@%s", escaped);
}

void mcp_refused(struct mcp_call *c, int r, const struct fault *f,
		 const struct err *e)
{
	if (r != CLIENT_FAULT)
		mcp_fail(c, "%s", e->msg);
	else
		mcp_fail(c, "%s (%s)%s%s", f->message, f->code,
			 *f->remedy ? "\nremedy: " : "", f->remedy);
}

bool mcp_ask(struct mcp_call *c, enum client_side side, const char *method,
	     const char *path, const json_t *body, json_t **ret)
{
	struct fault f = { 0 };
	struct err e = { 0 };
	int r = client_call(c->client, side, method, path, body, CALL_S, ret,
			    NULL, &f, &e);

	if (r == CLIENT_OK)
		return true;
	mcp_refused(c, r, &f, &e);
	return false;
}

void mcp_bytes(struct mcp_call *c, const void *p, size_t n)
{
	owned_str b64 = NULL;

	if (text_utf8_prefix(p, n) == n && !memchr(p, '\0', n)) {
		mcp_text(c, p, n);
		return;
	}
	b64 = xcalloc(text_base64_len(n) + 1, 1);
	text_base64(p, n, b64);
	mcp_text(c, "the bytes are no UTF-8 text; in base64:", 39);
	mcp_text(c, b64, strlen(b64));
}

/* ---- sandboxes ---- */

/* What an agent needs of a record. */
static json_t *brief(const json_t *s)
{
	static const char *const names[] = { "id",	  "name",   "state",
					     "template",  "labels", "ends_at",
					     "isolation", "end" };
	json_t *v = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		json_t *x = json_object_get(s, names[i]);

		if (x && !json_is_null(x))
			json_object_set(v, names[i], x);
	}
	return v;
}

static void take_int(struct mcp_call *c, const char *name, int64_t min,
		     int64_t max, json_t *into, const char *as)
{
	int64_t n;

	if (json_int(&c->reader, name, min, max, &n))
		json_set_take(into, as, json_integer(n));
}

static void create_sandbox(struct mcp_call *c)
{
	owned_json body = json_object();
	owned_json answer = NULL;
	json_t *resources = json_object(), *lifetime = json_object(), *map;
	const char *s;

	json_set_take(body, "resources", resources);
	json_set_take(body, "lifetime", lifetime);
	json_set_take(body, "template", json_string("base"));
	if (json_str(&c->reader, "template", 200, &s))
		json_set_take(body, "template", json_string(s));
	if (json_str(&c->reader, "name", 100, &s))
		json_set_take(body, "name", json_string(s));
	if (json_strmap(&c->reader, "labels", 64, 64, 256, &map))
		json_object_set(body, "labels", map);
	if (json_strmap(&c->reader, "env", 256, 256, 32768, &map))
		json_object_set(body, "env", map);
	take_int(c, "vcpus", 1, 64, resources, "vcpus");
	take_int(c, "memory_mib", 16, 1 << 20, resources, "memory_mib");
	take_int(c, "disk_mib", 16, 1 << 24, resources, "disk_mib");
	/* an agent that is gone leaves nothing for ever */
	json_set_take(lifetime, "ttl_s", json_integer(3600));
	take_int(c, "ttl_s", 1, 31536000, lifetime, "ttl_s");
	if (!mcp_args_end(c))
		return;
	if (json_object_size(resources) == 0)
		json_object_del(body, "resources");
	if (mcp_ask(c, CLIENT_CONTROL, "POST", "/v1/sandboxes?wait_s=60", body,
		    &answer))
		mcp_json_take(c, brief(json_object_get(answer, "sandbox")));
}

static void list_sandboxes(struct mcp_call *c)
{
	owned_json answer = NULL;
	owned_str label = NULL;
	owned_str path = NULL;
	json_t *out, *x;
	bool all = false;
	const char *s;
	size_t i;

	json_bool(&c->reader, "all", &all);
	if (json_str(&c->reader, "label", 400, &s))
		label = client_escape(s);
	if (!mcp_args_end(c))
		return;
	path = xasprintf("/v1/sandboxes?limit=200%s%s", label ? "&label=" : "",
			 label ? label : "");
	if (!mcp_ask(c, CLIENT_CONTROL, "GET", path, NULL, &answer))
		return;
	out = json_array();
	json_array_foreach(json_object_get(answer, "items"), i, x)
	{
		const char *state = jget_str(x, "state", "");

		if (all || (strcmp(state, "ended") != 0 &&
			    strcmp(state, "failed") != 0 &&
			    strcmp(state, "lost") != 0))
			json_array_append_new(out, brief(x));
	}
	mcp_json_take(c, out);
}

static void end_sandbox(struct mcp_call *c)
{
	owned_str sb = mcp_sandbox(c);
	owned_str path = NULL;
	owned_json answer = NULL;

	if (!mcp_args_end(c))
		return;
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", sb);
	if (mcp_ask(c, CLIENT_CONTROL, "DELETE", path, NULL, &answer))
		mcp_json_take(c, brief(json_object_get(answer, "sandbox")));
}

#define SANDBOX                                                                \
	"\"sandbox\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":128,"  \
	"\"description\":\"id or name of a sandbox\"}"
#define WORDS                                                                  \
	"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}"

const struct mcp_tool mcp_sandbox_tools[] = {
	{ "create_sandbox",
	  "Make a sandbox: a virtual machine of its own, without network. It "
	  "ends after ttl_s (an hour unless told otherwise).",
	  "{\"template\":{\"type\":\"string\",\"description\":\"what it starts "
	  "from (base)\"},\"name\":{\"type\":\"string\"},\"ttl_s\":{\"type\":"
	  "\"integer\",\"minimum\":1,\"maximum\":31536000},\"labels\":" WORDS
	  ",\"env\":" WORDS ",\"vcpus\":{\"type\":\"integer\",\"minimum\":1,"
	  "\"maximum\":64},\"memory_mib\":{\"type\":\"integer\",\"minimum\":16}"
	  ",\"disk_mib\":{\"type\":\"integer\",\"minimum\":16}}",
	  "[]", false, create_sandbox },
	{ "list_sandboxes", "The sandboxes that live, newest first.",
	  "{\"all\":{\"type\":\"boolean\",\"description\":\"with those that "
	  "ended\"},\"label\":{\"type\":\"string\",\"description\":\"only with "
	  "KEY=VALUE\"}}",
	  "[]", true, list_sandboxes },
	{ "end_sandbox",
	  "End a sandbox and all that is in it; again is no "
	  "error.",
	  "{" SANDBOX "}", "[\"sandbox\"]", false, end_sandbox },
	{ 0 },
};

/* ---- files ---- */

struct body {
	const uint8_t *p;
	size_t n, at, max;
	struct buf got;
};

static int on_bytes(void *arg, const void *p, size_t n)
{
	struct body *b = arg;
	size_t room = b->max - buf_len(&b->got);

	buf_put(&b->got, p, n < room ? n : room);
	return n > room;
}

static ssize_t on_read(void *arg, void *p, size_t n)
{
	struct body *b = arg;

	n = n < b->n - b->at ? n : b->n - b->at;
	memcpy(p, b->p + b->at, n);
	b->at += n;
	return (ssize_t)n;
}

static char *file_url(const char *sb, const char *what, const char *path)
{
	owned_str p = client_escape(path);

	return xasprintf("/v1/sandboxes/%s/%s?path=%s", sb, what, p);
}

static void read_file(struct mcp_call *c)
{
	owned_str sb = mcp_sandbox(c);
	owned_str url = NULL;
	const char *path = "";
	int64_t offset = 0, max = 65536;
	char range[64];
	const char *headers[] = { range, NULL };
	struct body b = { 0 };
	struct client_transfer t = { .side = CLIENT_DATA,
				     .method = "GET",
				     .accept = "*/*",
				     .headers = headers,
				     .on_bytes = on_bytes,
				     .arg = &b,
				     .silence_s = 45 };
	struct fault f = { 0 };
	struct err e = { 0 };
	int r;

	json_required(&c->reader, "path");
	json_str(&c->reader, "path", PATH_IN, &path);
	json_int(&c->reader, "offset", 0, INT64_MAX / 2, &offset);
	json_int(&c->reader, "max_bytes", 1, MCP_TEXT_MAX, &max);
	if (!mcp_args_end(c))
		return;
	snprintf(range, sizeof(range), "Range: bytes=%lld-%lld",
		 (long long)offset, (long long)(offset + max - 1));
	b.max = (size_t)max;
	buf_init(&b.got, 0);
	url = file_url(sb, "files", path);
	t.path = url;
	r = client_transfer(c->client, &t, NULL, NULL, &f, &e);
	/* an empty file has no range: that is no fault of it */
	if (r == CLIENT_OK || (r < 0 && buf_len(&b.got) == b.max) ||
	    (r == CLIENT_FAULT && f.status == 416 && offset == 0))
		mcp_bytes(c, buf_cstr(&b.got), buf_len(&b.got));
	else
		mcp_refused(c, r, &f, &e);
	buf_fini(&b.got);
}

static void put_file(struct mcp_call *c, const char *url, struct body *b)
{
	const struct client_transfer t = { .side = CLIENT_DATA,
					   .method = "PUT",
					   .path = url,
					   .on_read = on_read,
					   .body_bytes = (int64_t)b->n,
					   .arg = b,
					   .silence_s = 120 };
	json_t *answer = NULL;
	struct fault f = { 0 };
	struct err e = { 0 };
	int r = client_transfer(c->client, &t, &answer, NULL, &f, &e);

	if (r == CLIENT_OK && answer)
		mcp_json_take(c, answer);
	else
		mcp_refused(c, r, &f, &e);
}

void mcp_input(struct mcp_call *c, const char *path, const char *text,
	       json_t **ret)
{
	struct body b = { .p = (const uint8_t *)text, .n = strlen(text) };
	const struct client_transfer t = { .side = CLIENT_CONTROL,
					   .method = "POST",
					   .path = path,
					   .on_read = on_read,
					   .body_bytes = (int64_t)b.n,
					   .arg = &b,
					   .silence_s = 60 };
	struct fault f = { 0 };
	struct err e = { 0 };
	int r = client_transfer(c->client, &t, ret, NULL, &f, &e);

	if (r != CLIENT_OK)
		mcp_refused(c, r, &f, &e);
	else if (!*ret)
		mcp_text(c, "sent", 4);
}

static void write_file(struct mcp_call *c)
{
	owned_str sb = mcp_sandbox(c);
	const char *path = "", *text = NULL, *b64 = NULL, *mode = NULL;
	owned_str raw = NULL;
	owned_str base = NULL;
	owned_str m = NULL;
	owned_str url = NULL;
	struct body b = { 0 };
	ssize_t n;

	json_required(&c->reader, "path");
	json_str(&c->reader, "path", PATH_IN, &path);
	json_str(&c->reader, "text", 4u << 20, &text);
	json_str(&c->reader, "base64", 6u << 20, &b64);
	json_str(&c->reader, "mode", 5, &mode);
	if (!mcp_args_end(c))
		return;
	if (!text == !b64) {
		mcp_fail(c, "give `text` or `base64`, one of them");
		return;
	}
	b.p = (const uint8_t *)text;
	b.n = text ? strlen(text) : 0;
	if (b64) {
		raw = xcalloc(strlen(b64) + 1, 1);
		n = text_unbase64(b64, strlen(b64), raw);
		if (n < 0) {
			mcp_fail(c,
				 "`base64` is none (RFC 4648, with padding)");
			return;
		}
		b.p = (const uint8_t *)raw;
		b.n = (size_t)n;
	}
	base = file_url(sb, "files", path);
	m = client_escape(mode ? mode : "");
	url = xasprintf("%s&parents=1%s%s", base, mode ? "&mode=" : "", m);
	put_file(c, url, &b);
}

static void list_files(struct mcp_call *c)
{
	owned_str sb = mcp_sandbox(c);
	const char *path = "/", *after = NULL;
	int64_t depth = 1, limit = 200;
	owned_str base = NULL;
	owned_str from = NULL;
	owned_str url = NULL;
	json_t *answer = NULL;

	json_str(&c->reader, "path", PATH_IN, &path);
	json_str(&c->reader, "after", 16384, &after);
	json_int(&c->reader, "depth", 1, 64, &depth);
	json_int(&c->reader, "limit", 1, 200, &limit);
	if (!mcp_args_end(c))
		return;
	base = file_url(sb, "files/list", path);
	from = client_escape(after ? after : "");
	url = xasprintf("%s&depth=%d&limit=%d%s%s", base, (int)depth,
			(int)limit, after ? "&after=" : "", from);
	if (mcp_ask(c, CLIENT_DATA, "GET", url, NULL, &answer))
		mcp_json_take(c, answer);
}

#define PATH                                                                   \
	"\"path\":{\"type\":\"string\",\"maxLength\":4096,\"description\":"    \
	"\"absolute path in the sandbox\"}"

const struct mcp_tool mcp_file_tools[] = {
	{ "read_file", "Read a file of a sandbox, or a part of it.",
	  "{" SANDBOX "," PATH ",\"offset\":{\"type\":\"integer\",\"minimum\":"
	  "0},\"max_bytes\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":"
	  "262144,\"default\":65536}}",
	  "[\"sandbox\",\"path\"]", true, read_file },
	{ "write_file",
	  "Write a file of a sandbox, whole; folders above it are made.",
	  "{" SANDBOX "," PATH ",\"text\":{\"type\":\"string\"},\"base64\":{"
	  "\"type\":\"string\",\"description\":\"instead of text\"},\"mode\":{"
	  "\"type\":\"string\",\"description\":\"octal, e.g. 0755\"}}",
	  "[\"sandbox\",\"path\"]", false, write_file },
	{ "list_files", "List a folder of a sandbox.",
	  "{" SANDBOX "," PATH ",\"depth\":{\"type\":\"integer\",\"minimum\":1,"
	  "\"maximum\":64,\"default\":1},\"limit\":{\"type\":\"integer\","
	  "\"minimum\":1,\"maximum\":200},\"after\":{\"type\":\"string\","
	  "\"description\":\"`next` of the page before\"}}",
	  "[\"sandbox\"]", true, list_files },
	{ 0 },
};
