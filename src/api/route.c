/* SPDX-License-Identifier: Apache-2.0 */
#include "api/route.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char *const role_names[ROLE_MAX_] = {
	"open", "viewer", "developer", "admin", "operator",
};

const char *role_name(enum role r)
{
	return role_names[r];
}

bool role_parse(const char *name, enum role *ret)
{
	for (unsigned i = ROLE_VIEWER; i < ROLE_MAX_; i++)
		if (strcmp(role_names[i], name) == 0) {
			*ret = (enum role)i;
			return true;
		}
	return false;
}

static const struct {
	unsigned bit;
	const char *name;
} allows[] = {
	{ ALLOW_EXEC, "exec" },
	{ ALLOW_FILES, "files" },
	{ ALLOW_PORTS, "ports" },
	{ ALLOW_END, "end" },
};

const char *allow_name(unsigned bit)
{
	for (size_t i = 0; i < sizeof(allows) / sizeof(allows[0]); i++)
		if (allows[i].bit == bit)
			return allows[i].name;
	return NULL;
}

bool allow_parse(const char *name, unsigned *ret)
{
	for (size_t i = 0; i < sizeof(allows) / sizeof(allows[0]); i++)
		if (strcmp(allows[i].name, name) == 0) {
			*ret = allows[i].bit;
			return true;
		}
	return false;
}

bool route_conditional(const struct route *r)
{
	static const char *const paths[] = {
		"/v1/sandboxes/{id}",
		"/v1/templates/{t}",
		"/v1/templates/{t}/tags/{tag}",
		"/v1/quotas",
	};

	bool put =
	    strcmp(r->method, "PATCH") == 0 || strcmp(r->method, "PUT") == 0;

	if (strcmp(r->path, "/v1/webhooks/{whk}") == 0)
		return put;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (strcmp(r->path, paths[i]) == 0)
			return put || strcmp(r->method, "DELETE") == 0;
	return false;
}

unsigned route_allow(const struct route *r)
{
	static const struct {
		const char *path;   /* and everything below it */
		const char *method; /* NULL = all, and below; else this only */
		unsigned bit;
	} rules[] = {
		{ "/v1/whoami", "GET", ALLOW_ANY },
		{ "/v1/sandboxes/{id}", "GET", ALLOW_ANY },
		{ "/v1/sandboxes/{id}", "DELETE", ALLOW_END },
		{ "/v1/sandboxes/{id}/metrics", "GET", ALLOW_ANY },
		{ "/v1/sandboxes/{id}/execs", NULL, ALLOW_EXEC },
		{ "/v1/sandboxes/{id}/run", NULL, ALLOW_EXEC },
		{ "/v1/execs/{ex}", NULL, ALLOW_EXEC },
		{ "/v1/sandboxes/{id}/files", NULL, ALLOW_FILES },
		{ "/v1/sandboxes/{id}/archive", NULL, ALLOW_FILES },
		{ "/v1/sandboxes/{id}/watch", NULL, ALLOW_FILES },
		{ "/v1/sandboxes/{id}/ports", NULL, ALLOW_PORTS },
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		size_t n = strlen(rules[i].path);

		if (strncmp(r->path, rules[i].path, n) != 0)
			continue;
		if (rules[i].method ? r->path[n] == '\0' &&
					  !strcmp(r->method, rules[i].method)
				    : r->path[n] == '\0' || r->path[n] == '/')
			return rules[i].bit;
	}
	return 0;
}

/* One segment of the path against one of the template. */
static bool match_segment(const char *t, size_t n_t, const char *p, size_t n_p,
			  struct route_params *ret, bool *ret_bad)
{
	char *value;
	size_t i = ret->n;

	if (n_t < 2 || t[0] != '{')
		return n_t == n_p && memcmp(t, p, n_t) == 0;
	if (n_p == 0 || i == ROUTE_PARAMS_MAX)
		return false;
	if (n_p > ROUTE_PARAM_MAX || n_t - 2 >= sizeof(ret->name[0])) {
		*ret_bad = true;
		return false;
	}
	value = ret->value[i];
	if (text_unpercent(p, n_p, value, ROUTE_PARAM_MAX) < 0) {
		*ret_bad = true;
		return false;
	}
	memcpy(ret->name[i], t + 1, n_t - 2);
	ret->name[i][n_t - 2] = '\0';
	ret->n++;
	return true;
}

static bool match_path(const char *t, const char *p, size_t n_p,
		       struct route_params *ret, bool *ret_bad)
{
	const char *end = p + n_p;

	ret->n = 0;
	while (*t == '/' && p < end && *p == '/') {
		size_t n_t, n;

		t++;
		p++;
		n_t = strcspn(t, "/");
		n = 0;
		while (p + n < end && p[n] != '/')
			n++;
		if (!match_segment(t, n_t, p, n, ret, ret_bad))
			return false;
		t += n_t;
		p += n;
	}
	return !*t && p == end;
}

static void allow_add(char allow[ROUTE_ALLOW_MAX], const char *method)
{
	size_t n = strlen(allow);

	snprintf(allow + n, ROUTE_ALLOW_MAX - n, "%s%s", n ? ", " : "", method);
}

enum route_result route_match(const struct route *table, size_t n_table,
			      enum side side, const char *method,
			      const char *path, const struct route **ret,
			      struct route_params *ret_params,
			      char allow[ROUTE_ALLOW_MAX])
{
	size_t n = strcspn(path, "?");
	const char *seen = NULL; /* the template that answers for this path */
	bool bad = false;

	allow[0] = '\0';
	if (n > ROUTE_PATH_MAX || path[0] != '/')
		return ROUTE_BAD_PATH;
	for (size_t i = 0; i < n_table; i++) {
		const struct route *r = &table[i];
		struct route_params params;

		if (r->side != side ||
		    !match_path(r->path, path, n, &params, &bad))
			continue;
		if (seen && strcmp(seen, r->path) != 0)
			continue;
		seen = r->path;
		allow_add(allow, r->method);
		if (strcmp(r->method, method) == 0) {
			*ret = r;
			*ret_params = params;
			return ROUTE_FOUND;
		}
	}
	if (seen)
		return ROUTE_METHOD;
	return bad ? ROUTE_BAD_PATH : ROUTE_UNKNOWN;
}

const char *route_param(const struct route_params *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->name[i], name) == 0)
			return p->value[i];
	return NULL;
}
