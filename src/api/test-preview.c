/* SPDX-License-Identifier: Apache-2.0 */

/* Ports of sandboxes: tunnels, who may use a port, previews. */

#include <stdio.h>
#include <string.h>

#include "api/test-rig.h"
#include "api/test-ws.h"
#include "base/check.h"
#include "base/own.h"
#include "base/test.h"

static char *sb, *host, *ports;

static void up(void)
{
	rig_up();
	sb = rig_create(BASE);
	host = xasprintf("80-%s.localhost:7710", sb);
	ports = xasprintf("/v1/sandboxes/%s/ports", sb);
}

static void down(void)
{
	free(sb);
	free(host);
	free(ports);
	sb = host = ports = NULL;
	rig_down();
}

/* ---- tunnels ---- */

static void tunnel(struct wsc *c, unsigned port, const char *key)
{
	owned_str path =
	    xasprintf("/v1/sandboxes/%s/ports/%u/tunnel", sb, port);

	wsc_open(c, path, key, NULL, NULL);
}

TEST(a_tunnel_carries_bytes_and_half_closes)
{
	static uint8_t big[65536];
	struct wsc c;

	up();
	tunnel(&c, 7, DEV);
	T_TRUE(c.ws);
	T_STR(rig_fake.last_path, "/v1/tunnel?port=7");
	for (unsigned i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 7);
	for (unsigned i = 0; i < 32; i++) {
		UNTIL(ws_room(c.ws) > sizeof(big));
		CHECK(ws_send(c.ws, false, big, sizeof(big)));
	}
	UNTIL(ws_room(c.ws) > 16);
	CHECK(ws_send(c.ws, false, "", 0));
	UNTIL(c.closed);
	T_INT(c.code, 1000);
	T_INT(c.end, 1);
	T_TRUE(buf_len(&c.output) >= 1 << 20);
	for (unsigned i = 0; i < (1 << 20); i++)
		T_TRUE(buf_data(&c.output)[i] == big[i % sizeof(big)]);
	wsc_close(&c);
	down();
}

TEST(nobody_listens_is_said_before_the_upgrade)
{
	struct wsc c;

	up();
	tunnel(&c, 9, DEV);
	T_INT(c.status, 502);
	T_HAS(c.body, "port_closed");
	wsc_close(&c);
	tunnel(&c, 0, DEV);
	T_INT(c.status, 400);
	wsc_close(&c);
	tunnel(&c, 65536, DEV);
	T_INT(c.status, 400);
	wsc_close(&c);
	tunnel(&c, 7, VIEWER);
	T_INT(c.status, 403);
	wsc_close(&c);
	tunnel(&c, 7, STRANGER);
	T_INT(c.status, 404);
	wsc_close(&c);
	tunnel(&c, 7, NULL);
	T_INT(c.status, 401);
	wsc_close(&c);
	down();
}

TEST(bytes_after_the_end_and_text_are_refused)
{
	struct wsc c;

	up();
	tunnel(&c, 7, DEV);
	CHECK(ws_send(c.ws, true, "text", 4));
	UNTIL(c.closed);
	T_INT(c.code, 1003);
	wsc_close(&c);
	down();
}

/* ---- who may use a port ---- */

TEST(a_port_is_opened_listed_and_closed)
{
	owned_str path = NULL;

	up();
	T_INT(ASK("GET", ports, VIEWER), 200);
	T_HAS(buf_cstr(&rig_last.body), "\"items\":[]");
	T_INT(ASK("POST", ports, DEV, "{\"port\":80,\"access\":\"public\"}"),
	      201);
	T_STR(rig_field("access"), "public");
	T_HAS(rig_field("url"), "http://80-sb");
	T_HAS(rig_field("url"), ".localhost:");
	T_INT(ASK("POST", ports, DEV, "{\"port\":80,\"access\":\"token\"}"),
	      200);
	T_TRUE(strncmp(rig_field("token"), "cpt_", 4) == 0);
	T_INT(ASK("GET", ports, VIEWER), 200);
	T_HAS(buf_cstr(&rig_last.body), "\"access\":\"token\"");
	T_TRUE(!strstr(buf_cstr(&rig_last.body), "cpt_"));
	path = xasprintf("%s?port=80", ports);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_HAS(buf_cstr(&rig_last.body), "\"removed\":true");
	T_INT(ASK("DELETE", path, DEV), 200);
	T_HAS(buf_cstr(&rig_last.body), "\"removed\":false");
	T_INT(ASK("DELETE", ports, DEV), 400);
	T_INT(ASK("POST", ports, DEV, "{\"port\":0}"), 400);
	T_INT(ASK("POST", ports, DEV, "{\"access\":\"public\"}"), 400);
	T_INT(ASK("POST", ports, VIEWER, "{\"port\":80}"), 403);
	T_INT(ASK("POST", ports, STRANGER, "{\"port\":80}"), 404);
	T_INT(ASK("GET", ports, STRANGER), 404);
	T_INT(ASK("DELETE", path, STRANGER), 404);
	down();
}

static int look(const char *key, const char *name, const char *value)
{
	return ASK("GET", "/x/../y?q=1", key, .name = name, .value = value,
		   .host = host, .data = true);
}

TEST(a_private_port_needs_a_key_of_its_project)
{
	owned_str token = NULL;
	owned_str body = NULL;

	up();
	T_INT(look(NULL, NULL, NULL), 401);
	T_INT(look(STRANGER, NULL, NULL), 404);
	T_INT(look(VIEWER, NULL, NULL), 403);
	T_INT(look(DEV, NULL, NULL), 200);
	T_INT(look(NULL, "x-api-key", DEV), 200);
	/* the user's own Authorization is not for us, and does no harm */
	T_INT(ASK("GET", "/", NULL, .name = "authorization",
		  .value = "Basic dTpw", .name2 = "x-api-key", .value2 = DEV,
		  .host = host, .data = true),
	      200);
	T_HAS(buf_cstr(&rig_last.body), "authorization: Basic dTpw\n");
	T_TRUE(!strstr(buf_cstr(&rig_last.body), "e2b_"));
	T_INT(look(NULL, "authorization", "Basic dTpw"), 401);
	body = xasprintf("{\"sandbox\":\"%s\",\"allow\":[\"ports\"]}", sb);
	T_INT(ASK("POST", "/v1/tokens", DEV, body), 201);
	token = xstrdup(rig_field("token"));
	T_INT(look(token, NULL, NULL), 200);
	free(body);
	free(token);
	body = xasprintf("{\"sandbox\":\"%s\",\"allow\":[\"files\"]}", sb);
	T_INT(ASK("POST", "/v1/tokens", DEV, body), 201);
	token = xstrdup(rig_field("token"));
	T_INT(look(token, NULL, NULL), 403);
	down();
}

TEST(another_sandboxs_token_opens_nothing)
{
	owned_str other = NULL;
	owned_str body = NULL;
	owned_str token = NULL;

	up();
	other = rig_create(BASE);
	body = xasprintf("{\"sandbox\":\"%s\",\"allow\":[\"ports\"]}", other);
	T_INT(ASK("POST", "/v1/tokens", DEV, body), 201);
	token = xstrdup(rig_field("token"));
	T_INT(look(token, NULL, NULL), 403);
	down();
}

TEST(a_ports_token_opens_that_port)
{
	owned_str token = NULL;
	owned_str newer = NULL;
	owned_str wrong = NULL;

	up();
	T_INT(ASK("POST", ports, DEV, "{\"port\":80,\"access\":\"token\"}"),
	      201);
	token = xstrdup(rig_field("token"));
	T_INT(look(token, NULL, NULL), 200);
	T_INT(look(NULL, "caisson-port-token", token), 200);
	T_TRUE(!strstr(buf_cstr(&rig_last.body), "cpt_"));
	T_INT(look(NULL, NULL, NULL), 401);
	wrong = xstrdup(token);
	wrong[20] = wrong[20] == '0' ? '1' : '0';
	T_INT(look(NULL, "caisson-port-token", wrong), 401);
	T_INT(ASK("POST", ports, DEV, "{\"port\":80,\"access\":\"token\"}"),
	      200);
	newer = xstrdup(rig_field("token"));
	T_INT(look(NULL, "caisson-port-token", token), 401);
	T_INT(look(NULL, "caisson-port-token", newer), 200);
	down();
}

/* ---- what passes ---- */

TEST(a_public_port_is_open_and_the_guest_learns_no_secret)
{
	const char *t;

	up();
	T_INT(ASK("POST", ports, DEV, "{\"port\":80,\"access\":\"public\"}"),
	      201);
	T_INT(look(DEV, "cookie", "caisson_session=s; mine=1"), 200);
	T_STR(rig_fake.last_path, "/v1/tunnel?port=80");
	T_STR(rig_last.type, "text/html");
	t = buf_cstr(&rig_last.body);
	T_HAS(t, "GET /x/../y?q=1\nhost: 80-sb");
	T_TRUE(!strstr(t, "e2b_"));
	T_TRUE(!strstr(t, "caisson_session"));
	T_HAS(t, "cookie: mine=1\n");
	T_HAS(t, "x-forwarded-for: 127.0.0.1\n");
	T_HAS(t, "x-forwarded-proto: http\n");
	T_TRUE(!strstr(rig_last.cookie, "Domain"));
	T_HAS(rig_last.cookie, "a=b");
	/* the user's own names pass, forged ones of ours do not */
	T_INT(look(NULL, "x-forwarded-for", "6.6.6.6"), 200);
	T_TRUE(!strstr(buf_cstr(&rig_last.body), "6.6.6.6"));
	T_INT(look(NULL, "authorization", "Basic dTpw"), 200);
	T_HAS(buf_cstr(&rig_last.body), "authorization: Basic dTpw\n");
	T_INT(look(NULL, "x-api-key", "the-users-own"), 200);
	T_HAS(buf_cstr(&rig_last.body), "x-api-key: the-users-own\n");
	down();
}

TEST(bodies_stream_both_ways)
{
	up();
	T_INT(ASK("POST", "/echo", DEV, .host = host, .data = true,
		  .upload = 24 << 20),
	      200);
	T_INT(rig_last.received, 24 << 20);
	T_INT(ASK("POST", "/echo", DEV, .host = host, .data = true, .h2 = true,
		  .upload = 3 << 20),
	      200);
	T_INT(rig_last.received, 3 << 20);
	T_INT(ASK("HEAD", "/", DEV, .host = host, .data = true), 200);
	T_INT(rig_last.received, 0);
	down();
}

TEST(a_websocket_of_the_guest_passes_as_it_is)
{
	struct wsc c;

	up();
	wsc_open(&c, "/ws", DEV, "mine", host);
	T_TRUE(c.ws);
	CHECK(ws_send(c.ws, false, "ping", 4));
	UNTIL(c.n_messages == 1);
	T_STR(buf_cstr(&c.output), "ping");
	ws_close(c.ws, 1000, "done");
	UNTIL(c.closed);
	T_INT(c.code, 1000);
	wsc_close(&c);
	down();
}

TEST(a_revoked_key_ends_its_websocket_in_a_preview)
{
	owned_str id = NULL;
	owned_str secret = NULL;
	owned_str path = NULL;
	struct wsc c;

	up();
	T_INT(ASK("POST", "/v1/keys", OPERATOR,
		  "{\"name\":\"x\",\"role\":\"developer\"}"),
	      201);
	id = xstrdup(rig_field("id"));
	secret = xstrdup(rig_field("secret"));
	wsc_open(&c, "/ws", secret, NULL, host);
	T_TRUE(c.ws);
	path = xasprintf("/v1/keys/%s", id);
	T_INT(ASK("DELETE", path, OPERATOR), 200);
	UNTIL(c.closed);
	T_INT(c.code, 1006);
	wsc_close(&c);
	down();
}

TEST(a_closed_port_and_an_ended_sandbox_say_so)
{
	owned_str path = NULL;

	up();
	free(host);
	host = xasprintf("81-%s.example.org", sb);
	T_INT(look(DEV, NULL, NULL), 502);
	T_STR(rig_field("error.code"), "port_closed");
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", sb);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_INT(look(DEV, NULL, NULL), 410);
	T_STR(rig_field("error.code"), "sandbox_ended");
	T_INT(look(NULL, NULL, NULL), 401);
	free(host);
	host = xstrdup("80-sbaaaaaaaaaaaaaaaaaaaa.localhost");
	T_INT(look(DEV, NULL, NULL), 404);
	down();
}

TEST(a_name_that_is_no_preview_is_judged_as_before)
{
	up();
	free(host);
	host = xstrdup("evil.example");
	T_INT(look(DEV, NULL, NULL), 403);
	free(host);
	host = xasprintf("0-%s.localhost", sb);
	T_INT(look(DEV, NULL, NULL), 403);
	free(host);
	host = xasprintf("80-%s", sb);
	T_INT(look(DEV, NULL, NULL), 403);
	/* previews are the data listener's only */
	free(host);
	host = xasprintf("80-%s.localhost", sb);
	T_INT(ASK("GET", "/v1/whoami", DEV, .host = host), 403);
	down();
}
