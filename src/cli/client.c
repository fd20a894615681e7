/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/jget.h"
#include "net/json.h"

#define ANSWER_MAX     (16u << 20)
#define CONNECT_MS     5000L
#define SILENCE_S      45L
#define TRIES	       3
#define MULTI_ROUND_MS 1000

struct client {
	struct context ctx;
	CURL *easy; /* re-used: keeps its connections */
	CURLM *multi;
	char trace[56];
	char key[64]; /* of the next call; "" = a fresh one */
	char problem[CURL_ERROR_SIZE];
	int wake_fd;
	int (*on_wake)(void *arg);
	void *wake_arg;
	bool woken; /* on_wake said stop */
};

/* One transfer's body: either collected, or handed on as it comes. */
struct sink {
	struct client *cl;
	struct buf body;
	int (*on_bytes)(void *arg, const void *p, size_t n);
	void *arg;
	const struct client_transfer *t; /* NULL: a plain call */
	bool stopped, too_large;
};

struct client *client_new_take(struct context *c)
{
	struct client *cl = xnew(struct client);
	char hex[49];
	uint8_t raw[24];

	CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
	cl->ctx = *c;
	*c = (struct context){ 0 };
	cl->wake_fd = -1;
	cl->easy = curl_easy_init();
	cl->multi = curl_multi_init();
	CHECK(cl->easy && cl->multi);
	random_bytes(raw, sizeof(raw));
	text_hex(raw, sizeof(raw), hex);
	snprintf(cl->trace, sizeof(cl->trace), "00-%.32s-%.16s-01", hex,
		 hex + 32);
	return cl;
}

struct client *client_free(struct client *cl)
{
	if (!cl)
		return NULL;
	curl_easy_cleanup(cl->easy);
	curl_multi_cleanup(cl->multi);
	context_fini(&cl->ctx);
	free(cl);
	return NULL;
}

const struct context *client_context(const struct client *cl)
{
	return &cl->ctx;
}

void client_key(struct client *cl, const char *key)
{
	snprintf(cl->key, sizeof(cl->key), "%s", key);
}

void client_watch(struct client *cl, int fd, int (*on_wake)(void *arg),
		  void *arg)
{
	cl->wake_fd = fd;
	cl->on_wake = on_wake;
	cl->wake_arg = arg;
}

static size_t on_write(char *p, size_t size, size_t n, void *arg)
{
	struct sink *s = arg;
	long status = 0;

	n *= size;
	curl_easy_getinfo(s->cl->easy, CURLINFO_RESPONSE_CODE, &status);
	/* an error's body is collected also where bytes are streamed */
	if (s->on_bytes && status >= 200 && status < 300) {
		if (s->on_bytes(s->arg, p, n)) {
			s->stopped = true;
			return 0;
		}
		return n;
	}
	if (buf_put(&s->body, p, n) < 0) {
		s->too_large = true;
		return 0;
	}
	return n;
}

static struct curl_slist *add_header(struct curl_slist *l, const char *name,
				     const char *value)
{
	owned_str line = xasprintf("%s: %s", name, value);

	l = curl_slist_append(l, line);
	CHECK(l);
	return l;
}

static struct curl_slist *headers(const struct client *cl, bool json,
				  const char *idempotency, const char *accept)
{
	struct curl_slist *l = NULL;

	if (*cl->ctx.key) {
		owned_str auth = xasprintf("Bearer %s", cl->ctx.key);

		l = add_header(l, "Authorization", auth);
	}
	l = add_header(l, "Accept", accept);
	l = add_header(l, "traceparent", cl->trace);
	if (json)
		l = add_header(l, "Content-Type", "application/json");
	if (idempotency)
		l = add_header(l, "Idempotency-Key", idempotency);
	/* curl would wait a second for leave to send a larger body */
	return add_header(l, "Expect", "");
}

/* Drive the transfer to its end, looking at the wake descriptor meanwhile. */
static CURLcode drive(struct client *cl)
{
	struct curl_waitfd w = { .fd = cl->wake_fd,
				 .events = CURL_WAIT_POLLIN };
	CURLcode res = CURLE_OK;
	int running = 1, left;
	CURLMsg *m;

	cl->woken = false;
	CHECK(curl_multi_add_handle(cl->multi, cl->easy) == CURLM_OK);
	while (running > 0) {
		if (curl_multi_perform(cl->multi, &running) != CURLM_OK) {
			res = CURLE_RECV_ERROR;
			break;
		}
		if (running == 0)
			break;
		w.revents = 0;
		curl_multi_poll(cl->multi, &w, cl->wake_fd >= 0 ? 1 : 0,
				MULTI_ROUND_MS, NULL);
		if (w.revents && cl->on_wake(cl->wake_arg)) {
			cl->woken = true;
			res = CURLE_ABORTED_BY_CALLBACK;
			break;
		}
	}
	while ((m = curl_multi_info_read(cl->multi, &left))) {
		if (m->msg == CURLMSG_DONE && !cl->woken)
			res = m->data.result;
	}
	curl_multi_remove_handle(cl->multi, cl->easy);
	return res;
}

void client_trust(void *easy)
{
	const char *file = getenv("CAISSON_CA_FILE");

	if (file && *file)
		curl_easy_setopt(easy, CURLOPT_CAINFO, file);
}

static void prepare(struct client *cl, const char *url, const char *method,
		    const char *body, struct curl_slist *hs, struct sink *s)
{
	CURL *h = cl->easy;

	curl_easy_reset(h);
	curl_easy_setopt(h, CURLOPT_URL, url);
	curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(h, CURLOPT_HTTPHEADER, hs);
	curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(h, CURLOPT_ERRORBUFFER, cl->problem);
	curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_write);
	curl_easy_setopt(h, CURLOPT_WRITEDATA, s);
	curl_easy_setopt(h, CURLOPT_USERAGENT, "caisson-cli");
	curl_easy_setopt(h, CURLOPT_TCP_NODELAY, 1L);
	/* our server is named by its address: no proxy in between for that */
	curl_easy_setopt(h, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
	if (body) {
		curl_easy_setopt(h, CURLOPT_POSTFIELDS, body);
		curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
	}
	client_trust(h);
	cl->problem[0] = '\0';
}

void fault_parse(int status, const void *p, size_t n, struct fault *f)
{
	owned_json v = NULL;
	const json_t *o;

	*f = (struct fault){ .status = status };
	if (n > 0 && json_parse(p, n, &v, NULL) < 0)
		v = NULL;
	o = json_object_get(v, "error");
	jget_shown(o, "code", "", f->code, sizeof(f->code));
	jget_shown(o, "cause", "", f->cause, sizeof(f->cause));
	jget_shown(o, "field", "", f->field, sizeof(f->field));
	jget_shown(o, "remedy", "", f->remedy, sizeof(f->remedy));
	jget_shown(o, "message", "", f->message, sizeof(f->message));
	jget_shown(o, "request_id", "", f->request_id, sizeof(f->request_id));
	if (!*f->message)
		snprintf(f->message, sizeof(f->message),
			 "the server answered %d without saying why; is it a "
			 "caisson server?",
			 status);
	if (!*f->code)
		snprintf(f->code, sizeof(f->code), "http_%d", status);
}

static int transport_error(struct client *cl, CURLcode res, const char *base,
			   const struct sink *s, struct err *e)
{
	const char *why =
	    cl->problem[0] ? cl->problem : curl_easy_strerror(res);

	if (cl->woken || s->stopped)
		return err_set(e, -ECANCELED, ERR_CONFLICT, "interrupted");
	if (s->too_large)
		return err_set(e, -EMSGSIZE, ERR_EXHAUSTED,
			       "%s: the answer is larger than %u bytes", base,
			       ANSWER_MAX);
	if (res == CURLE_COULDNT_CONNECT)
		return err_set(e, -ECONNREFUSED, ERR_UNAVAILABLE,
			       "cannot reach %s: is it up? `caisson status`, "
			       "`sudo caisson up` (%s)",
			       base, why);
	if (res == CURLE_OPERATION_TIMEDOUT)
		return err_set(e, -ETIMEDOUT, ERR_TIMEOUT,
			       "%s did not answer in time (%s)", base, why);
	return err_set(e, -EIO, ERR_UNAVAILABLE, "%s: %s", base, why);
}

/* Nothing of the request can have been answered; safe to repeat with a key. */
static bool worth_repeating(CURLcode res)
{
	return res == CURLE_COULDNT_CONNECT || res == CURLE_GOT_NOTHING ||
	       res == CURLE_RECV_ERROR || res == CURLE_SEND_ERROR;
}

static const char *base_url(const struct client *cl, enum client_side side)
{
	if (side == CLIENT_DATA && *cl->ctx.data_url)
		return cl->ctx.data_url;
	return cl->ctx.url;
}

/* Body collected so far -> CLIENT_OK/CLIENT_FAULT. */
static int conclude(struct client *cl, struct sink *s, json_t **ret,
		    int *ret_status, struct fault *f, struct err *e)
{
	struct err why = { 0 };
	long status = 0;

	curl_easy_getinfo(cl->easy, CURLINFO_RESPONSE_CODE, &status);
	if (ret_status)
		*ret_status = (int)status;
	if (status < 200 || status > 299) {
		fault_parse((int)status, buf_data(&s->body), buf_len(&s->body),
			    f);
		return CLIENT_FAULT;
	}
	if (!ret)
		return CLIENT_OK;
	*ret = NULL;
	if (buf_len(&s->body) == 0)
		return CLIENT_OK;
	if (json_parse(buf_data(&s->body), buf_len(&s->body), ret, &why) < 0)
		return err_set(e, -EBADMSG, ERR_INTERNAL,
			       "the server's answer is no JSON (%s); is it a "
			       "caisson server?",
			       why.msg);
	return CLIENT_OK;
}

int client_call(struct client *cl, enum client_side side, const char *method,
		const char *path, const json_t *body, unsigned timeout_s,
		json_t **ret, int *ret_status, struct fault *f, struct err *e)
{
	owned_str url = xasprintf("%s%s", base_url(cl, side), path);
	owned_str text = body ? json_text(body) : NULL;
	struct sink s = { .cl = cl };
	bool changes = strcmp(method, "GET") != 0;
	char key[64];
	CURLcode res;
	int r;

	buf_init(&s.body, ANSWER_MAX);
	snprintf(key, sizeof(key), "%s", cl->key);
	cl->key[0] = '\0';
	if (!*key)
		random_id(key, 32);
	for (int try = 1;; try++) {
		struct curl_slist *hs = headers(
		    cl, text != NULL, changes ? key : NULL, "application/json");

		buf_clear(&s.body);
		prepare(cl, url, method,
			text	  ? text
			: changes ? ""
				  : NULL,
			hs, &s);
		curl_easy_setopt(cl->easy, CURLOPT_TIMEOUT, (long)timeout_s);
		res = drive(cl);
		curl_slist_free_all(hs);
		if (!worth_repeating(res) || try == TRIES || cl->woken)
			break;
		usleep((useconds_t)(100000 * try));
	}
	if (res != CURLE_OK)
		r = transport_error(cl, res, base_url(cl, side), &s, e);
	else
		r = conclude(cl, &s, ret, ret_status, f, e);
	buf_fini(&s.body);
	return r;
}

/* ---- transfers ---- */

static size_t on_read(char *p, size_t size, size_t n, void *arg)
{
	struct sink *s = arg;
	ssize_t r = s->t->on_read(s->t->arg, p, size * n);

	if (r < 0) {
		s->stopped = true;
		return CURL_READFUNC_ABORT;
	}
	return (size_t)r;
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
	struct sink *s = arg;
	owned_str line = xstrndup(p, size * n);
	char *colon = strchr(line, ':'), *value;

	if (!colon)
		return size * n;
	*colon = '\0';
	for (char *c = line; *c; c++)
		*c |= *c >= 'A' && *c <= 'Z' ? 0x20 : 0;
	value = colon + 1 + strspn(colon + 1, " \t");
	value[strcspn(value, "\r\n")] = '\0';
	s->t->on_header(s->t->arg, line, value);
	return size * n;
}

static void prepare_transfer(CURL *h, const struct client_transfer *t,
			     struct sink *s)
{
	if (t->on_read) {
		curl_easy_setopt(h, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(h, CURLOPT_READFUNCTION, on_read);
		curl_easy_setopt(h, CURLOPT_READDATA, s);
		curl_easy_setopt(h, CURLOPT_INFILESIZE_LARGE,
				 (curl_off_t)t->body_bytes);
	}
	if (t->on_header) {
		curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
		curl_easy_setopt(h, CURLOPT_HEADERDATA, s);
	}
	if (t->silence_s) {
		curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
		curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, (long)t->silence_s);
	}
}

int client_transfer(struct client *cl, const struct client_transfer *t,
		    json_t **ret, int *ret_status, struct fault *f,
		    struct err *e)
{
	owned_str url = xasprintf("%s%s", base_url(cl, t->side), t->path);
	struct sink s = {
		.cl = cl, .on_bytes = t->on_bytes, .arg = t->arg, .t = t
	};
	struct curl_slist *hs = headers(
	    cl, false, NULL, t->accept ? t->accept : "application/json");
	long status = 0;
	CURLcode res;
	int r;

	for (size_t i = 0; t->headers && t->headers[i]; i++)
		CHECK(hs = curl_slist_append(hs, t->headers[i]));
	if (t->on_read)
		hs = add_header(hs, "Content-Type", "application/octet-stream");
	buf_init(&s.body, ANSWER_MAX);
	prepare(cl, url, t->method, NULL, hs, &s);
	prepare_transfer(cl->easy, t, &s);
	res = drive(cl);
	curl_easy_getinfo(cl->easy, CURLINFO_RESPONSE_CODE, &status);
	/* a server that refuses a body need not take all of it */
	if (res != CURLE_OK &&
	    (status < 400 || cl->woken || s.stopped || s.too_large))
		r = transport_error(cl, res, base_url(cl, t->side), &s, e);
	else
		r = conclude(cl, &s, t->on_bytes ? NULL : ret, ret_status, f,
			     e);
	curl_slist_free_all(hs);
	buf_fini(&s.body);
	return r;
}

int client_stream(struct client *cl, enum client_side side, const char *path,
		  const char *accept,
		  int (*on_bytes)(void *arg, const void *p, size_t n),
		  void *arg, struct fault *f, struct err *e)
{
	const struct client_transfer t = { .side = side,
					   .method = "GET",
					   .path = path,
					   .accept = accept,
					   .on_bytes = on_bytes,
					   .arg = arg,
					   .silence_s = SILENCE_S };

	return client_transfer(cl, &t, NULL, NULL, f, e);
}

char *client_escape(const char *s)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~@";
	char *out = xcalloc(3 * strlen(s) + 1, 1), *p = out;

	for (; *s; s++) {
		if (strchr(safe, *s))
			*p++ = *s;
		else
			p += snprintf(p, 4, "%%%02X", (unsigned char)*s);
	}
	return out;
}
