/* SPDX-License-Identifier: Apache-2.0 */

/* The whole of caisson-api against a private PostgreSQL and a fake node, all
 * in one loop: what a client sees, and what must not happen behind. */

#include "api/api.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "api/node.h"
#include "base/check.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "net/json.h"
#include "test-cluster.h"
#include "test-node.h"
#include "tls/digest.h"

#define OPERATOR "e2b_1111111111111111111111111111111111111111"
#define VIEWER	 "e2b_2222222222222222222222222222222222222222"
#define STRANGER "e2b_3333333333333333333333333333333333333333"
#define DEV	 "e2b_4444444444444444444444444444444444444444"

static struct loop *l;
static struct api *api;
static struct fake fake;
static int ports[2]; /* control, data */

/* ---- the database, once ---- */

static void add_key(const char *tenant, const char *role, const char *key)
{
	char hex[DIGEST_HEX];
	owned_str sql = NULL;

	digest_sha256_hex(key, strlen(key), hex);
	sql = xasprintf("SELECT caisson.bootstrap('%s', 'default', '%s', '%s', "
			"left('%s', 12), '%s')",
			tenant, role, role, key, hex);
	test_cluster_sql(sql);
}

static void prepare_database(void)
{
	static bool done;

	if (done)
		return;
	test_cluster_migrate(CAISSON_SQL);
	add_key("default", "operator", OPERATOR);
	add_key("default", "viewer", VIEWER);
	add_key("default", "developer", DEV);
	add_key("other", "admin", STRANGER);
	done = true;
}

static void add_node(const char *dir)
{
	owned_str sql = xasprintf(
	    "SELECT caisson.node_heartbeat('%s/sandboxd.sock', "
	    "'%s/sandboxd-data.sock', '{\"name\":\"n1\",\"incarnation\":"
	    "\"inc1\",\"version\":\"0\",\"engine\":{\"name\":\"fake\","
	    "\"isolation\":\"software\",\"reason\":\"x\"}}', 600)",
	    dir, dir);

	test_cluster_sql(sql);
	test_cluster_sql(
	    "INSERT INTO caisson.templates (tenant, project, name, public) "
	    "SELECT p.tenant, p.id, 'base', true FROM caisson.projects p JOIN "
	    "caisson.tenants t ON t.id = p.tenant WHERE t.name = 'default' "
	    "ON CONFLICT DO NOTHING;"
	    "INSERT INTO caisson.template_releases (tenant, project, digest, "
	    "manifest, template, public, created_by) SELECT p.tenant, p.id, "
	    "'sha256:' || repeat('a', 64), '{\"kernel\":\"sha256:k\","
	    "\"initramfs\":\"sha256:i\",\"root\":\"sha256:r\","
	    "\"root_format\":\"raw\",\"defaults\":{\"memory_mib\":256,"
	    "\"vcpus\":1,\"disk_mib\":1024,\"user\":\"u\",\"cwd\":\"/home/u\","
	    "\"env\":{\"A\":\"template\",\"B\":\"template\"}}}', 'base', true, "
	    "'test' FROM caisson.projects p JOIN caisson.tenants t ON t.id = "
	    "p.tenant WHERE t.name = 'default' ON CONFLICT DO NOTHING;"
	    "SELECT caisson.tag_set(p.tenant, p.id, 'base', 'latest', "
	    "'sha256:' || repeat('a', 64)) FROM caisson.projects p JOIN "
	    "caisson.tenants t ON t.id = p.tenant WHERE t.name = 'default'");
}

/* ---- start and stop ---- */

static int bind_any(int *ret_port)
{
	struct sockaddr_in in;
	socklen_t n = sizeof(in);
	int fd = api_bind("127.0.0.1:0", NULL);

	CHECK(fd >= 0);
	CHECK(getsockname(fd, (struct sockaddr *)&in, &n) == 0);
	*ret_port = ntohs(in.sin_port);
	return fd;
}

static void spin(int ms)
{
	uint64_t end = now_mono_us() + (uint64_t)ms * 1000;

	while (now_mono_us() < end)
		loop_once(l, 5);
}

static void api_start(void)
{
	static char conninfo[256];
	struct api_conf conf = { .conninfo = conninfo, .db_conns = 4 };
	int control, data;

	snprintf(conninfo, sizeof(conninfo), "%s user=caisson_api",
		 test_cluster());
	api = api_new(l, &conf);
	control = bind_any(&ports[0]);
	data = bind_any(&ports[1]);
	api_listen_take(api, control, data);
}

/* Until the API knows the node's counters. */
static void wait_node(void)
{
	for (int i = 0;
	     i < 2000 && (!node_get(api->nodes, "n1") ||
			  !*node_incarnation(node_get(api->nodes, "n1")));
	     i++)
		loop_once(l, 10);
	T_TRUE(node_get(api->nodes, "n1") != NULL);
	T_STR(node_incarnation(node_get(api->nodes, "n1")), "inc1");
}

static void up(void)
{
	test_cluster();
	prepare_database();
	l = loop_new();
	fake_start(&fake, l, test_tmpdir());
	add_node(test_tmpdir());
	api_start();
	wait_node();
}

/* ---- a client ---- */

struct call {
	int status;
	bool done, cut, paused;
	struct buf body;
	char location[80], replayed[8], type[64], cookie[16], allow[32];
	char request_id[40];
	struct http_conn *conn;
	struct http_stream *stream;
	uint64_t received;
	uint64_t upload; /* bytes still to send */
};

static void keep(char *ret, size_t max, const struct http_head *h,
		 const char *name)
{
	const char *v = http_head_get(h, name);

	snprintf(ret, max, "%s", v ? v : "");
}

static void on_head(struct http_stream *s)
{
	struct call *c = http_stream_owner(s);
	const struct http_head *h = http_stream_head(s);

	c->status = h->status;
	keep(c->location, sizeof(c->location), h, "location");
	keep(c->replayed, sizeof(c->replayed), h, "idempotent-replayed");
	keep(c->type, sizeof(c->type), h, "content-type");
	keep(c->cookie, sizeof(c->cookie), h, "set-cookie");
	keep(c->allow, sizeof(c->allow), h, "allow");
	keep(c->request_id, sizeof(c->request_id), h, "request-id");
}

static void on_body(struct http_stream *s)
{
	struct call *c = http_stream_owner(s);
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p);

	if (c->paused)
		return;
	c->received += n;
	if (c->received < (1 << 20))
		buf_put(&c->body, p, n);
	http_stream_consume(s, n);
}

static void on_writable(struct http_stream *s)
{
	static const char zeros[65536];
	struct call *c = http_stream_owner(s);

	while (c->upload) {
		size_t n = c->upload < sizeof(zeros) ? (size_t)c->upload
						     : sizeof(zeros);
		size_t took = http_stream_write(s, zeros, n);

		c->upload -= took;
		if (took < n)
			return;
	}
	http_stream_end(s);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct call *c = http_stream_owner(s);

	c->done = true;
	c->cut = e != NULL;
	c->stream = NULL;
}

static void on_conn_close(struct http_conn *conn, const struct err *e)
{
	struct call *c = http_conn_owner(conn);

	(void)e;
	c->conn = NULL;
}

static const struct http_handler handler = { .on_head = on_head,
					     .on_body = on_body,
					     .on_writable = on_writable,
					     .on_close = on_close };
static const struct http_conn_ops conn_ops = { .on_close = on_conn_close };

struct ask {
	const char *method, *path, *key, *body;
	const char *name, *value; /* one header more */
	bool data, h2;
	uint64_t upload;
};

static void send_call(struct call *c, const struct ask *a)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port =
				      htons((uint16_t)ports[a->data ? 1 : 0]),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t n = a->body ? strlen(a->body) : (size_t)a->upload;
	struct http_head h;
	owned_str auth = NULL;
	char length[24];

	*c = (struct call){ 0 };
	buf_init(&c->body, 0);
	CHECK(connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0);
	c->conn = http_conn_client_take(l, fd, a->h2 ? HTTP_2 : HTTP_1_1, NULL,
					&conn_ops, c);
	http_head_init(&h);
	h.method = xstrdup(a->method);
	h.path = xstrdup(a->path);
	h.authority = xstrdup("localhost");
	if (a->key) {
		auth = xasprintf("Bearer %s", a->key);
		http_head_add(&h, "authorization", auth);
	}
	if (a->name)
		http_head_add(&h, a->name, a->value);
	if (n) {
		snprintf(length, sizeof(length), "%zu", n);
		http_head_add(&h, "content-length", length);
	}
	c->stream = http_conn_request(c->conn, &h, n > 0, &handler, c, NULL);
	CHECK(c->stream);
	http_head_fini(&h);
	if (a->body) {
		CHECK(http_stream_write(c->stream, a->body, n) == n);
		http_stream_end(c->stream);
	} else if (n) {
		c->upload = a->upload;
		on_writable(c->stream);
	}
}

static void end_call(struct call *c)
{
	if (c->conn)
		http_conn_free(c->conn);
	c->conn = NULL;
	buf_fini(&c->body);
}

static void wait_call(struct call *c)
{
	for (int i = 0; i < 3000 && !c->done; i++)
		loop_once(l, 20);
	T_TRUE(c->done);
}

/* The last answer of ask(). */
static struct call last;
static json_t *body; /* of it, or NULL */

static void down(void)
{
	end_call(&last);
	api = api_free(api);
	fake_stop(&fake);
	l = loop_free(l);
}

static int ask(const struct ask *a)
{
	char *text;

	json_decref(body);
	body = NULL;
	end_call(&last);
	send_call(&last, a);
	wait_call(&last);
	text = buf_cstr(&last.body);
	if (text)
		body = json_loads(text, 0, NULL);
	return last.status;
}

/* what a call leaves out is zero */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#define ASK(...) ask(&(struct ask){ __VA_ARGS__ })

/* "sandbox.state" of the last body. */
static const char *field(const char *path)
{
	const json_t *v = body;
	char name[64];

	while (*path) {
		size_t n = strcspn(path, ".");

		snprintf(name, sizeof(name), "%.*s", (int)n, path);
		v = json_object_get(v, name);
		path += n + (path[n] == '.');
	}
	return json_is_string(v) ? json_string_value(v) : "";
}

static char *create(const char *json)
{
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, json), 201);
	return xstrdup(field("sandbox.id"));
}

#define BASE "{\"template\":\"base\"}"

/* ---- who may ask ---- */

TEST(health_needs_no_key_and_whoami_does)
{
	up();
	T_INT(ASK("GET", "/healthz"), 200);
	T_INT(ASK("GET", "/readyz"), 200);
	T_INT(ASK("GET", "/v1/whoami"), 401);
	T_STR(field("error.code"), "unauthenticated");
	T_STR(field("error.request_id"), last.request_id);
	T_INT(ASK("GET", "/v1/whoami", VIEWER), 200);
	T_STR(field("key.role"), "viewer");
	T_STR(field("tenant.name"), "default");
	T_STR(field("weakest_isolation"), "software");
	down();
}

TEST(a_key_works_as_x_api_key_over_http2_too)
{
	up();
	T_INT(ASK("GET", "/v1/whoami", NULL, NULL, "x-api-key", VIEWER,
		  .h2 = true),
	      200);
	down();
}

TEST(a_key_with_a_known_prefix_and_another_secret_is_refused)
{
	up();
	T_INT(ASK("GET", "/v1/whoami", VIEWER), 200); /* now cached */
	T_INT(ASK("GET", "/v1/whoami",
		  "e2b_2222222200000000000000000000000000000000"),
	      401);
	down();
}

TEST(a_foreign_host_or_origin_is_refused_before_the_key_is_looked_at)
{
	up();
	T_INT(ASK("GET", "/v1/whoami", VIEWER, NULL, "origin",
		  "https://evil.example"),
	      403);
	T_STR(field("error.code"), "policy_denied");
	down();
}

TEST(roles_are_kept)
{
	up();
	T_INT(ASK("POST", "/v1/sandboxes", VIEWER, BASE), 403);
	T_STR(field("error.code"), "role_required");
	T_INT(ASK("GET", "/metrics", DEV), 403);
	T_INT(ASK("GET", "/metrics", OPERATOR), 200);
	T_INT(ASK("GET", "/v1/nodes", OPERATOR), 200);
	down();
}

TEST(unknown_paths_wrong_verbs_and_planned_routes_are_told_apart)
{
	up();
	T_INT(ASK("GET", "/v1/nonsense", DEV), 404);
	T_INT(ASK("PUT", "/v1/sandboxes", DEV), 405);
	T_STR(last.allow, "GET, POST");
	T_INT(ASK("POST", "/v1/sandboxes/sb1/pause", DEV), 422);
	T_STR(field("error.code"), "not_supported");
	T_INT(ASK("GET", "/v1/sandboxes/x/files?path=/a", DEV), 404);
	down();
}

/* ---- create and end ---- */

TEST(create_waits_and_answers_the_running_sandbox)
{
	owned_str id = NULL;

	up();
	id = create("{\"template\":\"base\",\"name\":\"t1\",\"labels\":"
		    "{\"k\":\"v\"},\"env\":{\"SECRET\":\"x\"}}");
	T_STR(field("sandbox.state"), "running");
	T_STR(field("operation.state"), "succeeded");
	T_STR(field("sandbox.isolation.level"), "software");
	T_TRUE(id_valid(id, "sb", 20));
	T_TRUE(!strstr(buf_cstr(&last.body), "SECRET"));
	T_HAS(fake.last_ensure, "\"incarnation\":\"inc1\"");
	T_HAS(fake.last_ensure, "\"hostname\":\"t1\"");
	T_HAS(fake.last_ensure, "\"memory_mib\":256");
	T_TRUE(!strstr(fake.last_ensure, "provenance"));
	/* one reads one's own writes */
	T_INT(ASK("GET", "/v1/sandboxes/@t1", VIEWER), 200);
	T_STR(field("id"), id);
	T_INT(ASK("DELETE", "/v1/sandboxes/@t1?wait_s=60", DEV), 200);
	T_STR(field("sandbox.state"), "ended");
	T_STR(field("sandbox.end.reason"), "request");
	down();
}

TEST(create_without_waiting_is_202_with_location)
{
	owned_str op = NULL;
	char path[100];

	up();
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE), 202);
	T_STR(field("sandbox.state"), "starting");
	op = xstrdup(field("operation.id"));
	snprintf(path, sizeof(path), "/v1/operations/%s", op);
	T_STR(last.location, path);
	snprintf(path, sizeof(path), "/v1/operations/%s?wait_s=60", op);
	T_INT(ASK("GET", path, VIEWER), 200);
	T_STR(field("operation.state"), "succeeded");
	T_STR(field("sandbox.state"), "running");
	down();
}

TEST(delete_twice_is_200_and_of_a_foreign_tenant_404)
{
	owned_str id = NULL;
	owned_str path = NULL;

	up();
	id = create(BASE);
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, STRANGER), 404);
	T_INT(ASK("GET", path, STRANGER), 404);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_STR(field("sandbox.state"), "ended");
	T_INT(fake.n_end, 1);
	T_INT(ASK("DELETE", "/v1/sandboxes/sbaaaaaaaaaaaaaaaaaaaa", DEV), 404);
	down();
}

TEST(a_name_is_unique_while_alive)
{
	owned_str id = NULL;
	owned_str path = NULL;

	up();
	id = create("{\"template\":\"base\",\"name\":\"once\"}");
	T_INT(ASK("POST", "/v1/sandboxes", DEV,
		  "{\"template\":\"base\",\"name\":\"once\"}"),
	      409);
	T_STR(field("error.code"), "name_taken");
	T_STR(field("error.field"), "name");
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	free(create("{\"template\":\"base\",\"name\":\"once\"}"));
	down();
}

TEST(the_same_key_and_body_replay_and_another_body_is_409)
{
	owned_str first = NULL;

	up();
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE,
		  "idempotency-key", "k1"),
	      201);
	first = xstrdup(field("sandbox.id"));
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE,
		  "idempotency-key", "k1"),
	      201);
	T_STR(field("sandbox.id"), first);
	T_STR(last.replayed, "true");
	T_INT(fake.n_ensure, 1);
	T_INT(ASK("POST", "/v1/sandboxes", DEV, "{\"template\":\"base:x\"}",
		  "idempotency-key", "k1"),
	      409);
	T_STR(field("error.code"), "idempotency_mismatch");
	down();
}

TEST(a_replay_while_the_first_still_runs_joins_it)
{
	struct call first;

	up();
	fake.mode = FAKE_HANGS;
	send_call(&first, &(struct ask){ "POST", "/v1/sandboxes?wait_s=60", DEV,
					 BASE, "idempotency-key", "k2" });
	while (!fake.n_ensure)
		loop_once(l, 20);
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE, "idempotency-key", "k2"),
	      202);
	T_STR(last.replayed, "true");
	T_STR(field("operation.state"), "running");
	T_INT(fake.n_ensure, 1);
	end_call(&first);
	down();
}

TEST(an_end_overtakes_a_create_that_hangs)
{
	owned_str id = NULL;
	owned_str op = NULL;
	owned_str path = NULL;

	up();
	fake.mode = FAKE_HANGS;
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE), 202);
	id = xstrdup(field("sandbox.id"));
	op = xstrdup(field("operation.id"));
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	T_STR(field("sandbox.state"), "ended");
	free(path);
	path = xasprintf("/v1/operations/%s", op);
	T_INT(ASK("GET", path, DEV), 200);
	T_STR(field("operation.state"), "cancelled");
	T_HAS(field("operation.superseded_by"), "op_");
	down();
}

TEST(a_create_that_outlives_wait_s_is_202)
{
	up();
	fake.mode = FAKE_HANGS;
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=1", DEV, BASE), 202);
	T_STR(field("operation.state"), "running");
	down();
}

TEST(a_node_that_refuses_is_a_typed_error_with_the_operation)
{
	up();
	fake.mode = FAKE_FULL;
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE), 503);
	T_STR(field("error.code"), "capacity");
	T_STR(field("error.message"), "no slot is free");
	T_HAS(field("error.operation"), "op_");
	fake.mode = FAKE_GARBAGE;
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE), 503);
	T_STR(field("error.code"), "node_unavailable");
	down();
}

TEST(a_node_with_a_new_incarnation_is_asked_again)
{
	up();
	fake.mode = FAKE_RESTARTED;
	free(create(BASE));
	T_INT(fake.n_ensure, 2);
	down();
}

TEST(a_demand_for_hardware_isolation_is_refused_here)
{
	up();
	T_INT(ASK("POST", "/v1/sandboxes", DEV,
		  "{\"template\":\"base\",\"isolation\":\"hardware\"}"),
	      409);
	T_STR(field("error.code"), "isolation_unavailable");
	T_INT(fake.n_ensure, 0);
	down();
}

TEST(an_unknown_template_is_404_and_a_bad_body_400)
{
	up();
	T_INT(ASK("POST", "/v1/sandboxes", DEV, "{\"template\":\"nope\"}"),
	      404);
	T_STR(field("error.field"), "template");
	T_HAS(field("error.message"), "nope");
	T_INT(ASK("POST", "/v1/sandboxes", DEV, "{\"template\":"), 400);
	T_INT(ASK("POST", "/v1/sandboxes", DEV, "{\"tmplate\":\"base\"}"), 400);
	T_INT(ASK("POST", "/v1/sandboxes", DEV,
		  "{\"template\":\"base\",\"snapshot\":\"snp_1\"}"),
	      422);
	down();
}

TEST(the_trace_of_the_client_reaches_the_node)
{
	const char *t =
	    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

	up();
	T_INT(
	    ASK("POST", "/v1/sandboxes?wait_s=60", DEV, BASE, "traceparent", t),
	    201);
	T_STR(fake.last_traceparent, t);
	down();
}

TEST(a_restarted_api_goes_on_reading_what_was_accepted)
{
	owned_str id = NULL;
	owned_str path = NULL;

	up();
	fake.mode = FAKE_HANGS;
	T_INT(ASK("POST", "/v1/sandboxes", DEV, BASE), 202);
	id = xstrdup(field("sandbox.id"));
	end_call(&last);
	api_free(api);
	fake.mode = FAKE_GOOD;
	api_start();
	wait_node();
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("GET", path, DEV), 200);
	T_STR(field("state"), "starting");
	T_INT(ASK("DELETE", path, DEV), 200);
	T_STR(field("sandbox.state"), "ended");
	down();
}

/* ---- lists ---- */

TEST(pages_follow_each_other_without_a_gap)
{
	char *ids[3];
	char path[160];
	int seen = 0;

	up();
	for (int i = 0; i < 3; i++)
		ids[i] = create("{\"template\":\"base\",\"labels\":"
				"{\"list\":\"pages\"}}");
	snprintf(path, sizeof(path), "/v1/sandboxes?label=list=pages&limit=1");
	for (int i = 2; i >= 0; i--) {
		const json_t *item;

		T_INT(ASK("GET", path, VIEWER), 200);
		item = json_array_get(json_object_get(body, "items"), 0);
		T_STR(json_string_value(json_object_get(item, "id")), ids[i]);
		seen++;
		snprintf(path, sizeof(path),
			 "/v1/sandboxes?label=list=pages&limit=1&after=%s",
			 field("next"));
	}
	T_INT(seen, 3);
	T_TRUE(json_is_null(json_object_get(body, "next")));
	T_INT(ASK("GET", "/v1/operations?after=s00", VIEWER), 400);
	T_STR(field("error.code"), "bad_cursor");
	T_INT(ASK("GET", "/v1/operations?after=%00", VIEWER), 400);
	T_STR(field("error.code"), "bad_cursor");
	for (int i = 0; i < 3; i++)
		free(ids[i]);
	down();
}

/* ---- keys ---- */

TEST(a_key_is_shown_once_and_dies_at_once_when_revoked)
{
	owned_str secret = NULL;
	owned_str id = NULL;
	owned_str path = NULL;

	up();
	T_INT(ASK("POST", "/v1/keys", OPERATOR,
		  "{\"name\":\"ci\",\"role\":\"developer\"}", "idempotency-key",
		  "key1"),
	      201);
	secret = xstrdup(field("secret"));
	id = xstrdup(field("id"));
	T_INT(strlen(secret), 44);
	T_INT(ASK("POST", "/v1/keys", OPERATOR,
		  "{\"name\":\"ci\",\"role\":\"developer\"}", "idempotency-key",
		  "key1"),
	      201);
	T_STR(field("id"), id);
	T_STR(field("secret"), "");
	T_INT(ASK("GET", "/v1/whoami", secret), 200);
	path = xasprintf("/v1/keys/%s", id);
	T_INT(ASK("DELETE", path, STRANGER), 404);
	T_INT(ASK("DELETE", path, OPERATOR), 200);
	T_INT(ASK("GET", "/v1/whoami", secret), 401);
	T_HAS(field("error.message"), "revoked");
	T_INT(ASK("POST", "/v1/keys", STRANGER,
		  "{\"name\":\"up\",\"role\":\"operator\"}"),
	      403);
	down();
}

/* ---- templates ---- */

#define HEX "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BUILD                                                                  \
	"{\"from\":{\"artifacts\":{\"kernel\":\"" HEX "\",\"initramfs\":\""    \
	"sha256:" HEX "\",\"root\":\"sha256:" HEX "\"}},\"defaults\":"         \
	"{\"memory_mib\":300},\"provenance\":{\"by\":\"test\"}}"

TEST(a_build_registers_prepares_and_moves_the_tag)
{
	owned_str release = NULL;
	owned_str path = NULL;

	up();
	T_INT(
	    ASK("POST", "/v1/templates/mine/builds?wait_s=60", OPERATOR, BUILD),
	    201);
	T_STR(field("operation.state"), "succeeded");
	T_STR(field("operation.progress.phase"), "ready");
	T_INT(fake.n_prepare, 1);
	T_INT(ASK("GET", "/v1/templates/mine", VIEWER), 200);
	release = xstrdup(field("release"));
	path = xasprintf("/v1/releases/%s", release);
	T_INT(ASK("GET", path, STRANGER), 200); /* public */
	T_STR(field("manifest.kernel"), "sha256:" HEX);
	free(create("{\"template\":\"mine\"}"));
	T_HAS(fake.last_ensure, release);
	T_HAS(fake.last_ensure, "\"memory_mib\":300");
	down();
}

TEST(a_failed_build_moves_no_tag)
{
	up();
	fake.mode = FAKE_BUILD_FAILS;
	T_INT(
	    ASK("POST", "/v1/templates/bad/builds?wait_s=60", OPERATOR, BUILD),
	    404);
	T_HAS(field("error.message"), "artifact root");
	T_INT(ASK("POST", "/v1/sandboxes", DEV, "{\"template\":\"bad\"}"), 404);
	down();
}

/* ---- the guest ---- */

TEST(an_exec_carries_merged_environment_and_an_id_of_its_sandbox)
{
	owned_str id = NULL;
	owned_str path = NULL;
	char want[64];

	up();
	id = create("{\"template\":\"base\",\"env\":{\"B\":\"sandbox\","
		    "\"C\":\"sandbox\"}}");
	path = xasprintf("/v1/sandboxes/%s/execs", id);
	T_INT(ASK("POST", path, DEV,
		  "{\"cmd\":[\"id\"],\"env\":{\"C\":\"exec\"}}",
		  "idempotency-key", "e1"),
	      201);
	T_HAS(fake.last_exec, "\"A\":\"template\"");
	T_HAS(fake.last_exec, "\"B\":\"sandbox\"");
	T_HAS(fake.last_exec, "\"C\":\"exec\"");
	T_HAS(fake.last_exec, "\"user\":\"u\"");
	T_HAS(fake.last_exec, "\"cwd\":\"/home/u\"");
	snprintf(want, sizeof(want), "\"id\":\"ex_%.20s", id + 2);
	T_HAS(fake.last_exec, want);
	T_STR(fake.last_idem, "e1");
	T_INT(ASK("POST", path, STRANGER, "{\"cmd\":[\"id\"]}"), 404);
	T_INT(ASK("GET", path, VIEWER), 200);
	T_INT(fake.n_data, 1); /* the connection was kept */
	down();
}

TEST(output_streams_through_the_data_listener)
{
	owned_str id = NULL;
	owned_str path = NULL;

	up();
	id = create(BASE);
	path = xasprintf("/v1/execs/ex_%.20sabcdefgh/output?from=7&follow=1",
			 id + 2);
	T_INT(ASK("GET", path, VIEWER, .data = true), 200);
	T_STR(last.type, "application/x-ndjson");
	T_HAS(buf_cstr(&last.body), "aGVsbG8K");
	T_HAS(fake.last_path, "/output?from=7&follow=1");
	fake.guest = GUEST_CUTS;
	ASK("GET", path, VIEWER, .data = true);
	/* never a clean end of a broken stream */
	T_TRUE(last.cut || last.status == 503);
	T_INT(ASK("GET", path, STRANGER, .data = true), 404);
	T_INT(ASK("GET", "/v1/execs/ex_1/output", VIEWER, .data = true), 404);
	down();
}

TEST(a_data_call_to_an_ended_sandbox_is_410_with_the_reason)
{
	owned_str id = NULL;
	owned_str path = NULL;

	up();
	id = create(BASE);
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	free(path);
	path = xasprintf("/v1/sandboxes/%s/files?path=/a", id);
	T_INT(ASK("GET", path, DEV, .data = true), 410);
	T_STR(field("error.code"), "sandbox_ended");
	T_HAS(field("error.message"), "request");
	down();
}

TEST(a_guest_cannot_choose_status_type_or_cookies)
{
	owned_str id = NULL;
	owned_str exec = NULL;
	owned_str file = NULL;

	up();
	id = create(BASE);
	exec = xasprintf("/v1/sandboxes/%s/execs", id);
	file = xasprintf("/v1/sandboxes/%s/files?path=/a%%20b", id);
	fake.guest = GUEST_TEAPOT;
	T_INT(ASK("POST", exec, DEV, "{\"cmd\":[\"id\"]}"), 503);
	T_STR(field("error.cause"), "guest");
	fake.guest = GUEST_NOT_UTF8;
	T_INT(ASK("POST", exec, DEV, "{\"cmd\":[\"id\"]}"), 503);
	fake.guest = GUEST_HTML;
	T_INT(ASK("GET", file, DEV, .data = true), 200);
	T_STR(last.type, "application/octet-stream");
	T_STR(last.cookie, "");
	T_STR(fake.last_path, "/v1/files?path=/a%20b");
	T_INT(ASK("HEAD", file, DEV, .data = true), 200);
	T_INT(last.received, 0);
	down();
}

TEST(a_sandbox_that_its_node_does_not_know_is_wrong_state)
{
	owned_str id = NULL;
	owned_str path = NULL;

	up();
	id = create(BASE);
	path = xasprintf("/v1/sandboxes/%s/metrics", id);
	fake.guest = GUEST_ABSENT;
	T_INT(ASK("GET", path, DEV), 409);
	fake.guest = GUEST_CLOSED;
	T_INT(ASK("GET", path, DEV), 409);
	fake.guest = GUEST_GOOD;
	T_INT(ASK("GET", path, DEV), 200);
	T_HAS(buf_cstr(&last.body), "cpu_count");
	down();
}

TEST(a_client_that_does_not_read_holds_the_guest_back)
{
	owned_str id = NULL;
	owned_str path = NULL;
	struct call c;

	up();
	id = create(BASE);
	path = xasprintf("/v1/sandboxes/%s/files?path=/big", id);
	fake.download = 64 << 20;
	send_call(&c,
		  &(struct ask){ "GET", path, DEV, .data = true, .h2 = true });
	c.paused = true;
	spin(1500);
	T_TRUE(fake.download_sent > 0);
	T_TRUE(fake.download_sent < (8 << 20));
	c.paused = false;
	on_body(c.stream);
	wait_call(&c);
	T_TRUE(!c.cut);
	T_INT(c.received, 64 << 20);
	end_call(&c);
	down();
}

TEST(an_upload_streams_and_answers_as_json)
{
	owned_str id = NULL;
	owned_str path = NULL;

	up();
	id = create(BASE);
	path = xasprintf("/v1/sandboxes/%s/files?path=/up&mode=0600&parents=1",
			 id);
	T_INT(ASK("PUT", path, DEV, .data = true, .upload = 20 << 20), 201);
	T_INT(fake.uploaded, 20 << 20);
	T_STR(fake.last_path, "/v1/files?path=/up&mode=0600&parents=1");
	T_INT(ASK("PUT", path, VIEWER, .data = true, .upload = 10), 403);
	down();
}

TEST(a_client_that_leaves_in_the_middle_breaks_nothing)
{
	owned_str id = NULL;
	owned_str path = NULL;
	struct call c;

	up();
	id = create(BASE);
	path = xasprintf("/v1/sandboxes/%s/files?path=/big", id);
	fake.download = 64 << 20;
	send_call(&c, &(struct ask){ "GET", path, DEV, .data = true });
	while (c.received == 0)
		loop_once(l, 20);
	end_call(&c);
	spin(100);
	fake.download = 5;
	T_INT(ASK("GET", path, DEV, .data = true), 200);
	T_INT(last.received, 5);
	down();
}
