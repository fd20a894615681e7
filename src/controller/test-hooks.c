/* SPDX-License-Identifier: Apache-2.0 */

/* Whole controllers against a private PostgreSQL and a receiver of webhooks in
 * the same loop. There is no node. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <libpq-fe.h>

#include "base/check.h"
#include "base/map.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "controller/controller.h"
#include "controller/hook_post.h"
#include "db/test-cluster.h"
#include "net/http.h"
#include "tls/digest.h"
#include "tls/seal.h"

#define SECRET "0123456789abcdef"
#define OLD    "fedcba9876543210"

static struct loop *loop;
static struct controller ctl[2];
static unsigned n_ctl;
static char conninfo[300];
static PGconn *pg;

/* ---- a receiver ---- */

static struct {
	struct http_server *server;
	int port;
	int status; /* that it answers; 0: never */
	const char *location;
	unsigned got;
	struct map *ids; /* Caisson-Delivery -> times */
	char body[8192], signature[HOOK_SIGNATURE];
} receiver;

static void answer(struct http_stream *s)
{
	struct http_head head;

	http_head_init(&head);
	head.status = receiver.status;
	if (receiver.location)
		http_head_add(&head, "location", receiver.location);
	http_head_add(&head, "content-length", "0");
	http_stream_respond(s, &head, false);
	http_head_fini(&head);
}

static void on_body(struct http_stream *s)
{
	const uint8_t *p;
	size_t n = http_stream_peek(s, &p), have = strlen(receiver.body);

	if (have + n < sizeof(receiver.body)) {
		memcpy(receiver.body + have, p, n);
		receiver.body[have + n] = '\0';
	}
	http_stream_consume(s, n);
	if (!http_stream_eof(s))
		return;
	receiver.got++;
	if (receiver.status)
		answer(s);
}

static void on_close(struct http_stream *s, const struct err *e)
{
	(void)s;
	(void)e;
}

static void on_request(struct http_conn *c, struct http_stream *s)
{
	static const struct http_handler h = { .on_body = on_body,
					       .on_close = on_close };
	const struct http_head *head = http_stream_head(s);
	const char *id = http_head_get(head, "caisson-delivery");
	const char *sign = http_head_get(head, "caisson-signature");

	(void)c;
	T_TRUE(id && sign && !strcmp(head->method, "POST"));
	snprintf(receiver.signature, sizeof(receiver.signature), "%s", sign);
	receiver.body[0] = '\0';
	map_set(receiver.ids, id,
		(void *)((uintptr_t)map_get(receiver.ids, id) + 1));
	http_stream_handle(s, &h, NULL);
}

static void receiver_start(void)
{
	static const struct http_conn_ops ops = { .on_request = on_request };
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK(bind(fd, (struct sockaddr *)&in, n) == 0 && listen(fd, 64) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&in, &n) == 0);
	memset(&receiver, 0, sizeof(receiver));
	receiver.port = ntohs(in.sin_port);
	receiver.status = 200;
	receiver.ids = map_new();
	receiver.server =
	    http_server_new_take(loop, fd, HTTP_1_1, NULL, &ops, NULL);
}

/* ---- the database ---- */

/* The first column of the first row, allocated; "" if there is none. */
static char *ask(const char *sql)
{
	PGresult *res = PQexec(pg, sql);
	char *s;

	if (PQresultStatus(res) != PGRES_TUPLES_OK &&
	    PQresultStatus(res) != PGRES_COMMAND_OK)
		test_fail(__FILE__, __LINE__, "%s", PQerrorMessage(pg));
	s = xstrdup(PQntuples(res) ? PQgetvalue(res, 0, 0) : "");
	PQclear(res);
	return s;
}

static void run(const char *sql)
{
	free(ask(sql));
}

static int64_t number(const char *sql)
{
	owned_str s = ask(sql);

	return strtoll(s, NULL, 10);
}

static bool spin_until(const char *sql, int64_t want)
{
	for (int i = 0; i < 1500; i++) {
		if (number(sql) == want)
			return true;
		for (int k = 0; k < 4; k++)
			loop_once(loop, 10);
	}
	return false;
}

static void spin(int ms)
{
	uint64_t end = now_mono_us() + (uint64_t)ms * 1000;

	while (now_mono_us() < end)
		loop_once(loop, 5);
}

static char *box_of(const char *id, const char *secret)
{
	uint8_t key[SEAL_KEY], box[64 + SEAL_OVERHEAD];
	char hex[2 * sizeof(box) + 1];
	owned_str k = ask("SELECT caisson.webhook_key()");

	CHECK(text_unhex(k, sizeof(key), key));
	seal(key, id, secret, strlen(secret), box);
	text_hex(box, strlen(secret) + SEAL_OVERHEAD, hex);
	return xasprintf("'\\x%s'::bytea", hex);
}

static void add_hook(const char *id, const char *url, const char *labels)
{
	owned_str a = box_of(id, SECRET);
	owned_str b = box_of(id, OLD);
	owned_str sql = xasprintf(
	    "INSERT INTO caisson.webhooks (id, tenant, project, url, types, "
	    "labels, secrets, after_xid, after_seq, created_by) SELECT '%s', "
	    "p.tenant, p.id, '%s', '{test.*}', %s, ARRAY[%s, %s], n.xid::xid8, "
	    "n.seq, 'test' FROM caisson.projects p, "
	    "caisson.events_newest(NULL, true) n",
	    id, url, labels, a, b);

	run(sql);
}

static void add_events(int n)
{
	owned_str sql = xasprintf(
	    "SELECT caisson.event_add(p.tenant, p.id, 'test.x', NULL, NULL, "
	    "'t', NULL, jsonb_build_object('i', i)) FROM caisson.projects p, "
	    "generate_series(1, %d) i",
	    n);

	run(sql);
}

/* ---- up and down ---- */

static struct addr_net loopback;

static void controller_up(bool allow)
{
	struct controller_conf conf = { .run = test_tmpdir(), .db = conninfo };

	CHECK(addr_net_parse("127.0.0.0/8", 11, &loopback));
	if (allow) {
		conf.webhook_allow = &loopback;
		conf.n_webhook_allow = 1;
	}
	T_INT(controller_start(&ctl[n_ctl++], loop, &conf, NULL, NULL), 0);
}

static void controllers_down(void)
{
	while (n_ctl > 0)
		controller_stop(&ctl[--n_ctl]);
}

static void up(void)
{
	static bool migrated;

	snprintf(conninfo, sizeof(conninfo), "%s user=caisson_controller",
		 test_cluster());
	if (!migrated) {
		test_cluster_migrate(CAISSON_SQL);
		test_cluster_sql("SELECT caisson.bootstrap('t', 'p', 'k', "
				 "'admin', 'e2b_xxxxxxxx', repeat('ab', 32))");
		migrated = true;
	}
	pg = PQconnectdb(test_cluster());
	run("TRUNCATE caisson.webhooks, caisson.webhook_deliveries, "
	    "caisson.events");
	loop = loop_new();
	receiver_start();
}

static void down(void)
{
	controllers_down();
	http_server_free(receiver.server);
	map_free(receiver.ids);
	PQfinish(pg);
	loop = loop_free(loop);
}

static char *url_of(const char *host)
{
	return xasprintf("http://%s:%d/hook", host, receiver.port);
}

#define PENDING                                                                \
	"SELECT count(*) FROM caisson.webhook_deliveries WHERE "               \
	"state = 'pending'"
#define DELIVERED                                                              \
	"SELECT count(*) FROM caisson.webhook_deliveries WHERE "               \
	"state = 'delivered'"

/* ---- delivery ---- */

static void verify(const char *secret)
{
	char *comma = strchr(receiver.signature, ',');
	owned_str text = NULL;
	uint8_t mac[DIGEST_BYTES];
	char hex[DIGEST_HEX];

	T_TRUE(strncmp(receiver.signature, "t=", 2) == 0 && comma != NULL);
	text = xasprintf("%.*s.%s", (int)(comma - receiver.signature - 2),
			 receiver.signature + 2, receiver.body);
	digest_hmac(secret, strlen(secret), text, strlen(text), mac);
	text_hex(mac, sizeof(mac), hex);
	T_HAS(receiver.signature, hex);
}

TEST(an_event_arrives_signed_under_both_secrets)
{
	owned_str url = NULL;

	up();
	url = url_of("127.0.0.1");
	add_hook("whk_a", url, "NULL");
	controller_up(true);
	add_events(1);
	T_TRUE(spin_until(DELIVERED, 1));
	T_INT(receiver.got, 1);
	verify(SECRET);
	verify(OLD);
	T_HAS(receiver.body, "\"type\" : \"test.x\"");
	T_HAS(receiver.body, "\"cursor\" : \"e");
	down();
}

TEST(what_fails_is_tried_again_later_and_then_given_up_with_an_event)
{
	owned_str url = NULL;

	up();
	url = url_of("127.0.0.1");
	add_hook("whk_a", url, "NULL");
	receiver.status = 500;
	controller_up(true);
	add_events(1);
	T_TRUE(spin_until("SELECT count(*) FROM caisson.webhook_deliveries "
			  "WHERE status = 500 AND state = 'pending' AND "
			  "next_at > now() + interval '1 s'",
			  1));
	run("UPDATE caisson.webhook_deliveries SET next_at = now(), begun_at = "
	    "now() - interval '3 days 1 s'");
	T_TRUE(spin_until("SELECT count(*) FROM caisson.webhooks WHERE state = "
			  "'disabled' AND reason LIKE '%status 500%'",
			  1));
	T_INT(number("SELECT count(*) FROM caisson.events WHERE type = "
		     "'webhook.disabled'"),
	      1);
	T_INT(receiver.got, 2);
	down();
}

TEST(a_try_that_works_the_second_time_is_done)
{
	owned_str url = NULL;

	up();
	url = url_of("127.0.0.1");
	add_hook("whk_a", url, "NULL");
	receiver.status = 503;
	controller_up(true);
	add_events(1);
	T_TRUE(spin_until("SELECT count(*) FROM caisson.webhook_deliveries "
			  "WHERE status = 503",
			  1));
	receiver.status = 204;
	run("UPDATE caisson.webhook_deliveries SET next_at = now()");
	T_TRUE(spin_until(DELIVERED, 1));
	T_INT(number("SELECT attempts FROM caisson.webhook_deliveries"), 2);
	T_INT(number("SELECT count(*) FROM caisson.webhooks WHERE state = "
		     "'active'"),
	      1);
	down();
}

TEST(two_controllers_deliver_each_event_once)
{
	owned_str url = NULL;
	const char *key;
	size_t pos = 0;
	void *times;

	up();
	url = url_of("127.0.0.1");
	add_hook("whk_a", url, "NULL");
	add_hook("whk_b", url, "NULL");
	add_hook("whk_c", url, "NULL");
	controller_up(true);
	controller_up(true);
	add_events(40);
	T_TRUE(spin_until(DELIVERED, 120));
	spin(1500);
	T_INT(receiver.got, 120);
	while (map_next(receiver.ids, &pos, &key, &times))
		T_INT((uintptr_t)times, 1);
	/* one at a time each, so in order */
	T_INT(
	    number("SELECT count(*) FROM caisson.webhook_deliveries a JOIN "
		   "caisson.webhook_deliveries b ON a.webhook = b.webhook AND "
		   "a.seq < b.seq AND a.finished_at > b.finished_at"),
	    0);
	down();
}

TEST(what_a_dead_controller_had_in_hand_is_delivered_by_the_next)
{
	owned_str url = NULL;

	up();
	url = url_of("127.0.0.1");
	add_hook("whk_a", url, "NULL");
	receiver.status = 0;
	controller_up(true);
	add_events(1);
	for (int i = 0; i < 1000 && !receiver.got; i++)
		loop_once(loop, 10);
	T_INT(receiver.got, 1);
	controllers_down(); /* before the answer */
	T_INT(number(PENDING), 1);
	receiver.status = 200;
	controller_up(true);
	spin(1500);
	T_INT(receiver.got, 1); /* its lease still runs */
	run("UPDATE caisson.webhook_deliveries SET lease_until = now()");
	T_TRUE(spin_until(DELIVERED, 1));
	T_INT(receiver.got, 2);
	T_INT(map_len(receiver.ids), 1); /* the receiver can tell by the id */
	down();
}

/* ---- the guard ---- */

static void refused(const char *host, bool allow, const char *why)
{
	owned_str url = NULL;
	owned_str sql = NULL;

	up();
	url = url_of(host);
	add_hook("whk_a", url, "NULL");
	controller_up(allow);
	add_events(1);
	sql = xasprintf("SELECT count(*) FROM caisson.webhook_deliveries WHERE "
			"state = 'pending' AND status IS NULL AND error LIKE "
			"'%%%s%%'",
			why);
	T_TRUE(spin_until(sql, 1));
	T_INT(receiver.got, 0);
	down();
}

TEST(an_address_inside_is_not_connected_to)
{
	refused("127.0.0.1", false, "loopback");
}

TEST(a_name_that_resolves_inside_is_not_connected_to)
{
	refused("localhost", false, "loopback");
}

TEST(odd_spellings_come_to_the_same_verdict_at_the_socket)
{
	refused("2130706433", false, "loopback");
	refused("0x7f.1", false, "loopback");
	refused("[::ffff:127.0.0.1]", true, "IPv4 inside IPv6");
}

TEST(a_redirect_is_an_answer_and_not_followed)
{
	owned_str url = NULL;

	up();
	url = url_of("127.0.0.1");
	receiver.status = 302;
	receiver.location = url;
	add_hook("whk_a", url, "NULL");
	controller_up(true);
	add_events(1);
	T_TRUE(spin_until("SELECT count(*) FROM caisson.webhook_deliveries "
			  "WHERE status = 302 AND state = 'pending'",
			  1));
	T_INT(receiver.got, 1);
	down();
}

TEST(other_protocols_than_http_are_not_spoken)
{
	up();
	add_hook("whk_a", "file:///etc/passwd", "NULL");
	add_hook("whk_b", "gopher://127.0.0.1:1/", "NULL");
	controller_up(true);
	add_events(1);
	T_TRUE(spin_until("SELECT count(*) FROM caisson.webhook_deliveries "
			  "WHERE state = 'pending' AND error ILIKE "
			  "'%protocol%'",
			  2));
	down();
}

TEST(labels_and_disabled_webhooks_hold_events_back)
{
	owned_str url = NULL;

	up();
	url = url_of("127.0.0.1");
	add_hook("whk_a", url, "'{\"team\":\"web\"}'");
	add_hook("whk_b", url, "NULL");
	run("UPDATE caisson.webhooks SET state = 'disabled' WHERE id = "
	    "'whk_b'");
	controller_up(true);
	add_events(3);
	spin(2000);
	T_INT(receiver.got, 0);
	T_INT(number("SELECT count(*) FROM caisson.webhook_deliveries"), 0);
	down();
}

TEST(the_signature_is_what_the_documentation_says)
{
	struct hook_post p = { .body = "{}", .n_secrets = 1 };
	char text[HOOK_SIGNATURE];

	snprintf(p.secrets[0], sizeof(p.secrets[0]), "key");
	hook_signature(&p, 1, text);
	/* printf '1.{}' | openssl dgst -sha256 -hmac key */
	T_STR(
	    text,
	    "t=1,v1="
	    "1ba6b8171186efc613e8bcc0cbdab2748f24984d7c5a84faa2637afa0e40d224");
}
