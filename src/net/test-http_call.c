/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http.h"

#include <string.h>

#include "base/own.h"
#include "net/test-peer.h"

struct result {
	unsigned n;
	int status;
	char text[64];
	size_t size;
	struct err e;
	struct peer *free_client;
};

static void on_result(void *arg, int status, const char *body, size_t n,
		      const struct err *e)
{
	struct result *r = arg;

	r->n++;
	r->status = status;
	r->size = n;
	if (e)
		r->e = *e;
	else if (n < sizeof(r->text))
		memcpy(r->text, body, n);
	if (r->free_client)
		r->free_client->client = http_conn_free(r->free_client->client);
}

BOTH(call_returns_status_and_body)
{
	struct peer p;
	struct result r = { 0 };
	struct err e = { 0 };

	peer_init(&p, v, NULL, NULL);
	T_INT(http_call(p.client, "GET", "/hello", NULL, 100, 10000, on_result,
			&r, &e),
	      0);
	T_INT(r.n, 0);
	T_WAIT(&p, r.n);
	T_INT(r.status, 200);
	T_STR(r.text, "hello");
	peer_spin(&p, 3);
	T_INT(r.n, 1);
	T_INT(http_conn_streams(p.client), 0);
	peer_fini(&p);
}

BOTH(call_sends_json)
{
	struct peer p;
	struct result r = { 0 };
	struct err e = { 0 };

	peer_init(&p, v, NULL, NULL);
	p.app.collect_max = 100;
	T_INT(http_call(p.client, "POST", "/collect", "{\"a\":1}", 100, 10000,
			on_result, &r, &e),
	      0);
	T_WAIT(&p, r.n);
	T_STR(r.text, "{\"a\":1}");
	T_STR(http_head_get(&p.app.seen, "content-type"), "application/json");
	T_INT(http_head_length(&p.app.seen), 7);
	peer_fini(&p);
}

BOTH(call_times_out)
{
	struct peer p;
	struct result r = { 0 };
	struct err e = { 0 };

	peer_init(&p, v, NULL, NULL);
	T_INT(http_call(p.client, "GET", "/stuck", NULL, 100, 30, on_result, &r,
			&e),
	      0);
	T_WAIT(&p, r.n && p.app.closed_err);
	T_INT(r.status, 0);
	T_INT(r.e.kind, ERR_TIMEOUT);
	T_HAS(r.e.msg, "30 ms");
	peer_fini(&p);
	T_INT(r.n, 1);
}

BOTH(call_refuses_a_larger_answer)
{
	struct peer p;
	struct result r = { 0 };
	struct err e = { 0 };

	peer_init(&p, v, NULL, NULL);
	T_INT(http_call(p.client, "GET", "/big?n=1000000", NULL, 4096, 10000,
			on_result, &r, &e),
	      0);
	T_WAIT(&p, r.n);
	T_INT(r.status, 0);
	T_INT(r.e.kind, ERR_EXHAUSTED);
	T_HAS(r.e.msg, "4096");
	peer_fini(&p);
	T_INT(r.n, 1);
}

BOTH(call_fits_exactly)
{
	struct peer p;
	struct result r = { 0 };
	struct err e = { 0 };

	peer_init(&p, v, NULL, NULL);
	T_INT(http_call(p.client, "GET", "/big?n=200000", NULL, 200000, 10000,
			on_result, &r, &e),
	      0);
	T_WAIT(&p, r.n);
	T_INT(r.status, 200);
	T_INT(r.size, 200000);
	peer_fini(&p);
}

BOTH(call_of_a_dead_server_fails)
{
	struct peer p;
	struct result r = { 0 };
	struct err e = { 0 };

	peer_init(&p, v, NULL, NULL);
	T_INT(http_call(p.client, "GET", "/stuck", NULL, 100, 10000, on_result,
			&r, &e),
	      0);
	T_WAIT(&p, p.app.stuck);
	p.server = http_conn_free(p.server);
	T_WAIT(&p, r.n);
	T_INT(r.status, 0);
	T_INT(r.e.kind, ERR_UNAVAILABLE);
	peer_fini(&p);
	T_INT(r.n, 1);
}

BOTH(freeing_the_connection_ends_the_call)
{
	struct peer p;
	struct result r = { 0 };
	struct err e = { 0 };

	peer_init(&p, v, NULL, NULL);
	T_INT(http_call(p.client, "GET", "/stuck", NULL, 100, 10000, on_result,
			&r, &e),
	      0);
	T_WAIT(&p, p.app.stuck);
	p.client = http_conn_free(p.client);
	T_INT(r.n, 1);
	T_INT(r.e.kind, ERR_UNAVAILABLE);
	peer_fini(&p);
}

BOTH(the_connection_may_be_freed_when_the_call_is_done)
{
	struct peer p;
	struct result r = { .free_client = &p };
	struct err e = { 0 };

	peer_init(&p, v, NULL, NULL);
	T_INT(http_call(p.client, "GET", "/hello", NULL, 100, 10000, on_result,
			&r, &e),
	      0);
	T_WAIT(&p, r.n && p.server_closed);
	T_STR(r.text, "hello");
	peer_fini(&p);
	T_INT(r.n, 1);
}

BOTH(call_on_a_draining_connection_is_refused)
{
	struct peer p;
	struct result r = { 0 };
	struct err e = { 0 };

	peer_init(&p, v, NULL, NULL);
	http_conn_drain(p.client);
	T_TRUE(http_call(p.client, "GET", "/hello", NULL, 100, 10000, on_result,
			 &r, &e) < 0);
	T_INT(e.kind, ERR_UNAVAILABLE);
	T_WAIT(&p, p.client_closed);
	T_INT(r.n, 0);
	peer_fini(&p);
}

BOTH(collector_answers_413_to_a_larger_body)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	p.app.collect_max = 1000;
	ask_start(&p, &a, "POST", "/collect", 1001);
	T_WAIT(&p, a.closes);
	T_INT(a.status, 413);
	T_INT(p.app.closed_err, 0);
	peer_fini(&p);
}

BOTH(collector_takes_what_fits)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	p.app.collect_max = 300000;
	ask_start(&p, &a, "POST", "/collect", 300000);
	T_WAIT(&p, a.closes);
	T_INT(a.status, 200);
	T_INT(a.got, 300000);
	T_INT(a.bad, 0);
	peer_fini(&p);
}

BOTH(collector_of_nothing)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	p.app.collect_max = 0;
	ask_start(&p, &a, "GET", "/collect", 0);
	T_WAIT(&p, a.closes);
	T_INT(a.status, 200);
	T_INT(a.got, 0);
	peer_fini(&p);
}

BOTH(collector_is_told_of_a_cut)
{
	struct peer p;
	struct ask a = { 0 };

	peer_init(&p, v, NULL, NULL);
	p.app.collect_max = 10000000;
	ask_start(&p, &a, "POST", "/collect", 9000000);
	T_WAIT(&p, p.app.requests);
	p.client = http_conn_free(p.client);
	T_WAIT(&p, p.app.closed_err);
	peer_fini(&p);
}
