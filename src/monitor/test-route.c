/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/route.h"

#include <string.h>

#include "base/test.h"

#define EX "ex_0123456789abcdefghijklmnopqr"

static struct route got;
static struct err err;

/* The canonical path, or the error's kind. */
static const char *route(const char *method, const char *path)
{
	static char text[16384];
	int r;

	err_clear(&err);
	r = route_parse(method, path, &got, &err);
	if (r < 0)
		return err_kind_name(err.kind);
	snprintf(text, sizeof(text), "%s", got.path);
	route_fini(&got);
	return text;
}

TEST(the_refused_parameter_is_named)
{
	T_STR(route("GET", "/v1/files?path=relative"), "invalid");
	T_STR(got.bad, "path");
	T_STR(route("GET", "/v1/files"), "invalid");
	T_STR(got.bad, "path");
	T_STR(route("GET", "/v1/execs/" EX "/output?from=0&from=1"), "invalid");
	T_STR(got.bad, "from");
	T_STR(route("GET", "/v1/execs?nonsense=1"), "invalid");
	T_TRUE(!got.bad);
	T_STR(route("GET", "/v1/execs"), "/v1/execs");
	T_TRUE(!got.bad);
}

TEST(known_calls_pass)
{
	T_STR(route("POST", "/v1/execs"), "/v1/execs");
	T_TRUE(got.has_body && got.kind == ROUTE_JSON);
	T_STR(route("GET", "/v1/execs"), "/v1/execs");
	T_STR(route("GET", "/v1/execs/" EX), "/v1/execs/" EX);
	T_STR(route("DELETE", "/v1/execs/" EX), "/v1/execs/" EX);
	T_STR(route("POST", "/v1/execs/" EX "/signal"),
	      "/v1/execs/" EX "/signal");
	T_STR(route("POST", "/v1/execs/" EX "/stdin?offset=5&end=1"),
	      "/v1/execs/" EX "/stdin?offset=5&end=1");
	T_STR(route("GET", "/v1/metrics"), "/v1/metrics");
}

TEST(output_remembers_where_it_starts)
{
	T_STR(route("GET", "/v1/execs/" EX "/output?from=77&follow=1"),
	      "/v1/execs/" EX "/output?from=77&follow=1");
	T_INT(got.kind, ROUTE_OUTPUT);
	T_INT(got.from, 77);
}

TEST(control_calls_are_not_there)
{
	T_STR(route("GET", "/g1/hello"), "not_found");
	T_STR(route("POST", "/g1/renew"), "not_found");
	T_STR(route("POST", "/g1/thaw"), "not_found");
	T_STR(route("POST", "/v1/../g1/thaw"), "not_found");
	T_STR(route("POST", "//g1/thaw"), "not_found");
	T_STR(route("POST", "/v1/execs/../../g1/thaw"), "not_found");
	T_STR(route("GET", "http://guest/g1/hello"), "not_found");
}

TEST(other_methods_are_refused)
{
	T_STR(route("PUT", "/v1/execs"), "unsupported");
	T_STR(route("POST", "/v1/files?path=/a"), "unsupported");
	T_STR(route("CONNECT", "/v1/execs"), "unsupported");
}

TEST(ids_are_exact)
{
	T_STR(route("GET", "/v1/execs/ex_0123"), "not_found");
	T_STR(route("GET", "/v1/execs/" EX "s"), "not_found");
	T_STR(route("GET", "/v1/execs/EX_0123456789abcdefghijklmnopqr"),
	      "not_found");
	T_STR(route("GET", "/v1/execs/ex_0123456789abcdefghijklmnop/."),
	      "not_found");
	T_STR(route("GET", "/v1/execs/" EX "/"), "not_found");
	T_STR(route("GET", "/v1/execs/"), "not_found");
}

TEST(file_names_are_encoded_anew)
{
	T_STR(route("GET", "/v1/files?path=%2Ftmp%2fa%20b"),
	      "/v1/files?path=/tmp/a%20b");
	T_STR(route("PUT", "/v1/files?path=/a%26mode%3D7&mode=644"),
	      "/v1/files?path=/a%26mode%3D7&mode=644");
	T_STR(route("GET", "/v1/files?path=/%ff%0a"), "/v1/files?path=/%FF%0A");
	T_INT(got.kind, ROUTE_FILE);
}

TEST(a_file_needs_a_name)
{
	T_STR(route("GET", "/v1/files"), "invalid");
	T_STR(route("GET", "/v1/files?path="), "invalid");
	T_STR(route("GET", "/v1/files?path"), "invalid");
	T_STR(route("GET", "/v1/files?path=a%00b"), "invalid");
	T_STR(route("GET", "/v1/files?path=%zz"), "invalid");
}

TEST(long_names_are_bounded)
{
	static char path[8300];

	memset(path, 'a', sizeof(path) - 1);
	memcpy(path, "/v1/files?path=/", 16);
	path[15 + 4096] = '\0';
	T_TRUE(strlen(route("GET", path)) > 4096);
	path[15 + 4096] = 'a';
	T_STR(route("GET", path), "invalid");
}

TEST(the_longest_name_fits_encoded)
{
	static char path[16 + 4096 * 3];

	snprintf(path, sizeof(path), "/v1/files?path=/");
	for (int i = 0; i < 4095; i++)
		memcpy(path + 16 + 3 * i, "%01", 3);
	T_INT(strlen(route("GET", path)), 16 + 3 * 4095);
}

TEST(parameters_are_checked)
{
	T_STR(route("GET", "/v1/execs/" EX "/output?from=x"), "invalid");
	T_STR(route("GET", "/v1/execs/" EX "/output?from=-1"), "invalid");
	T_STR(route("GET", "/v1/execs/" EX "/output?follow=2"), "invalid");
	T_STR(route("GET", "/v1/execs/" EX "/output?from=99999999999999999999"),
	      "invalid");
	T_STR(route("PUT", "/v1/files?path=/a&mode=9"), "invalid");
	T_STR(route("PUT", "/v1/files?path=/a&owner=a%20b"), "invalid");
	T_STR(route("PUT", "/v1/files?path=/a&parents=yes"), "invalid");
}

TEST(unknown_and_double_parameters_are_refused)
{
	T_STR(route("GET", "/v1/execs?x=1"), "invalid");
	T_STR(route("GET", "/v1/files?path=/a&mode=644"), "invalid");
	T_STR(route("GET", "/v1/files?path=/a&path=/b"), "invalid");
	T_HAS(err.msg, "path");
}

TEST(calls_of_both_directions)
{
	T_STR(route("POST", "/v1/execs/" EX "/attach?from=007&watch=1"),
	      "/v1/execs/" EX "/attach?from=7&watch=1");
	T_TRUE(got.kind == ROUTE_ATTACH && got.has_body && got.from == 7);
	T_STR(route("POST", "/v1/tunnel?port=0080"), "/v1/tunnel?port=80");
	T_TRUE(got.kind == ROUTE_TUNNEL && got.has_body);
	T_STR(route("POST", "/v1/execs/" EX "/size"), "/v1/execs/" EX "/size");
}

TEST(ports_are_ports)
{
	T_STR(route("POST", "/v1/tunnel"), "invalid");
	T_STR(route("POST", "/v1/tunnel?port=0"), "invalid");
	T_STR(route("POST", "/v1/tunnel?port=65536"), "invalid");
	T_STR(route("POST", "/v1/tunnel?port=-1"), "invalid");
	T_STR(route("POST", "/v1/tunnel?port=80%00"), "invalid");
	T_STR(route("POST", "/v1/tunnel?port=host:80"), "invalid");
	T_STR(route("GET", "/v1/tunnel?port=80"), "unsupported");
}

TEST(lists_and_stats)
{
	T_STR(
	    route("GET", "/v1/files/list?path=/a&depth=64&limit=1000&after=x"),
	    "/v1/files/list?path=/a&depth=64&limit=1000&after=x");
	T_STR(route("GET", "/v1/files/list?path=/a&depth=65"), "invalid");
	T_STR(route("GET", "/v1/files/list?path=/a&depth=0"), "invalid");
	T_STR(route("GET", "/v1/files/list?path=/a&limit=1001"), "invalid");
	T_STR(route("GET", "/v1/files/list?path=/a&after=a%0ab"), "invalid");
	T_STR(route("GET", "/v1/files/list?path=/a&after="), "invalid");
	T_STR(route("GET", "/v1/files/stat?path=/a&follow=0"),
	      "/v1/files/stat?path=/a&follow=0");
	T_STR(route("GET", "/v1/files/list"), "invalid");
}

TEST(moves_need_both_names)
{
	T_STR(route("POST", "/v1/files/move?path=/a&to=/%ff&replace=1"),
	      "/v1/files/move?path=/a&to=/%FF&replace=1");
	T_STR(route("POST", "/v1/files/move?path=/a"), "invalid");
	T_STR(route("POST", "/v1/files/move?path=/a&to=b"), "invalid");
}

TEST(names_are_absolute)
{
	T_STR(route("GET", "/v1/files?path=etc/passwd"), "invalid");
	T_STR(route("GET", "/v1/files?path=../etc/passwd"), "invalid");
	T_HAS(err.msg, "absolute");
	/* what dots mean is the guest's business alone */
	T_STR(route("GET", "/v1/files?path=/../etc"), "/v1/files?path=/../etc");
}

TEST(archives_have_two_formats)
{
	T_STR(route("GET", "/v1/archive?path=/a&format=tar.zst"),
	      "/v1/archive?path=/a&format=tar.zst");
	T_TRUE(got.kind == ROUTE_ARCHIVE && got.is_zstd);
	T_STR(route("GET", "/v1/archive?path=/a"), "/v1/archive?path=/a");
	T_TRUE(!got.is_zstd);
	T_STR(route("GET", "/v1/archive?path=/a&format=zip"), "invalid");
	T_STR(route("PUT", "/v1/archive?path=/a&owner=u:g"),
	      "/v1/archive?path=/a&owner=u%3Ag");
	T_TRUE(got.kind == ROUTE_JSON && got.has_body);
}

TEST(headers_go_with_files_alone)
{
	route("GET", "/v1/files?path=/a");
	T_INT(got.fields, ROUTE_RANGE | ROUTE_MATCH);
	route("HEAD", "/v1/files?path=/a");
	T_INT(got.fields, ROUTE_MATCH);
	route("PUT", "/v1/files?path=/a");
	T_INT(got.fields, ROUTE_MATCH | ROUTE_DIGEST);
	route("GET", "/v1/archive?path=/a");
	T_INT(got.fields, 0);
}

TEST(the_console_is_the_monitors)
{
	T_STR(route("GET", "/v1/console?from=5&follow=1"),
	      "/v1/console?from=5&follow=1");
	T_TRUE(got.kind == ROUTE_CONSOLE && got.from == 5 && got.follow);
	T_STR(route("GET", "/v1/console"), "/v1/console");
	T_TRUE(!got.follow);
}
