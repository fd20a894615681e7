/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "net/http.h"

static char *decode_value(const char *p, size_t n)
{
	char *v = xstrndup(p, n);

	for (size_t i = 0; i < n; i++) {
		if (v[i] == '+') /* as HTML forms and most libraries write */
			v[i] = ' ';
	}
	if (text_unpercent(v, n, v, n) < 0) {
		free(v);
		return NULL;
	}
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
