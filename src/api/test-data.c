/* SPDX-License-Identifier: Apache-2.0 */

/* The data listener: attach, tunnels, streams, files, ports; and tokens. */

#include <stdio.h>
#include <string.h>

#include "api/frame.h"
#include "api/test-rig.h"
#include "api/test-ws.h"
#include "base/check.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

/* ---- the sandbox of a test ---- */

static char *sb, *ex, *attach;

static void up(void)
{
	rig_up();
	sb = rig_create(BASE);
	ex = xasprintf("ex_%.20sabcdefgh", sb + 2);
	attach = xasprintf("/v1/execs/%s/attach", ex);
}

static void down(void)
{
	free(sb);
	free(ex);
	free(attach);
	sb = ex = attach = NULL;
	rig_down();
}

/* What POST answers with, as allocated text. */
static char *minted(const char *path, const char *key, const char *body,
		    const char *field)
{
	T_INT(ASK("POST", path, key, body), 201);
	return xstrdup(rig_field(field));
}

static char *scoped(const char *allow)
{
	owned_str body =
	    xasprintf("{\"sandbox\":\"%s\",\"allow\":[%s]}", sb, allow);

	return minted("/v1/tokens", DEV, body, "token");
}

/* ---- attach ---- */

TEST(an_exec_answers_where_to_attach_and_runs_nothing)
{
	owned_str path = NULL;

	up();
	path = xasprintf("/v1/sandboxes/%s/execs", sb);
	T_INT(ASK("POST", path, DEV, "{\"cmd\":[\"cat\"],\"stdin\":true}"),
	      201);
	T_HAS(rig_fake.last_exec, "\"start\":\"attach\"");
	T_STR(rig_field("state"), "created");
	T_HAS(rig_field("attach.url"), "ws://localhost:");
	T_HAS(rig_field("attach.url"), rig_field("id"));
	T_INT(strncmp(rig_field("attach.token"), "cst_", 4), 0);
	T_TRUE(strlen(rig_field("attach.expires_at")) == 24);
	rig_fake.guest = GUEST_LIES;
	T_INT(ASK("POST", path, DEV, "{\"cmd\":[\"cat\"]}"), 503);
	down();
}

TEST(bytes_go_both_ways_and_the_exit_is_the_guests)
{
	struct wsc c;

	up();
	wsc_open(&c, attach, DEV, "caisson.exec.v1", NULL);
	T_TRUE(c.ws);
	T_HAS(rig_fake.last_path, "/attach?from=0&watch=0");
	wsc_put(&c, EXEC_STDIN, 0, "hello");
	wsc_put(&c, EXEC_ACK, 5, "");
	wsc_put(&c, EXEC_SIZE, 0, "{\"cols\":80,\"rows\":24}");
	UNTIL(rig_fake.control == EXEC_SIZE);
	T_INT(rig_fake.acked, 5);
	wsc_put(&c, EXEC_STDIN, 5, " again");
	wsc_put(&c, EXEC_STDIN_END, 11, "");
	UNTIL(c.closed);
	T_INT(c.code, 1000);
	T_STR(c.types, "200121");
	T_STR(buf_cstr(&c.output), "hello again");
	T_TRUE(c.in_order);
	T_HAS(buf_cstr(&c.last), "\"code\":0");
	wsc_close(&c);
	down();
}

TEST(a_broken_line_to_the_guest_is_no_exit)
{
	struct wsc c;

	up();
	rig_fake.guest = GUEST_CUTS;
	wsc_open(&c, attach, DEV, NULL, NULL);
	UNTIL(c.closed);
	T_INT(c.code, 1012);
	T_STR(c.types, "200124");
	T_HAS(buf_cstr(&c.last), "\"interrupted\"");
	T_HAS(buf_cstr(&c.last), "\"retry\":true");
	wsc_close(&c);
	down();
}

TEST(a_guest_that_speaks_something_else_is_cut_off)
{
	struct wsc c;

	up();
	rig_fake.guest = GUEST_TEAPOT;
	wsc_open(&c, attach, DEV, NULL, NULL);
	UNTIL(c.closed);
	T_INT(c.code, 1012);
	T_STR(c.types, "2024");
	UNTIL(rig_fake.n_attached == 0);
	wsc_close(&c);
	down();
}

TEST(refusals_come_before_the_upgrade_as_plain_answers)
{
	owned_str bad = NULL;
	struct wsc c;

	up();
	rig_fake.guest = GUEST_REFUSES;
	wsc_open(&c, attach, DEV, NULL, NULL);
	T_INT(c.status, 409);
	T_HAS(c.body, "exec_expired");
	wsc_close(&c);
	rig_fake.guest = GUEST_GOOD;
	wsc_open(&c, attach, STRANGER, NULL, NULL);
	T_INT(c.status, 404);
	wsc_close(&c);
	wsc_open(&c, attach, NULL, NULL, NULL);
	T_INT(c.status, 401);
	wsc_close(&c);
	bad = xasprintf("%s?from=-1", attach);
	wsc_open(&c, bad, DEV, NULL, NULL);
	T_INT(c.status, 400);
	wsc_close(&c);
	T_INT(ASK("GET", attach, DEV, .data = true), 426);
	T_INT(ASK("GET", attach, DEV, .data = true, .h2 = true), 426);
	down();
}

TEST(viewers_watch_and_write_nothing)
{
	owned_str watch = NULL;
	struct wsc c;

	up();
	wsc_open(&c, attach, VIEWER, NULL, NULL);
	T_INT(c.status, 403);
	T_HAS(c.body, "role_required");
	wsc_close(&c);
	watch = xasprintf("%s?watch=1&from=3", attach);
	wsc_open(&c, watch, VIEWER, NULL, NULL);
	T_TRUE(c.ws);
	T_HAS(rig_fake.last_path, "from=3&watch=1");
	wsc_put(&c, EXEC_ACK, 3, "");
	UNTIL(rig_fake.acked == 3);
	wsc_put(&c, EXEC_STDIN, 0, "no");
	UNTIL(c.closed);
	T_INT(c.code, 1008);
	T_HAS(buf_cstr(&c.last), "\"protocol\"");
	wsc_close(&c);
	down();
}

TEST(what_no_honest_client_sends_ends_its_stream_only)
{
	struct wsc c;

	up();
	wsc_open(&c, attach, DEV, NULL, NULL);
	wsc_put(&c, 0x21, 0, "{}"); /* an exit of one's own */
	UNTIL(c.closed);
	T_INT(c.code, 1008);
	T_INT(rig_fake.control, 0);
	UNTIL(rig_fake.n_attached == 0);
	wsc_close(&c);
	wsc_open(&c, attach, DEV, NULL, NULL);
	T_TRUE(c.ws);
	wsc_close(&c);
	down();
}

TEST(a_client_that_does_not_read_holds_the_guest_back_and_gets_it_all)
{
	struct wsc c;

	up();
	rig_fake.flood = 64 << 20;
	wsc_open(&c, attach, DEV, NULL, NULL);
	ws_hold(c.ws, true);
	rig_spin(1500);
	T_TRUE(rig_fake.download_sent > 0);
	T_TRUE(rig_fake.download_sent < (8 << 20));
	ws_hold(c.ws, false);
	UNTIL(c.end == 64 << 20);
	T_TRUE(c.in_order);
	wsc_close(&c);
	UNTIL(rig_fake.n_attached == 0);
	down();
}

/* ---- tokens ---- */

TEST(an_attach_token_opens_its_exec_and_nothing_else)
{
	owned_str path = NULL;
	owned_str token = NULL;
	owned_str offer = NULL;
	owned_str other = NULL;
	struct wsc c;

	up();
	path = xasprintf("/v1/execs/%s/token", ex);
	token = minted(path, DEV, "{}", "token");
	wsc_open(&c, attach, token, NULL, NULL);
	T_TRUE(c.ws);
	wsc_close(&c);
	offer = xasprintf("caisson.exec.v1, bearer.%s", token);
	wsc_open(&c, attach, NULL, offer, NULL);
	T_TRUE(c.ws);
	wsc_close(&c);
	other = xasprintf("/v1/execs/ex_%.20szzzzzzzz/attach", sb + 2);
	wsc_open(&c, other, token, NULL, NULL);
	T_TRUE(c.status == 403 || c.status == 404);
	wsc_close(&c);
	free(other);
	other = xasprintf("/v1/sandboxes/%s/files?path=/a", sb);
	T_INT(ASK("GET", other, token, .data = true), 403);
	T_INT(ASK("POST", path, token, "{}"), 403);
	T_INT(ASK("POST", path, STRANGER, "{}"), 404);
	T_INT(ASK("POST", path, VIEWER, "{}"), 403);
	down();
}

TEST(a_watch_token_never_writes)
{
	owned_str path = NULL;
	owned_str token = NULL;
	owned_str watch = NULL;
	struct wsc c;

	up();
	path = xasprintf("/v1/execs/%s/token", ex);
	token = minted(path, DEV, "{\"watch\":true}", "token");
	wsc_open(&c, attach, token, NULL, NULL);
	T_INT(c.status, 403);
	wsc_close(&c);
	watch = xasprintf("%s?watch=1", attach);
	wsc_open(&c, watch, token, NULL, NULL);
	T_TRUE(c.ws);
	wsc_close(&c);
	down();
}

TEST(a_token_is_not_judged_before_the_database_was_read)
{
	owned_str token = NULL;
	owned_str path = NULL;

	up();
	token = scoped("\"files\"");
	path = xasprintf("/v1/sandboxes/%s/files/stat?path=/a", sb);
	rig_api->has_secret = false; /* as in a process that has just begun */
	T_INT(ASK("GET", path, token, .data = true), 503);
	T_STR(rig_field("error.code"), "store_unavailable");
	rig_api->has_secret = true;
	T_TRUE(ASK("GET", path, token, .data = true) != 503);
	down();
}

TEST(a_token_in_the_query_is_no_credential)
{
	owned_str token = NULL;
	owned_str path = NULL;

	up();
	token = scoped("\"files\"");
	path = xasprintf("/v1/sandboxes/%s/files?path=/a&token=%s", sb, token);
	T_INT(ASK("GET", path, NULL, .data = true), 401);
	free(path);
	path = xasprintf("/v1/sandboxes/%s/files?path=/a&access_token=%s", sb,
			 token);
	T_INT(ASK("GET", path, NULL, .data = true), 401);
	down();
}

TEST(a_scoped_token_allows_what_it_says)
{
	owned_str token = NULL;
	owned_str files = NULL;
	owned_str execs = NULL;
	owned_str box = NULL;
	owned_str other = NULL;
	owned_str id = NULL;

	up();
	id = rig_create(BASE);
	token = scoped("\"files\"");
	files = xasprintf("/v1/sandboxes/%s/files?path=/a", sb);
	execs = xasprintf("/v1/sandboxes/%s/execs", sb);
	box = xasprintf("/v1/sandboxes/%s", sb);
	other = xasprintf("/v1/sandboxes/%s/files?path=/a", id);
	T_INT(ASK("GET", files, token, .data = true), 200);
	T_INT(ASK("GET", files, NULL, .name = "x-api-key", .value = token,
		  .data = true),
	      200);
	T_INT(ASK("GET", other, token, .data = true), 404);
	T_INT(ASK("POST", execs, token, "{\"cmd\":[\"a\"]}"), 403);
	T_INT(ASK("DELETE", box, token), 403);
	T_INT(ASK("POST", "/v1/tokens", token, "{}"), 403);
	T_INT(ASK("GET", "/v1/sandboxes", token), 403);
	T_INT(ASK("POST", "/v1/keys", token, "{}"), 403);
	free(token);
	token = scoped("\"end\"");
	T_INT(ASK("GET", files, token, .data = true), 403);
	T_INT(ASK("DELETE", box, token), 202);
	down();
}

TEST(tokens_are_for_ones_own_sandboxes)
{
	owned_str body = NULL;

	up();
	body = xasprintf("{\"sandbox\":\"%s\",\"allow\":[\"exec\"]}", sb);
	T_INT(ASK("POST", "/v1/tokens", STRANGER, body), 404);
	T_INT(ASK("POST", "/v1/tokens", VIEWER, body), 403);
	T_INT(ASK("POST", "/v1/tokens", DEV, body), 201);
	T_STR(rig_field("sandbox"), sb);
	down();
}

TEST(a_token_dies_with_its_key_and_so_does_what_is_open)
{
	owned_str key = NULL;
	owned_str secret = NULL;
	owned_str body = NULL;
	owned_str token = NULL;
	owned_str path = NULL;
	struct wsc c, k;

	up();
	T_INT(ASK("POST", "/v1/keys", OPERATOR,
		  "{\"name\":\"x\",\"role\":\"developer\"}"),
	      201);
	key = xstrdup(rig_field("id"));
	secret = xstrdup(rig_field("secret"));
	body = xasprintf("{\"sandbox\":\"%s\",\"allow\":[\"exec\"]}", sb);
	token = minted("/v1/tokens", secret, body, "token");
	wsc_open(&c, attach, token, NULL, NULL);
	T_TRUE(c.ws);
	wsc_open(&k, attach, secret, NULL, NULL);
	T_TRUE(k.ws);
	path = xasprintf("/v1/keys/%s", key);
	T_INT(ASK("DELETE", path, OPERATOR), 200);
	UNTIL(c.closed && k.closed);
	T_INT(c.code, 1008);
	T_INT(k.code, 1008);
	T_HAS(buf_cstr(&c.last), "\"retry\":false");
	wsc_close(&c);
	wsc_close(&k);
	wsc_open(&c, attach, token, NULL, NULL);
	T_INT(c.status, 401);
	wsc_close(&c);
	down();
}

TEST(a_token_that_ran_out_says_so_and_ends_its_streams)
{
	owned_str path = NULL;
	owned_str token = NULL;
	struct wsc c;

	up();
	path = xasprintf("/v1/execs/%s/token", ex);
	token = minted(path, DEV, "{\"ttl_s\":2}", "token");
	wsc_open(&c, attach, token, NULL, NULL);
	UNTIL(c.closed);
	T_INT(c.code, 1008);
	T_HAS(buf_cstr(&c.last), "token_expired");
	wsc_close(&c);
	wsc_open(&c, attach, token, NULL, NULL);
	T_INT(c.status, 401);
	T_HAS(c.body, "token_expired");
	wsc_close(&c);
	down();
}
