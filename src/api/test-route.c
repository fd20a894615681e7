/* SPDX-License-Identifier: Apache-2.0 */
#include "api/route.h"

#include <stdio.h>

#include "base/test.h"

static const struct route *found;
static struct route_params params;
static char allow[ROUTE_ALLOW_MAX];

static enum route_result on(enum side side, const char *method,
			    const char *path)
{
	found = NULL;
	return route_match(routes, n_routes, side, method, path, &found,
			   &params, allow);
}

static enum route_result control(const char *method, const char *path)
{
	return on(SIDE_CONTROL, method, path);
}

TEST(a_path_and_verb_find_their_route)
{
	T_INT(control("GET", "/v1/sandboxes"), ROUTE_FOUND);
	T_STR(found->path, "/v1/sandboxes");
	T_STR(found->method, "GET");
	T_INT(params.n, 0);
}

TEST(the_query_is_not_part_of_the_path)
{
	T_INT(control("GET", "/v1/sandboxes?limit=1&x=/v1/keys"), ROUTE_FOUND);
	T_INT(control("GET", "/healthz?"), ROUTE_FOUND);
}

TEST(parameters_are_decoded)
{
	T_INT(control("GET", "/v1/sandboxes/%40my%2Dbox"), ROUTE_FOUND);
	T_STR(route_param(&params, "id"), "@my-box");
	T_TRUE(route_param(&params, "other") == NULL);
}

TEST(an_encoded_slash_stays_in_its_segment)
{
	T_INT(control("GET", "/v1/sandboxes/a%2Fexecs"), ROUTE_FOUND);
	T_STR(found->path, "/v1/sandboxes/{id}");
	T_STR(route_param(&params, "id"), "a/execs");
}

TEST(two_parameters_keep_their_names)
{
	T_INT(control("PUT", "/v1/templates/base/tags/stable"), ROUTE_FOUND);
	T_STR(route_param(&params, "t"), "base");
	T_STR(route_param(&params, "tag"), "stable");
}

TEST(an_unknown_path_is_unknown)
{
	T_INT(control("GET", "/"), ROUTE_UNKNOWN);
	T_INT(control("GET", "/v1"), ROUTE_UNKNOWN);
	T_INT(control("GET", "/v1/sandboxes/x/nothing"), ROUTE_UNKNOWN);
	T_INT(control("GET", "/v2/sandboxes"), ROUTE_UNKNOWN);
}

TEST(a_trailing_or_double_slash_is_another_path)
{
	T_INT(control("GET", "/v1/sandboxes/"), ROUTE_UNKNOWN);
	T_INT(control("GET", "/v1//sandboxes"), ROUTE_UNKNOWN);
	T_INT(control("GET", "//v1/sandboxes"), ROUTE_UNKNOWN);
}

TEST(a_wrong_verb_tells_the_right_ones)
{
	T_INT(control("PUT", "/v1/sandboxes"), ROUTE_METHOD);
	T_STR(allow, "GET, POST");
	T_INT(control("POST", "/healthz"), ROUTE_METHOD);
	T_STR(allow, "GET");
}

TEST(verbs_are_case_sensitive)
{
	T_INT(control("get", "/v1/sandboxes"), ROUTE_METHOD);
}

TEST(a_nul_or_broken_escape_is_a_bad_path)
{
	T_INT(control("GET", "/v1/sandboxes/a%00b"), ROUTE_BAD_PATH);
	T_INT(control("GET", "/v1/sandboxes/a%2"), ROUTE_BAD_PATH);
	T_INT(control("GET", "/v1/sandboxes/a%zz"), ROUTE_BAD_PATH);
}

TEST(what_is_no_origin_form_is_a_bad_path)
{
	T_INT(control("GET", "*"), ROUTE_BAD_PATH);
	T_INT(control("GET", ""), ROUTE_BAD_PATH);
	T_INT(control("GET", "http://x/v1/sandboxes"), ROUTE_BAD_PATH);
}

TEST(a_segment_has_a_limit)
{
	char path[400] = "/v1/sandboxes/";

	memset(path + 14, 'a', ROUTE_PARAM_MAX);
	T_INT(control("GET", path), ROUTE_FOUND);
	path[14 + ROUTE_PARAM_MAX] = 'a';
	T_INT(control("GET", path), ROUTE_BAD_PATH);
}

TEST(the_listeners_have_their_own_routes)
{
	T_INT(on(SIDE_DATA, "GET", "/v1/sandboxes"), ROUTE_UNKNOWN);
	T_INT(control("GET", "/v1/sandboxes/x/files"), ROUTE_UNKNOWN);
	T_INT(on(SIDE_DATA, "GET", "/v1/sandboxes/x/files"), ROUTE_FOUND);
}

TEST(a_literal_wins_over_a_parameter)
{
	T_INT(control("POST", "/v1/releases/audit"), ROUTE_FOUND);
	T_STR(found->path, "/v1/releases/audit");
	T_INT(control("GET", "/v1/releases/sha256:00"), ROUTE_FOUND);
	T_STR(found->path, "/v1/releases/{sha256}");
}

TEST(every_route_finds_itself)
{
	for (size_t i = 0; i < n_routes; i++) {
		T_INT(on(routes[i].side, routes[i].method, routes[i].path),
		      ROUTE_FOUND);
		T_TRUE(found == &routes[i]);
	}
}

TEST(every_route_is_complete)
{
	for (size_t i = 0; i < n_routes; i++) {
		const struct route *r = &routes[i];

		T_TRUE(r->summary && *r->summary);
		T_TRUE(r->path[0] == '/');
		T_TRUE(r->run || (!r->request && !r->response));
		T_TRUE(!(r->stream && r->request));
		if (r->run && strcmp(r->method, "GET") != 0)
			T_TRUE(r->role >= ROLE_VIEWER);
	}
}

TEST(what_changes_something_needs_more_than_a_viewer)
{
	for (size_t i = 0; i < n_routes; i++) {
		const struct route *r = &routes[i];

		if (strcmp(r->method, "GET") != 0 &&
		    strcmp(r->method, "HEAD") != 0 &&
		    !strstr(r->path, "explain"))
			T_TRUE(r->role >= ROLE_DEVELOPER);
	}
}

TEST(roles_have_names_and_an_order)
{
	enum role r = ROLE_OPEN;

	T_TRUE(role_parse("admin", &r));
	T_INT(r, ROLE_ADMIN);
	T_TRUE(ROLE_OPERATOR > ROLE_ADMIN && ROLE_ADMIN > ROLE_DEVELOPER &&
	       ROLE_DEVELOPER > ROLE_VIEWER);
	T_TRUE(!role_parse("open", &r));
	T_TRUE(!role_parse("root", &r));
	T_STR(role_name(ROLE_VIEWER), "viewer");
}
