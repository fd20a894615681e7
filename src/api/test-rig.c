/* SPDX-License-Identifier: Apache-2.0 */
#include "api/test-rig.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "api/node.h"
#include "base/check.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "db/test-cluster.h"
#include "tls/digest.h"

struct loop *rig_loop;
struct api *rig_api;
struct fake rig_fake;
unsigned rig_guess_burst = 100000, rig_rate;
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

void rig_spin(int ms)
{
	uint64_t end = now_mono_us() + (uint64_t)ms * 1000;

	while (now_mono_us() < end)
		loop_once(rig_loop, 5);
}

void rig_api_start(void)
{
	static char conninfo[256];
	struct api_conf conf = { .conninfo = conninfo,
				 .db_conns = 4,
				 .guess_burst = rig_guess_burst,
				 .rate_per_s = rig_rate };
	int control, data;

	snprintf(conninfo, sizeof(conninfo), "%s user=caisson_api",
		 test_cluster());
	rig_api = api_new(rig_loop, &conf);
	control = bind_any(&ports[0]);
	data = bind_any(&ports[1]);
	api_listen_take(rig_api, control, data);
}

/* Until the API knows the node's counters. */
void rig_wait_node(void)
{
	for (int i = 0;
	     i < 2000 && (!node_get(rig_api->nodes, "n1") ||
			  !*node_incarnation(node_get(rig_api->nodes, "n1")));
	     i++)
		loop_once(rig_loop, 10);
	T_TRUE(node_get(rig_api->nodes, "n1") != NULL);
	T_STR(node_incarnation(node_get(rig_api->nodes, "n1")), "inc1");
}

void rig_up(void)
{
	test_cluster();
	prepare_database();
	rig_loop = loop_new();
	fake_start(&rig_fake, rig_loop, test_tmpdir());
	add_node(test_tmpdir());
	rig_api_start();
	rig_wait_node();
}

/* ---- a client ---- */

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
	keep(c->timing, sizeof(c->timing), h, "server-timing");
	keep(c->location, sizeof(c->location), h, "location");
	keep(c->replayed, sizeof(c->replayed), h, "idempotent-replayed");
	keep(c->type, sizeof(c->type), h, "content-type");
	keep(c->cookie, sizeof(c->cookie), h, "set-cookie");
	keep(c->allow, sizeof(c->allow), h, "allow");
	keep(c->request_id, sizeof(c->request_id), h, "request-id");
	keep(c->etag, sizeof(c->etag), h, "etag");
	keep(c->retry_after, sizeof(c->retry_after), h, "retry-after");
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

void rig_resume(struct call *c)
{
	c->paused = false;
	on_body(c->stream);
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

int rig_socket(bool data)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port =
				      htons((uint16_t)ports[data ? 1 : 0]),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0);
	return fd;
}

void rig_send(struct call *c, const struct ask *a)
{
	int fd = rig_socket(a->data);
	size_t n = a->body ? strlen(a->body) : (size_t)a->upload;
	struct http_head h;
	owned_str auth = NULL;
	char length[24];

	*c = (struct call){ 0 };
	buf_init(&c->body, 0);
	c->conn = http_conn_client_take(rig_loop, fd, a->h2 ? HTTP_2 : HTTP_1_1,
					NULL, &conn_ops, c);
	http_head_init(&h);
	h.method = xstrdup(a->method);
	h.path = xstrdup(a->path);
	h.authority = xstrdup(a->host ? a->host : "localhost");
	if (a->key) {
		auth = xasprintf("Bearer %s", a->key);
		http_head_add(&h, "authorization", auth);
	}
	if (a->name)
		http_head_add(&h, a->name, a->value);
	if (a->name2)
		http_head_add(&h, a->name2, a->value2);
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

void rig_end(struct call *c)
{
	if (c->conn)
		http_conn_free(c->conn);
	c->conn = NULL;
	buf_fini(&c->body);
}

void rig_wait(struct call *c)
{
	for (int i = 0; i < 3000 && !c->done; i++)
		loop_once(rig_loop, 20);
	T_TRUE(c->done);
}

/* The last answer of rig_ask(). */
struct call rig_last;
json_t *rig_body; /* of it, or NULL */

void rig_down(void)
{
	rig_end(&rig_last);
	rig_api = api_free(rig_api);
	fake_stop(&rig_fake);
	rig_loop = loop_free(rig_loop);
}

int rig_ask(const struct ask *a)
{
	char *text;

	json_decref(rig_body);
	rig_body = NULL;
	rig_end(&rig_last);
	rig_send(&rig_last, a);
	rig_wait(&rig_last);
	text = buf_cstr(&rig_last.body);
	if (text)
		rig_body = json_loads(text, 0, NULL);
	return rig_last.status;
}

/* "sandbox.state" of the last body. */
const char *rig_field(const char *path)
{
	const json_t *v = rig_body;
	char name[64];

	while (*path) {
		size_t n = strcspn(path, ".");

		snprintf(name, sizeof(name), "%.*s", (int)n, path);
		v = json_object_get(v, name);
		path += n + (path[n] == '.');
	}
	return json_is_string(v) ? json_string_value(v) : "";
}

char *rig_create(const char *json)
{
	T_INT(ASK("POST", "/v1/sandboxes?wait_s=60", DEV, json), 201);
	return xstrdup(rig_field("sandbox.id"));
}
