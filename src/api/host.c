/* SPDX-License-Identifier: Apache-2.0 */
#include "api/host.h"

#include <string.h>
#include <strings.h>

#include "base/own.h"

/* Length of the name in "name", "name:port", "[v6]:port"; 0 if malformed. */
static size_t name_length(const char *host)
{
	size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
	const char *port = host + n;

	if (n == 0 || n > strlen(host))
		return 0;
	if (!*port)
		return n;
	if (*port != ':' || strlen(port) > 6 || strlen(port) < 2 ||
	    strspn(port + 1, "0123456789") != strlen(port + 1))
		return 0;
	return n;
}

static bool same(const char *a, size_t n, const char *b)
{
	return strlen(b) == n && strncasecmp(a, b, n) == 0;
}

bool host_allowed(const char *host, const char *const *names, size_t n_names)
{
	static const char *const own[] = { "127.0.0.1", "[::1]", "localhost" };
	size_t n = host ? name_length(host) : 0;

	if (n == 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (same(host, n, own[i]))
			return true;
	for (size_t i = 0; i < n_names; i++)
		if (same(host, n, names[i]))
			return true;
	return false;
}

bool origin_allowed(const char *origin, const char *const *origins,
		    size_t n_origins)
{
	if (!origin)
		return true;
	if (strcmp(origin, "null") == 0)
		return false;
	for (size_t i = 0; i < n_origins; i++)
		if (strcmp(origin, origins[i]) == 0)
			return true;
	return false;
}
