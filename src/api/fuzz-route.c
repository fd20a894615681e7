/* SPDX-License-Identifier: Apache-2.0 */

/* Laws: a match has as many parameters as its template, each within its bound
 * and without NUL; the answer does not depend on the query. First byte: side
 * and verb; the rest: the path. */

#include <stdlib.h>
#include <string.h>

#include "api/host.h"
#include "api/route.h"
#include "base/check.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t braces(const char *t)
{
	size_t n = 0;

	for (; *t; t++)
		n += *t == '{';
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const verbs[] = { "GET",    "POST", "PUT",
					     "DELETE", "HEAD", "PATCH" };
	const struct route *r = NULL, *again = NULL;
	struct route_params p, q;
	char allow[ROUTE_ALLOW_MAX];
	enum route_result got;
	enum side side;
	const char *verb;

	if (size < 1)
		return 0;
	side = data[0] & 1 ? SIDE_DATA : SIDE_CONTROL;
	verb = verbs[(data[0] >> 1) % ARRAY_SIZE(verbs)];
	owned_str path = xstrndup((const char *)data + 1, size - 1);
	owned_str more = xasprintf("%s?x=/", path);

	got = route_match(routes, n_routes, side, verb, path, &r, &p, allow);
	if (got == ROUTE_FOUND) {
		CHECK(p.n == braces(r->path));
		for (size_t i = 0; i < p.n; i++)
			CHECK(strlen(p.value[i]) <= ROUTE_PARAM_MAX);
		CHECK(strcmp(r->method, verb) == 0 && r->side == side);
	}
	CHECK(got != ROUTE_METHOD || *allow);
	CHECK(route_match(routes, n_routes, side, verb, more, &again, &q,
			  allow) == got);
	CHECK(again == r);
	host_allowed(path, NULL, 0);
	origin_allowed(path, NULL, 0);
	return 0;
}
