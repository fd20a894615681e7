/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opening a WebSocket. The SHA-1 of the handshake is libcrypto's: it proves
 * nothing but that the other side speaks the protocol, still a digest of our
 * own would be one more thing to check. These files are a library of their own
 * beside net, so that what must not carry libcrypto (guestd, the monitor) does
 * not.
 */

#include <errno.h>
#include <openssl/sha.h>
#include <string.h>
#include <strings.h>

#include "base/own.h"
#include "base/text.h"
#include "net/http1.h"
#include "net/ws_int.h"

#define REFUSAL_MAX 65536u /* body of a refused opening */

uint64_t ws_open_ms = 30000;

void ws_accept_key(const char *key, char ret[WS_ACCEPT_LEN + 1])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	uint8_t text[WS_KEY_LEN + sizeof(guid) - 1], sum[SHA_DIGEST_LENGTH];

	CHECK(strlen(key) == WS_KEY_LEN);
	memcpy(text, key, WS_KEY_LEN);
	memcpy(text + WS_KEY_LEN, guid, sizeof(guid) - 1);
	CHECK(SHA1(text, sizeof(text), sum));
	text_base64(sum, sizeof(sum), ret);
}

static bool key_valid(const char *key)
{
	uint8_t bytes[18];

	return key && strlen(key) == WS_KEY_LEN &&
	       text_unbase64(key, WS_KEY_LEN, bytes) == 16;
}

static unsigned count_fields(const struct http_head *h, const char *name)
{
	unsigned n = 0;

	for (size_t i = 0; i < h->n_fields; i++)
		n += !strcmp(h->fields[i].name, name);
	return n;
}

/* ---- subprotocols ---- */

static struct view trim(struct view v)
{
	while (v.n && (*v.p == ' ' || *v.p == '\t')) {
		v.p++;
		v.n--;
	}
	while (v.n && (v.p[v.n - 1] == ' ' || v.p[v.n - 1] == '\t'))
		v.n--;
	return v;
}

/* The next item of a comma-separated list; false at its end. */
static bool next_item(const char **list, struct view *ret)
{
	const char *end;

	if (!**list)
		return false;
	end = strchrnul(*list, ',');
	*ret = trim((struct view){ *list, (size_t)(end - *list) });
	*list = *end ? end + 1 : end;
	return true;
}

/* The first offer that is, or begins with, the word. */
static bool find_offer(const struct http_head *h, const char *word, bool prefix,
		       struct view *ret)
{
	size_t n = strlen(word);

	for (size_t i = 0; i < h->n_fields; i++) {
		const char *list = h->fields[i].value;

		if (strcmp(h->fields[i].name, "sec-websocket-protocol") != 0)
			continue;
		while (next_item(&list, ret)) {
			if (ret->n >= n && !memcmp(ret->p, word, n) &&
			    (prefix || ret->n == n))
				return true;
		}
	}
	return false;
}

bool ws_offers(const struct http_head *request, const char *subprotocol)
{
	struct view v;

	return find_offer(request, subprotocol, false, &v);
}

char *ws_offer_value(const struct http_head *request, const char *prefix)
{
	size_t n = strlen(prefix);
	struct view v;

	if (!find_offer(request, prefix, true, &v))
		return NULL;
	return xstrndup(v.p + n, v.n - n);
}

/* ---- servers ---- */

int ws_server_check(const struct http_stream *s, struct err *e)
{
	const struct http_head *h = http_stream_head(s);
	const char *upgrade = http_stream_upgrade(s);
	const char *version = http_head_get(h, "sec-websocket-version");

	if (!upgrade || strcasecmp(upgrade, "websocket") != 0)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "this address speaks WebSocket: open it with "
			       "HTTP/1.1, Connection: Upgrade and Upgrade: "
			       "websocket");
	if (strcmp(h->method, "GET") != 0)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "a WebSocket is opened with GET");
	if (!version || strcmp(version, "13") != 0)
		return err_set(e, -EPROTONOSUPPORT, ERR_UNSUPPORTED,
			       "only version 13 of WebSocket is spoken: send "
			       "Sec-WebSocket-Version: 13");
	if (count_fields(h, "sec-websocket-key") != 1 ||
	    !key_valid(http_head_get(h, "sec-websocket-key")))
		return err_set(e, -EINVAL, ERR_INVALID,
			       "Sec-WebSocket-Key must be there once and be 16 "
			       "bytes in base64");
	return 0;
}

struct ws *ws_server_open(struct loop *l, struct http_stream *s,
			  const char *subprotocol,
			  const struct http_head *extra, size_t max,
			  const struct ws_handler *h, void *owner)
{
	const char *key =
	    http_head_get(http_stream_head(s), "sec-websocket-key");
	char accept[WS_ACCEPT_LEN + 1];
	struct http_head head;

	http_head_init(&head);
	ws_accept_key(key, accept);
	http_head_add(&head, "sec-websocket-accept", accept);
	if (subprotocol)
		http_head_add(&head, "sec-websocket-protocol", subprotocol);
	for (size_t i = 0; extra && i < extra->n_fields; i++)
		http_head_add(&head, extra->fields[i].name,
			      extra->fields[i].value);
	http_stream_switch(s, &head);
	http_head_fini(&head);
	return ws_new(l, s, true, max, h, owner);
}

/* ---- clients ---- */

struct opening {
	struct loop *loop;
	struct loop_timer timer;
	struct http_stream *s;
	char *subprotocols;
	char accept[WS_ACCEPT_LEN + 1];
	size_t max;
	const struct ws_handler *h;
	void *owner;
	ws_opened *on_open;
	void *arg;
	bool told;
	bool late;
};

static void opening_free(struct opening *o)
{
	loop_timer_del(&o->timer);
	free(o->subprotocols);
	free(o);
}

static void tell(struct opening *o, int status, const char *body, size_t n,
		 const struct err *e)
{
	if (o->told)
		return;
	o->told = true;
	loop_timer_del(&o->timer);
	o->on_open(o->arg, NULL, status, body, n, e);
}

/* The server may choose one of what was offered, or none. */
static bool choice_valid(const struct opening *o, const struct http_head *h)
{
	const char *choice = http_head_get(h, "sec-websocket-protocol");
	const char *list = o->subprotocols;
	struct view v;

	if (!choice)
		return true;
	while (list && next_item(&list, &v)) {
		if (view_eq(v, choice))
			return true;
	}
	return false;
}

static const char *judge(const struct opening *o, const struct http_head *h)
{
	const char *accept = http_head_get(h, "sec-websocket-accept");

	if (!accept || strcmp(accept, o->accept) != 0)
		return "its Sec-WebSocket-Accept does not answer our key";
	if (http_head_get(h, "sec-websocket-extensions"))
		return "it chose an extension that was not offered";
	if (!choice_valid(o, h))
		return "it chose a subprotocol that was not offered";
	return NULL;
}

static void refused(struct http_stream *s, void *owner, const void *body,
		    size_t n, const struct err *e)
{
	const struct http_head *h = http_stream_head(s);

	if (e && e->kind != ERR_EXHAUSTED)
		return; /* on_close tells why */
	/* a longer body is left out; the status says enough */
	tell(owner, h->status, e ? NULL : body, e ? 0 : n, NULL);
}

static void on_head(struct http_stream *s)
{
	const struct http_head *h = http_stream_head(s);
	struct opening *o = http_stream_owner(s);
	struct err e = { 0 };
	const char *why;
	struct ws *w;

	if (h->status != 101) {
		http_stream_collect(s, REFUSAL_MAX, refused, o);
		return;
	}
	why = judge(o, h);
	if (why) {
		err_set(&e, -EPROTO, ERR_UNAVAILABLE,
			"the server does not speak WebSocket: %s", why);
		http_stream_reset(s);
		tell(o, 0, NULL, 0, &e);
		return;
	}
	o->told = true;
	w = ws_new(o->loop, s, false, o->max, o->h, o->owner);
	o->on_open(o->arg, w, 101, NULL, 0, NULL);
	opening_free(o);
}

static void on_body(struct http_stream *s)
{
	(void)s; /* before 101 or a refusal there is none */
}

static void on_close(struct http_stream *s, const struct err *e)
{
	struct opening *o = http_stream_owner(s);
	struct err why = { 0 };

	if (o->late)
		err_set(&why, -ETIMEDOUT, ERR_TIMEOUT,
			"no answer to the opening of a WebSocket within %llu "
			"ms",
			(unsigned long long)ws_open_ms);
	else if (e)
		why = *e;
	else
		err_set(&why, -ECONNRESET, ERR_UNAVAILABLE,
			"the server ended the opening of a WebSocket");
	tell(o, 0, NULL, 0, &why);
	opening_free(o);
}

static const struct http_handler opening_handler = {
	.on_head = on_head,
	.on_body = on_body,
	.on_close = on_close,
};

static void on_late(struct loop_timer *t)
{
	struct opening *o = container_of(t, struct opening, timer);

	o->late = true;
	http_stream_reset(o->s);
}

static void fill_request(struct http_head *to, const struct http_head *from,
			 const char *key, const char *subprotocols)
{
	http_head_init(to);
	to->method = xstrdup("GET");
	to->path = xstrdup(from->path);
	to->authority = from->authority ? xstrdup(from->authority) : NULL;
	for (size_t i = 0; i < from->n_fields; i++)
		http_head_add(to, from->fields[i].name, from->fields[i].value);
	http_head_add(to, "sec-websocket-version", "13");
	http_head_add(to, "sec-websocket-key", key);
	if (subprotocols)
		http_head_add(to, "sec-websocket-protocol", subprotocols);
}

int ws_client_open(struct loop *l, struct http_conn *c,
		   const struct http_head *head, const char *subprotocols,
		   size_t max, const struct ws_handler *h, void *owner,
		   ws_opened *on_open, void *arg, struct err *e)
{
	struct opening *o = xnew(struct opening);
	char key[WS_KEY_LEN + 1];
	struct http_head request;
	struct err why = { 0 };
	uint8_t nonce[16];

	random_bytes(nonce, sizeof(nonce));
	text_base64(nonce, sizeof(nonce), key);
	ws_accept_key(key, o->accept);
	fill_request(&request, head, key, subprotocols);
	o->s = http_conn_switch(c, &request, "websocket", &opening_handler, o,
				&why);
	http_head_fini(&request);
	if (!o->s) {
		free(o);
		if (e)
			*e = why;
		return why.code;
	}
	o->loop = l;
	o->subprotocols = subprotocols ? xstrdup(subprotocols) : NULL;
	o->max = max;
	o->h = h;
	o->owner = owner;
	o->on_open = on_open;
	o->arg = arg;
	loop_timer_set(l, &o->timer, ws_open_ms, on_late);
	return 0;
}
