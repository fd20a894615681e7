/* SPDX-License-Identifier: Apache-2.0 */
#include "api/req.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "api/auth.h"
#include "api/h-audit-queue.h"
#include "api/host.h"
#include "api/idem.h"
#include "api/limit.h"
#include "api/preview.h"
#include "api/stats.h"
#include "api/url.h"
#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"
#include "tls/digest.h"

#define BODY_MS 30000u /* for a client to send its JSON */

/* ---- life ---- */

struct req *req_ref(struct req *r)
{
	r->refs++;
	return r;
}

void req_unref(struct req *r)
{
	CHECK(r->refs > 0);
	if (--r->refs > 0)
		return;
	CHECK(!r->stream);
	if (r->drop)
		r->drop(r);
	loop_timer_del(&r->timer);
	loop_timer_del(&r->exp_timer);
	auth_watch_del(&r->watch);
	idem_fini(r);
	list_del(&r->link);
	buf_fini(&r->body);
	json_decref(r->json);
	free(r);
}

static void log_request(const struct req *r)
{
	double ms = (double)(now_mono_us() - r->start_us) / 1000.0;

	stats_request(r->status, ms / 1000.0);
	log_set_trace(r->trace);
	log_info("request", "id=%s route=%s status=%d ms=%.1f", r->id,
		 r->route ? r->route->path : "-", r->status, ms);
	log_set_trace(NULL);
}

static void on_stream_close(struct http_stream *s, const struct err *e)
{
	struct req *r = http_stream_owner(s);

	(void)e;
	r->stream = NULL;
	loop_timer_del(&r->timer);
	loop_timer_del(&r->exp_timer);
	auth_watch_del(&r->watch);
	log_request(r);
	if (r->on_close)
		r->on_close(r);
	req_unref(r);
}

struct http_stream *req_detach(struct req *r, int status)
{
	struct http_stream *s = r->stream;

	r->replied = true;
	r->status = status;
	r->stream = NULL;
	loop_timer_del(&r->timer);
	log_request(r);
	req_unref(r);
	return s;
}

/* ---- reading the request ---- */

const char *req_param(const struct req *r, const char *name)
{
	return route_param(&r->params, name);
}

const char *req_header(const struct req *r, const char *name)
{
	return r->stream ? http_head_get(http_stream_head(r->stream), name)
			 : NULL;
}

const char *req_path(const struct req *r)
{
	return r->stream ? http_stream_head(r->stream)->path : "";
}

void req_peer(const struct req *r, char ret[REQ_PEER])
{
	struct sockaddr_storage sa = { 0 };
	socklen_t n = sizeof(sa);
	const void *ip = NULL;
	int fd = r->stream ? http_conn_fd(http_stream_conn(r->stream)) : -1;

	snprintf(ret, REQ_PEER, "-");
	if (fd < 0 || getpeername(fd, (struct sockaddr *)&sa, &n) < 0)
		return;
	if (sa.ss_family == AF_INET)
		ip = &((struct sockaddr_in *)&sa)->sin_addr;
	else if (sa.ss_family == AF_INET6)
		ip = &((struct sockaddr_in6 *)&sa)->sin6_addr;
	if (!ip || !inet_ntop(sa.ss_family, ip, ret, REQ_PEER))
		snprintf(ret, REQ_PEER, "-");
}

char *req_query(const struct req *r, const char *name)
{
	return http_query_get(req_path(r), name);
}

static void field_fault(struct req *r, const char *code, const char *name,
			const char *message)
{
	struct fault f;

	fault_set(&f, code, "request", "GET /v1/openapi.json describes it",
		  "%s: %s", name, message);
	snprintf(f.field, sizeof(f.field), "%s", name);
	req_fault(r, &f);
}

bool req_query_int(struct req *r, const char *name, int64_t min, int64_t max,
		   int64_t missing, int64_t *ret)
{
	owned_str text = req_query(r, name);
	char why[96], *end = NULL;
	long long v;

	*ret = missing;
	if (!text)
		return true;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (!errno && *text && !*end && isdigit((unsigned char)text[0]) &&
	    v >= min && v <= max) {
		*ret = v;
		return true;
	}
	snprintf(why, sizeof(why),
		 "expected an integer from %" PRId64 " to %" PRId64, min, max);
	field_fault(r, "invalid_field", name, why);
	return false;
}

bool req_idem(struct req *r, const char **ret_key)
{
	const char *key = req_header(r, "idempotency-key");

	*ret_key = key;
	if (!key)
		return true;
	for (const char *c = key; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			key = "";
	if (*key && strlen(key) <= 128)
		return true;
	field_fault(r, "invalid_field", "Idempotency-Key",
		    "expected 1 to 128 printable characters");
	return false;
}

/* Path and query. How long a client waits does not change what it asks. */
static void hash_target(struct digest *d, const char *path)
{
	size_t n = strcspn(path, "?");

	digest_update(d, path, n);
	while (path[n]) {
		const char *p = path + n + 1;

		n += 1 + strcspn(p, "&");
		if (strncmp(p, "wait_s=", 7) == 0)
			continue;
		digest_update(d, "&", 1);
		digest_update(d, p, (size_t)(path + n - p));
	}
	digest_update(d, "\n", 1);
}

void req_body_hmac(const struct req *r, char ret[65])
{
	uint8_t md[DIGEST_BYTES];
	struct digest *d =
	    digest_hmac_new(r->api->secret, sizeof(r->api->secret));

	hash_target(d, req_path(r));
	if (buf_len(&r->body))
		digest_update(d, r->body.mem + r->body.start,
			      buf_len(&r->body));
	digest_final(d, md);
	digest_free(d);
	text_hex(md, sizeof(md), ret);
}

/* ---- answering ---- */

/* W3C Server-Timing, in milliseconds. */
static void add_timing(const struct req *r, struct http_head *head)
{
	char text[64];

	snprintf(text, sizeof(text), "guest;dur=%llu.%03llu",
		 (unsigned long long)r->guest_us / 1000,
		 (unsigned long long)r->guest_us % 1000);
	http_head_add(head, "server-timing", text);
}

void req_begin(struct req *r, struct http_head *head, bool body)
{
	if (!r->stream || r->replied)
		return;
	r->replied = true;
	r->status = head->status;
	http_head_add(head, "request-id", r->id);
	http_head_add(head, "cache-control", "no-store");
	if (r->replayed)
		http_head_add(head, "idempotent-replayed", "true");
	if (r->guest_us)
		add_timing(r, head);
	http_head_add(head, "x-content-type-options", "nosniff");
	http_stream_respond(r->stream, head, body);
}

static void reply(struct req *r, struct http_head *head, const char *text)
{
	bool head_only =
	    r->stream &&
	    strcmp(http_stream_head(r->stream)->method, "HEAD") == 0;
	size_t n = strlen(text), done;
	char length[24];

	if (!r->stream || r->replied)
		return;
	snprintf(length, sizeof(length), "%zu", n);
	http_head_add(head, "content-length", length);
	req_begin(r, head, n > 0 && !head_only);
	if (n == 0 || head_only)
		return;
	/* a text of ours fits: it is below what a stream takes at once, else
	 * the rest goes out as room comes */
	done = http_stream_write(r->stream, text, n);
	if (done < n) {
		buf_fini(&r->body);
		buf_init(&r->body, 0);
		buf_put(&r->body, text + done, n - done);
		return;
	}
	http_stream_end(r->stream);
}

/* The rest of a long answer. */
static void write_rest(struct req *r)
{
	size_t n = buf_len(&r->body);

	if (!n)
		return;
	buf_consume(&r->body,
		    http_stream_write(r->stream, buf_data(&r->body), n));
	if (!buf_len(&r->body))
		http_stream_end(r->stream);
}

static void reply_text(struct req *r, int status, const char *type,
		       const char *name, const char *value, const char *text)
{
	struct http_head head;

	loop_timer_del(&r->timer);
	http_head_init(&head);
	head.status = status;
	http_head_add(&head, "content-type", type);
	if (name)
		http_head_add(&head, name, value);
	reply(r, &head, text);
	http_head_fini(&head);
}

void req_text(struct req *r, int status, const char *type, const char *text)
{
	reply_text(r, status, type, NULL, NULL, text);
}

void req_json(struct req *r, int status, const char *text)
{
	req_json_with(r, status, NULL, NULL, text);
}

void req_object(struct req *r, int status, const char *generation,
		const char *text)
{
	char etag[32];

	snprintf(etag, sizeof(etag), "\"%.20s\"", generation);
	req_json_with(r, status, "etag", etag, text);
}

void req_json_with(struct req *r, int status, const char *name,
		   const char *value, const char *text)
{
	if (idem_answer(r, &(struct idem_answer){ status, name, value, text }))
		return;
	reply_text(r, status, "application/json", name, value, text);
}

void req_fault(struct req *r, const struct fault *f)
{
	owned_str text = fault_text(f, r->id);
	char after[16];

	if (!r->replied)
		audit_refused(r, f);
	snprintf(after, sizeof(after), "%d", f->retry_after_s);
	req_json_with(r, fault_status(f->code),
		      f->retry_after_s ? "retry-after" : NULL, after, text);
}

char *req_pair(const char *operation, const char *sandbox)
{
	return xasprintf("{\"operation\":%s,\"sandbox\":%s}",
			 operation ? operation : "null",
			 sandbox ? sandbox : "null");
}

/* ---- from head to handler ---- */

static void handle(struct req *r)
{
	r->route->run(r);
}

static void run(struct req *r)
{
	struct err e = { 0 };
	struct fault f;

	loop_timer_del(&r->timer);
	r->reading = false;
	if (r->route->request &&
	    json_parse(buf_data(&r->body), buf_len(&r->body), &r->json, &e) <
		0) {
		fault_set(&f, "invalid_field", "request",
			  "send one JSON object", "the body: %s", e.msg);
		req_fault(r, &f);
		return;
	}
	idem_begin(r, handle);
}

static void read_body(struct req *r)
{
	const uint8_t *p;
	size_t n = http_stream_peek(r->stream, &p);
	struct fault f;

	if (n && buf_put(&r->body, p, n) < 0) {
		r->reading = false;
		fault_set(&f, "too_large", "request",
			  "files go through the data listener",
			  "the body is larger than %u bytes", REQ_BODY_MAX);
		req_fault(r, &f);
		return;
	}
	http_stream_consume(r->stream, n);
	if (http_stream_eof(r->stream))
		run(r);
}

static void on_body_late(struct loop_timer *t)
{
	struct req *r = container_of(t, struct req, timer);
	struct fault f;

	r->reading = false;
	fault_set(&f, "invalid_field", "request", "send the body at once",
		  "the body did not arrive within %u s", BODY_MS / 1000);
	req_fault(r, &f);
}

static bool query_sound(struct req *r)
{
	owned_str name = url_query_broken(req_path(r));

	if (!name)
		return true;
	field_fault(r,
		    strcmp(name, "after") == 0	? "bad_cursor"
		    : strcmp(name, "path") == 0 ? "bad_path"
						: "invalid_field",
		    "query", "a value has a broken or NUL escape");
	return false;
}

static void cut(struct req *r, const char *reason)
{
	if (r->on_revoked)
		r->on_revoked(r, reason);
	else if (r->stream)
		http_stream_reset(r->stream);
}

static void on_key_dead(struct auth_watch *w)
{
	cut(container_of(w, struct req, watch), "unauthenticated");
}

static void on_token_over(struct loop_timer *t)
{
	cut(container_of(t, struct req, exp_timer), "token_expired");
}

/* What stays open ends with the right to it. */
void req_watch_key(struct req *r)
{
	int64_t left_s = r->who.exp_s - (int64_t)time(NULL);

	auth_watch_add(r->api->auth, &r->watch, &r->who, on_key_dead);
	if (r->who.exp_s)
		loop_timer_set(r->api->loop, &r->exp_timer,
			       (uint64_t)(left_s > 0 ? left_s : 0) * 1000,
			       on_token_over);
}

static bool listed(const char *names, const char *name, size_t n)
{
	while (names && *names) {
		size_t k = strcspn(names, " ");

		if (k == n && strncmp(names, name, n) == 0)
			return true;
		names += k + (names[k] == ' ');
	}
	return false;
}

/* A filter with a slip of the hand must not list everything. */
static bool query_known(struct req *r)
{
	const char *p = strchr(req_path(r), '?');
	char name[64], why[200];
	size_t n;

	if (r->side != SIDE_CONTROL || !p)
		return true;
	for (p++; *p; p += n + (p[n] == '&')) {
		size_t k = strcspn(p, "=&");

		n = strcspn(p, "&");
		if (n == 0 || listed(r->route->query, p, k))
			continue;
		snprintf(name, sizeof(name), "%.*s", k < 63 ? (int)k : 63, p);
		snprintf(why, sizeof(why),
			 "no such query parameter here; there are: %s",
			 r->route->query ? r->route->query : "none");
		field_fault(r, "unknown_field", name, why);
		return false;
	}
	return true;
}

/* A condition that nobody looks at must not be taken for one that holds. */
static bool if_match_fits(struct req *r)
{
	struct fault f;

	if (r->side != SIDE_CONTROL || !req_header(r, "if-match") ||
	    strcmp(r->route->method, "GET") == 0 || route_conditional(r->route))
		return true;
	fault_set(&f, "not_supported", "request", "leave If-Match out",
		  "%s %s takes no If-Match: what it changes has no generation",
		  r->route->method, r->route->path);
	snprintf(f.field, sizeof(f.field), "If-Match");
	req_fault(r, &f);
	return false;
}

/* Calls by key, on the control listener. */
static bool too_fast(struct req *r, struct fault *f)
{
	unsigned wait_s;

	if (!r->api->rate || r->side != SIDE_CONTROL)
		return false;
	wait_s =
	    limit_take(r->api->rate, r->who.key, loop_now_ms(r->api->loop));
	if (!wait_s)
		return false;
	fault_set(f, "rate_limited", "policy",
		  "wait as Retry-After says; wait for an operation with "
		  "wait_s instead of asking again and again",
		  "this key makes more than %u calls a second",
		  r->api->conf.rate_per_s);
	f->retry_after_s = (int)wait_s;
	return true;
}

static void authorised(struct req *r, const struct fault *f)
{
	struct fault no;

	if (!r->stream)
		return;
	if (f) {
		req_fault(r, f);
		return;
	}
	if (r->route->role != ROLE_OPEN &&
	    (!auth_may(&r->who, r->route, &r->params, &no) ||
	     too_fast(r, &no))) {
		req_fault(r, &no);
		return;
	}
	if (r->route->role != ROLE_OPEN)
		req_watch_key(r);
	if (!r->route->run) {
		fault_set(&no, "not_supported", "request",
			  "GET /v1/openapi.json names what this version does",
			  "%s %s is planned and not in this version",
			  r->route->method, r->route->path);
		req_fault(r, &no);
		return;
	}
	if (!query_sound(r) || !query_known(r) || !if_match_fits(r))
		return;
	if (r->route->stream) {
		r->route->run(r);
		return;
	}
	r->reading = true;
	loop_timer_set(r->api->loop, &r->timer, BODY_MS, on_body_late);
	read_body(r);
}

static bool admit(struct req *r, struct fault *f)
{
	const struct http_head *h = http_stream_head(r->stream);
	const struct api_conf *c = &r->api->conf;
	const char *host = h->authority;

	if (!host_allowed(host, c->hosts, c->n_hosts)) {
		fault_set(f, "policy_denied", "policy",
			  "start caisson-api with --host NAME to answer to "
			  "that name",
			  "this server does not answer to the Host it was "
			  "asked by");
		return false;
	}
	if (!origin_allowed(http_head_get(h, "origin"), c->origins,
			    c->n_origins)) {
		fault_set(f, "policy_denied", "policy",
			  "start caisson-api with --origin URL to let that "
			  "page in",
			  "the page that asked (Origin) is not one of this "
			  "server's");
		return false;
	}
	return true;
}

static void not_routed(struct req *r, enum route_result why, const char *allow)
{
	const struct http_head *h = http_stream_head(r->stream);
	struct fault f;
	owned_str text = NULL;

	if (why == ROUTE_METHOD) {
		fault_set(&f, "method_not_allowed", "request",
			  "use one of the methods in Allow",
			  "this path answers %s only", allow);
		text = fault_text(&f, r->id);
		req_json_with(r, 405, "allow", allow, text);
		return;
	}
	if (why == ROUTE_BAD_PATH)
		fault_set(&f, "bad_path", "request",
			  "percent-encode every segment",
			  "the path is malformed or too long");
	else
		fault_set(&f, "not_found", "request",
			  "GET /v1/openapi.json names every path",
			  "no such path on the %s listener",
			  r->side == SIDE_DATA ? "data" : "control");
	(void)h;
	req_fault(r, &f);
}

/* W3C trace context, level 1: version 00 only. */
static void take_trace(struct req *r)
{
	const char *t = req_header(r, "traceparent");
	uint8_t rnd[24];
	char hex[49];

	if (t && strlen(t) == 55 && strncmp(t, "00-", 3) == 0 && t[35] == '-' &&
	    t[52] == '-' && strspn(t + 3, "0123456789abcdef") == 32 &&
	    strspn(t + 36, "0123456789abcdef") == 16 &&
	    strspn(t + 53, "0123456789abcdef") == 2 &&
	    strspn(t + 3, "0") < 32) {
		memcpy(r->traceparent, t, 56);
	} else {
		random_bytes(rnd, sizeof(rnd));
		text_hex(rnd, sizeof(rnd), hex);
		snprintf(r->traceparent, sizeof(r->traceparent),
			 "00-%.32s-%.16s-00", hex, hex + 32);
	}
	snprintf(r->trace, sizeof(r->trace), "%.32s", r->traceparent + 3);
}

static void on_stream_body(struct http_stream *s)
{
	struct req *r = http_stream_owner(s);
	const uint8_t *p;

	if (r->on_body)
		r->on_body(r);
	else if (r->reading)
		read_body(r);
	else if (r->replied) /* answered early: the rest is of no use */
		http_stream_consume(s, http_stream_peek(s, &p));
}

static void on_stream_writable(struct http_stream *s)
{
	struct req *r = http_stream_owner(s);

	if (r->on_writable)
		r->on_writable(r);
	else if (r->replied)
		write_rest(r);
}

static void on_request(struct http_stream *s, struct api *a, enum side side)
{
	static const struct http_handler handler = {
		.on_body = on_stream_body,
		.on_writable = on_stream_writable,
		.on_close = on_stream_close,
	};
	const struct http_head *h = http_stream_head(s);
	struct req *r = xnew(struct req);
	char allow[ROUTE_ALLOW_MAX];
	enum route_result found;
	struct fault f;

	r->api = a;
	r->side = side;
	r->stream = s;
	r->refs = 1; /* the stream's */
	r->start_us = now_mono_us();
	list_add_tail(&a->reqs, &r->link);
	buf_init(&r->body, REQ_BODY_MAX);
	memcpy(r->id, "req_", 4);
	random_id(r->id + 4, 20);
	http_stream_handle(s, &handler, r);
	take_trace(r);
	if (preview_takes(r))
		return;
	if (!admit(r, &f)) {
		req_fault(r, &f);
		return;
	}
	found = route_match(routes, n_routes, side, h->method, h->path,
			    &r->route, &r->params, allow);
	if (found != ROUTE_FOUND)
		not_routed(r, found, allow);
	else if (r->route->role == ROLE_OPEN)
		authorised(r, NULL);
	else
		auth_request(r, authorised);
}

static void on_control(struct http_conn *c, struct http_stream *s)
{
	on_request(s, http_conn_owner(c), SIDE_CONTROL);
}

static void on_data(struct http_conn *c, struct http_stream *s)
{
	on_request(s, http_conn_owner(c), SIDE_DATA);
}

const struct http_conn_ops req_control_ops = { .on_request = on_control };
const struct http_conn_ops req_data_ops = { .on_request = on_data };
