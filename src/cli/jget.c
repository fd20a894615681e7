/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/jget.h"

#include <stdio.h>
#include <string.h>

const json_t *jget(const json_t *v, const char *path)
{
	while (v && *path) {
		size_t n = strcspn(path, ".");
		char key[64];

		if (n >= sizeof(key))
			return NULL;
		memcpy(key, path, n);
		key[n] = '\0';
		v = json_object_get(v, key);
		path += n + (path[n] == '.');
	}
	return v;
}

const char *jget_str(const json_t *v, const char *path, const char *def)
{
	const json_t *s = jget(v, path);

	return json_is_string(s) ? json_string_value(s) : def;
}

int64_t jget_int(const json_t *v, const char *path, int64_t def)
{
	const json_t *i = jget(v, path);

	return json_is_integer(i) ? json_integer_value(i) : def;
}

void jget_shown(const json_t *v, const char *path, const char *def, char *ret,
		size_t n)
{
	snprintf(ret, n, "%s", jget_str(v, path, def));
	for (char *p = ret; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	}
}
