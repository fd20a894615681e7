/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/own.h"
#include "net/http1.h"
#include "net/http_int.h"

void http_head_init(struct http_head *h)
{
	memset(h, 0, sizeof(*h));
}

void http_head_fini(struct http_head *h)
{
	free(h->method);
	free(h->path);
	free(h->authority);
	for (size_t i = 0; i < h->n_fields; i++)
		free(h->fields[i].name); /* and the value behind it */
	free(h->fields);
	http_head_init(h);
}

void http_head_put(struct http_head *h, struct view name, struct view value)
{
	size_t n = h->n_fields;
	char *mem;

	/* full whenever n is 0 or a power of two from 8 on */
	if (n == 0 || (n >= 8 && (n & (n - 1)) == 0)) {
		size_t cap = n ? 2 * n : 8;
		struct http_field *f = realloc(h->fields, cap * sizeof(*f));

		CHECK(f);
		h->fields = f;
	}
	mem = xcalloc(1, name.n + value.n + 2);
	memcpy(mem, name.p, name.n);
	if (value.n)
		memcpy(mem + name.n + 1, value.p, value.n);
	h->fields[n].name = mem;
	h->fields[n].value = mem + name.n + 1;
	h->n_fields++;
}

void http_head_add(struct http_head *h, const char *name, const char *value)
{
	CHECK(http1_is_token(name, strlen(name)));
	CHECK(http1_is_value(value, strlen(value)));
	for (const char *p = name; *p; p++)
		CHECK(*p < 'A' || *p > 'Z');
	http_head_put(h, view_of(name), view_of(value));
}

const char *http_head_get(const struct http_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		if (!strcmp(h->fields[i].name, name))
			return h->fields[i].value;
	}
	return NULL;
}

int64_t http_head_length(const struct http_head *h)
{
	const char *v = http_head_get(h, "content-length");
	uint64_t n;

	if (!v || !http1_parse_length(v, strlen(v), &n))
		return -1;
	return (int64_t)n;
}

bool http_no_body(const char *method, int status)
{
	return (method && !strcmp(method, "HEAD")) || status < 200 ||
	       status == 204 || status == 304;
}
