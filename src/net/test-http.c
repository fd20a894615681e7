/* SPDX-License-Identifier: Apache-2.0 */

/* The façade: what must hold whatever the version. */

#include "net/http.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "net/test-peer.h"

#define MIB 1048576ull

BOTH(get_answers_with_head_and_body)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/hello", 0);
	T_WAIT(&p, a.closes && p.app.closed_ok);
	T_INT(a.status, 200);
	T_STR(a.text, "hello");
	T_INT(a.cut, 0);
	T_INT(a.heads, 1);
	T_INT(p.app.closed_err, 0);
	peer_fini(&p);
}

BOTH(request_head_reaches_the_server)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "DELETE", "/a/b?c=%20d", 0);
	T_WAIT(&p, a.closes);
	T_INT(a.status, 404);
	T_STR(p.app.seen.method, "DELETE");
	T_STR(p.app.seen.path, "/a/b?c=%20d");
	T_STR(p.app.seen.authority, "caisson.test");
	T_STR(http_head_get(&p.app.seen, "x-test"), "a value");
	T_TRUE(!http_head_get(&p.app.seen, "host"));
	peer_fini(&p);
}

BOTH(empty_request_body_ends_once)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/sink", 0);
	T_WAIT(&p, a.closes);
	T_STR(a.text, "0");
	T_INT(p.app.bodies, 1);
	peer_fini(&p);
}

BOTH(request_body_reaches_the_server)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "POST", "/sink", 12345);
	T_WAIT(&p, a.closes);
	T_STR(a.text, "12345");
	peer_fini(&p);
}

BOTH(head_request_gets_no_body)
{
	struct peer p;
	struct ask a = { 0 }, b = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "HEAD", "/hello", 0);
	T_WAIT(&p, a.closes);
	T_INT(a.status, 200);
	T_INT(a.got, 0);
	T_INT(a.cut, 0);
	T_INT(a.bodies, 1); /* its end */
	/* and the connection is still in step */
	ask_start(&p, &b, "GET", "/hello", 0);
	T_WAIT(&p, b.closes);
	T_STR(b.text, "hello");
	peer_fini(&p);
}

BOTH(streamed_answer_to_head_is_swallowed)
{
	struct peer p;
	struct ask a = { 0 }, b = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "HEAD", "/big?n=100000", 0);
	T_WAIT(&p, a.closes);
	T_INT(a.got, 0);
	ask_start(&p, &b, "GET", "/hello", 0);
	T_WAIT(&p, b.closes);
	T_STR(b.text, "hello");
	peer_fini(&p);
}

BOTH(no_content_has_no_body)
{
	struct peer p;
	struct ask a = { 0 }, b = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "POST", "/204", 10);
	T_WAIT(&p, a.closes);
	T_INT(a.status, 204);
	ask_start(&p, &b, "GET", "/hello", 0);
	T_WAIT(&p, b.closes);
	T_STR(b.text, "hello");
	peer_fini(&p);
}

BOTH(big_response_arrives_unharmed)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/big?n=20000000", 0);
	T_WAIT(&p, a.closes);
	T_INT(a.got, 20000000);
	T_INT(a.bad, 0);
	T_INT(a.cut, 0);
	T_INT(p.app.nested, 0);
	peer_fini(&p);
}

BOTH(big_request_arrives_unharmed)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "PUT", "/sink", 20000000);
	T_WAIT(&p, a.closes);
	T_STR(a.text, "20000000");
	T_TRUE(a.writables > 0);
	peer_fini(&p);
}

BOTH(echo_carries_both_directions_at_once)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "POST", "/echo", 8 * MIB);
	T_WAIT(&p, a.closes);
	T_INT(a.got, 8 * MIB);
	T_INT(a.bad, 0);
	T_INT(p.app.nested, 0);
	peer_fini(&p);
}

BOTH(reply_may_be_larger_than_the_queue)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/long", 0);
	T_WAIT(&p, a.closes);
	T_INT(a.got, 3 * HTTP_OUT_MAX);
	T_INT(a.bad, 0);
	peer_fini(&p);
}

/* What a stopped reader leaves in buffers: the stream's two queues, the
 * connection's, and (HTTP/1) the raw buffer and both sockets' buffers. */
#define HELD_MAX (HTTP_OUT_MAX + HTTP_IN_MAX + 16 * 65536)

BOTH(a_stopped_client_stops_the_server)
{
	struct peer p;
	struct ask a = { .stop_reading = true };
	uint64_t held;

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/big?n=50000000", 0);
	T_WAIT(&p, a.heads);
	peer_spin(&p, 200);
	held = p.app.accepted;
	T_TRUE(held < HELD_MAX);
	peer_spin(&p, 50);
	T_INT(p.app.accepted, held);

	ask_resume(&a);
	T_WAIT(&p, a.closes);
	T_INT(a.got, 50000000);
	T_INT(a.bad, 0);
	peer_fini(&p);
}

BOTH(a_stopped_server_stops_the_client)
{
	struct peer p;
	struct ask a = { 0 };
	uint64_t held;

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "POST", "/stuck", 50000000);
	T_WAIT(&p, p.app.stuck);
	peer_spin(&p, 200);
	held = a.sent;
	T_TRUE(held < HELD_MAX);
	peer_spin(&p, 50);
	T_INT(a.sent, held);
	peer_fini(&p);
	T_INT(a.closes, 1);
}

/* ---- who ends what ---- */

BOTH(promising_more_than_is_sent_cuts)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/short", 0);
	T_WAIT(&p, a.closes && p.app.closed_err);
	T_INT(a.cut, 1);
	peer_fini(&p);
}

BOTH(sending_more_than_promised_cuts)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/over", 0);
	T_WAIT(&p, a.closes && p.app.closed_err);
	T_INT(a.cut, 1);
	peer_fini(&p);
}

BOTH(no_handler_is_answered_500)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/none", 0);
	T_WAIT(&p, a.closes);
	T_INT(a.status, 500);
	peer_fini(&p);
}

BOTH(early_answer_does_not_wait_for_the_body)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "POST", "/early", 5000000);
	T_WAIT(&p, a.closes && p.app.closed_ok);
	T_INT(a.status, 413);
	T_INT(a.cut, 0);
	T_INT(p.app.closed_err, 0);
	peer_fini(&p);
}

BOTH(client_reset_reaches_the_server)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/stuck", 0);
	T_WAIT(&p, p.app.stuck);
	http_stream_reset(a.s);
	T_INT(a.closes, 0); /* from the loop, not from within the call */
	T_WAIT(&p, a.closes && p.app.closed_err);
	T_INT(a.cut, 1);
	T_INT(a.e.kind, ERR_UNAVAILABLE);
	T_INT(p.app.closed_ok, 0);
	peer_fini(&p);
}

BOTH(server_reset_reaches_the_client)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/reset", 0);
	T_WAIT(&p, a.closes && p.app.closed_err);
	T_INT(a.cut, 1);
	T_INT(a.heads, 0);
	T_INT(p.app.nested, 0);
	peer_fini(&p);
}

BOTH(reset_from_on_body)
{
	struct peer p;
	struct ask a = { .reset_on_body = true };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/big?n=9000000", 0);
	T_WAIT(&p, a.closes && p.app.closed_err);
	T_INT(a.bodies, 1);
	peer_fini(&p);
	T_INT(a.closes, 1);
}

BOTH(reset_twice_closes_once)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/stuck", 0);
	T_WAIT(&p, p.app.stuck);
	http_stream_reset(a.s);
	http_stream_reset(a.s);
	T_WAIT(&p, a.closes);
	peer_spin(&p, 5);
	peer_fini(&p);
	T_INT(a.closes, 1);
}

BOTH(calls_after_a_reset_are_harmless)
{
	struct peer p;
	struct ask a = { 0 };
	const uint8_t *mem;

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "POST", "/stuck", 1000000);
	T_WAIT(&p, p.app.stuck);
	http_stream_reset(a.s);
	T_INT(http_stream_write(a.s, "x", 1), 1);
	T_INT(http_stream_room(a.s), HTTP_OUT_MAX);
	T_INT(http_stream_peek(a.s, &mem), 0);
	http_stream_consume(a.s, 0);
	T_INT(http_stream_eof(a.s), 0);
	http_stream_end(a.s);
	T_WAIT(&p, a.closes);
	peer_fini(&p);
}

BOTH(writes_after_the_peer_left_are_swallowed)
{
	struct peer p;
	struct ask a = { 0 };
	struct http_stream *s;

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/stuck", 0);
	T_WAIT(&p, p.app.stuck);
	p.client = http_conn_free(p.client);
	T_INT(a.closes, 1);
	s = p.app.stuck;
	http_stream_respond(s, &(const struct http_head){ .status = 200 },
			    true);
	T_INT(http_stream_write(s, "hello", 5), 5);
	T_WAIT(&p, p.app.closed_err);
	peer_fini(&p);
}

BOTH(connection_freed_in_on_head)
{
	struct peer p;
	struct ask a = { .free_on_head = true };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/big?n=9000000", 0);
	T_WAIT(&p, a.closes && p.app.closed_err);
	T_INT(a.bodies, 0);
	T_INT(a.cut, 1);
	T_INT(p.client_closed, 0); /* not told what he did himself */
	peer_fini(&p);
}

BOTH(connection_freed_in_on_body)
{
	struct peer p;
	struct ask a = { .free_on_body = true };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/big?n=9000000", 0);
	T_WAIT(&p, a.closes && p.app.closed_err);
	T_INT(a.bodies, 1);
	T_INT(a.closes, 1);
	peer_fini(&p);
}

BOTH(connection_freed_in_on_close)
{
	struct peer p;
	struct ask a = { .free_on_close = true };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/hello", 0);
	T_WAIT(&p, a.closes && p.app.closed_ok);
	T_INT(a.cut, 0);
	T_TRUE(!p.client);
	peer_fini(&p);
	T_INT(a.closes, 1);
}

BOTH(connection_freed_in_on_request)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/free", 0);
	T_WAIT(&p, a.closes && p.client_closed);
	T_INT(a.cut, 1);
	T_INT(p.app.closed_err, 1);
	T_INT(p.server_closed, 0);
	peer_fini(&p);
}

BOTH(freeing_a_connection_cuts_its_streams_at_once)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/stuck", 0);
	T_WAIT(&p, p.app.stuck);
	p.client = http_conn_free(p.client);
	T_INT(a.closes, 1);
	T_INT(a.cut, 1);
	T_INT(a.e.kind, ERR_UNAVAILABLE);
	peer_fini(&p);
}

BOTH(server_gone_cuts_streams_and_connection)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/stuck", 0);
	T_WAIT(&p, p.app.stuck);
	p.server = http_conn_free(p.server);
	T_WAIT(&p, p.client_closed);
	T_INT(a.closes, 1);
	T_INT(a.cut, 1);
	T_INT(a.e.kind, ERR_UNAVAILABLE);
	T_TRUE(p.client_err.code < 0);
	peer_fini(&p);
}

BOTH(client_gone_cuts_a_stuck_request)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/stuck", 0);
	T_WAIT(&p, p.app.stuck);
	p.client = http_conn_free(p.client);
	T_WAIT(&p, p.server_closed);
	T_INT(p.app.closed_err, 1);
	peer_fini(&p);
}

BOTH(idle_peer_leaving_is_no_error)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/hello", 0);
	T_WAIT(&p, a.closes && p.app.closed_ok);
	p.server = http_conn_free(p.server);
	T_WAIT(&p, p.client_closed);
	T_INT(p.client_err.code, 0);
	peer_fini(&p);
}

BOTH(answer_survives_the_connection)
{
	struct peer p;
	struct ask a = { .stop_reading = true };

	/* complete in the client's buffer, then the server goes */
	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/hello", 0);
	T_WAIT(&p, a.bodies && p.app.closed_ok);
	p.server = http_conn_free(p.server);
	peer_spin(&p, 20);
	T_INT(a.closes, 0);
	T_INT(p.client_closed, 0);
	ask_resume(&a);
	T_WAIT(&p, a.closes);
	T_STR(a.text, "hello");
	T_INT(a.cut, 0);
	T_WAIT(&p, p.client_closed);
	peer_fini(&p);
}

/* ---- draining and timeouts ---- */

BOTH(draining_client_finishes_what_is_open)
{
	struct peer p;
	struct ask a = { 0 }, b = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/stuck", 0);
	T_WAIT(&p, p.app.stuck);
	http_conn_drain(p.client);
	ask_start(&p, &b, "GET", "/hello", 0);
	T_TRUE(!b.s);
	T_INT(b.e.kind, ERR_UNAVAILABLE);
	peer_spin(&p, 5);
	T_INT(a.closes, 0);
	app_unstick(&p);
	T_WAIT(&p, p.client_closed);
	T_STR(a.text, "hello");
	T_INT(a.cut, 0);
	T_INT(p.client_err.code, 0);
	T_INT(p.app.nested, 0);
	peer_fini(&p);
}

BOTH(draining_server_finishes_what_is_open)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/stuck", 0);
	T_WAIT(&p, p.app.stuck);
	http_conn_drain(p.server);
	peer_spin(&p, 5);
	T_INT(a.closes, 0);
	app_unstick(&p);
	T_WAIT(&p, p.client_closed && p.server_closed);
	T_STR(a.text, "hello");
	T_INT(a.cut, 0);
	T_INT(p.server_err.code, 0);
	peer_fini(&p);
}

BOTH(draining_an_idle_connection_closes_it)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/hello", 0);
	T_WAIT(&p, a.closes);
	http_conn_drain(p.server);
	T_INT(p.server_closed, 0);
	T_WAIT(&p, p.client_closed && p.server_closed);
	T_INT(p.client_err.code, 0);
	peer_fini(&p);
}

BOTH(idle_connections_are_closed)
{
	struct http_limits lim = { .idle_timeout_ms = 30 };
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, &lim, NULL);
	ask_start(&p, &a, "GET", "/hello", 0);
	T_WAIT(&p, a.closes);
	T_STR(a.text, "hello");
	T_WAIT(&p, p.client_closed && p.server_closed);
	peer_fini(&p);
}

BOTH(a_slow_answer_is_not_idle)
{
	struct http_limits lim = { .idle_timeout_ms = 30 };
	struct peer p;
	struct ask a = { 0 };
	uint64_t end;

	peer_init(&p, v, &lim, NULL);
	ask_start(&p, &a, "GET", "/stuck", 0);
	T_WAIT(&p, p.app.stuck);
	end = peer_now() + 150;
	T_WAIT(&p, peer_now() > end);
	T_TRUE(p.app.stuck);
	app_unstick(&p);
	T_WAIT(&p, a.closes);
	T_STR(a.text, "hello");
	peer_fini(&p);
}

BOTH(request_on_a_closed_connection_is_unavailable)
{
	struct peer p;
	struct ask a = { .stop_reading = true }, b = { 0 };

	peer_init(&p, v, NULL, NULL);
	ask_start(&p, &a, "GET", "/hello", 0);
	T_WAIT(&p, a.bodies && p.app.closed_ok);
	p.server = http_conn_free(p.server);
	peer_spin(&p, 20);
	ask_start(&p, &b, "GET", "/hello", 0);
	T_TRUE(!b.s);
	T_INT(b.e.kind, ERR_UNAVAILABLE);
	peer_fini(&p);
}

BOTH(malformed_requests_are_not_sent)
{
	static const char *const bad[] = { "hello",   "/a b", "",
					   "/a\r\nb", "/a#b", "http://x/" };
	struct peer p;

	peer_init(&p, v, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct ask a = { 0 };

		ask_start(&p, &a, "GET", bad[i], 0);
		T_TRUE(!a.s);
		T_INT(a.e.kind, ERR_INVALID);
	}
	T_INT(http_conn_streams(p.client), 0);
	peer_fini(&p);
}

BOTH(a_thousand_requests_in_a_row)
{
	struct peer p;

	peer_init(&p, v, NULL, NULL);
	for (int i = 0; i < 1000; i++) {
		struct ask a = { 0 };

		ask_start(&p, &a, i % 2 ? "POST" : "GET",
			  i % 2 ? "/echo" : "/hello", i % 2 ? 100 : 0);
		T_WAIT(&p, a.closes);
		T_INT(a.got, i % 2 ? 100 : 5);
	}
	T_INT(http_conn_streams(p.server), 0);
	T_INT(http_conn_streams(p.client), 0);
	peer_fini(&p);
}

TEST(a_connection_nobody_uses_can_be_freed)
{
	struct peer p;

	peer_init(&p, HTTP_2, NULL, NULL);
	peer_fini(&p);
	peer_init(&p, HTTP_1_1, NULL, NULL);
	peer_spin(&p, 2);
	peer_fini(&p);
}
