/* SPDX-License-Identifier: Apache-2.0 */
#include "api/url.h"

#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "net/http.h"

char *url_escape(const char *s)
{
	struct buf b;
	char *ret;

	buf_init(&b, 0);
	CHECK(text_percent(&b, s, strlen(s), true) == 0);
	ret = xstrndup(buf_cstr(&b), buf_len(&b));
	buf_fini(&b);
	return ret;
}

char *url_query_broken(const char *path)
{
	const char *p = strchr(path, '?');

	while (p) {
		size_t n, k;

		p++;
		n = strcspn(p, "&");
		k = strcspn(p, "=&");
		owned_str value = xstrndup(p, n);

		if (text_unpercent(value, n, value, n) < 0)
			return xstrndup(p, k < 63 ? k : 63);
		p = strchr(p, '&');
	}
	return NULL;
}

char *url_query_nth(const char *path, const char *name, unsigned i)
{
	const char *p = strchr(path, '?');
	size_t n = strlen(name);

	while (p) {
		p++;
		if (strncmp(p, name, n) == 0 && p[n] == '=' && i-- == 0) {
			/* the library reads the first of a query */
			owned_str one = NULL;

			one = xasprintf("/?%.*s", (int)strcspn(p, "&"), p);
			return http_query_get(one, name);
		}
		p = strchr(p, '&');
	}
	return NULL;
}
