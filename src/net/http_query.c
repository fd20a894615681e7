/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/own.h"
#include "net/http.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool http_percent_decode(char *s, size_t *n, bool allow_nul)
{
	size_t to = 0;

	for (size_t i = 0; i < *n; i++) {
		char c = s[i];

		if (c == '%') {
			int hi = *n - i > 2 ? hex_digit(s[i + 1]) : -1;
			int lo = *n - i > 2 ? hex_digit(s[i + 2]) : -1;

			if (hi < 0 || lo < 0)
				return false;
			c = (char)(hi * 16 + lo);
			i += 2;
		}
		if (c == '\0' && !allow_nul)
			return false;
		s[to++] = c;
	}
	*n = to;
	return true;
}

static char *decode_value(const char *p, size_t n)
{
	char *v = xstrndup(p, n);

	for (size_t i = 0; i < n; i++) {
		if (v[i] == '+') /* as HTML forms and most libraries write */
			v[i] = ' ';
	}
	if (!http_percent_decode(v, &n, false)) {
		free(v);
		return NULL;
	}
	v[n] = '\0';
	return v;
}

char *http_query_get(const char *path, const char *name)
{
	const char *p = strchr(path, '?');
	size_t n_name = strlen(name);

	while (p) {
		const char *key = p + 1;
		size_t n = strcspn(key, "&");
		size_t n_key = strcspn(key, "=&");

		if (n_key == n_name && !memcmp(key, name, n_name)) {
			if (n_key < n)
				n_key++; /* the = */
			return decode_value(key + n_key, n - n_key);
		}
		p = key[n] ? key + n : NULL;
	}
	return NULL;
}
