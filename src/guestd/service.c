/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "guestd/exec_api.h"
#include "guestd/files.h"
#include "guestd/life.h"
#include "guestd/metrics.h"
#include "guestd/port.h"
#include "guestd/reply.h"
#include "guestd/tunnel.h"

#define CONTROL_BODY_MAX 16384u

/* A call with a JSON body, once the body is there. */
struct call {
	struct guestd *g;
	void (*run)(struct guestd *g, struct http_stream *s, const void *body,
		    size_t n);
	char exec[EXEC_ID_MAX]; /* the exec it is about, for run_exec */
	void (*run_exec)(struct exec *x, struct http_stream *s,
			 const void *body, size_t n);
};

static void on_collected(struct http_stream *s, void *owner, const void *body,
			 size_t n, const struct err *e)
{
	struct call *c = owner;
	struct exec *x = NULL;

	if (e && e->kind == ERR_EXHAUSTED)
		reply_error(s, 413, "too_large", NULL, NULL,
			    "the request's body is too long");
	else if (e)
		http_stream_reset(s);
	else if (c->run)
		c->run(c->g, s, body, n);
	else if ((x = execs_get(c->g->execs, c->exec)))
		c->run_exec(x, s, body, n);
	else
		reply_not_found(s, "exec", c->exec);
	free(c);
}

static void collect(struct guestd *g, struct http_stream *s, size_t max,
		    void (*run)(struct guestd *, struct http_stream *,
				const void *, size_t))
{
	struct call *c = xnew(struct call);

	c->g = g;
	c->run = run;
	http_stream_collect(s, max, on_collected, c);
}

static void collect_exec(struct guestd *g, struct exec *x,
			 struct http_stream *s,
			 void (*run)(struct exec *, struct http_stream *,
				     const void *, size_t))
{
	struct call *c = xnew(struct call);

	c->g = g;
	snprintf(c->exec, sizeof(c->exec), "%s", x->id);
	c->run_exec = run;
	http_stream_collect(s, CONTROL_BODY_MAX, on_collected, c);
}

static void method_not_allowed(struct http_stream *s)
{
	reply_error(s, 405, "immutable", NULL, NULL,
		    "this path does not take that method");
}

static bool is_method(struct http_stream *s, const char *method)
{
	return strcmp(http_stream_head(s)->method, method) == 0;
}

static void control(struct guestd *g, struct http_stream *s, const char *name)
{
	static const struct {
		const char *name;
		void (*run)(struct guestd *, struct http_stream *, const void *,
			    size_t);
	} calls[] = {
		{ "renew", life_renew },       { "freeze", life_freeze },
		{ "continue", life_continue }, { "thaw", life_thaw },
		{ "finish", life_finish },     { "shutdown", life_shutdown },
	};

	if (strcmp(name, "hello") == 0) {
		if (is_method(s, "GET"))
			life_hello(g, s);
		else
			method_not_allowed(s);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (strcmp(calls[i].name, name) != 0)
			continue;
		if (is_method(s, "POST"))
			collect(g, s, CONTROL_BODY_MAX, calls[i].run);
		else
			method_not_allowed(s);
		return;
	}
	reply_not_found(s, "control call", name);
}

static bool is_exec_verb(const char *verb)
{
	static const char *const verbs[] = { "",      "output", "signal",
					     "stdin", "size",	"attach" };

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(verbs[i], verb) == 0)
			return true;
	return false;
}

/* "ID" or "ID/VERB" below /v1/execs/ */
static void one_exec(struct guestd *g, struct http_stream *s, const char *rest)
{
	char id[EXEC_ID_MAX];
	size_t n = strcspn(rest, "/");
	const char *verb = rest[n] ? rest + n + 1 : "";
	struct exec *x;

	snprintf(id, sizeof(id), "%.*s", (int)(n < 127 ? n : 127), rest);
	x = n < sizeof(id) ? execs_get(g->execs, id) : NULL;
	if (!x)
		reply_not_found(s, "exec", id);
	else if (!*verb && is_method(s, "GET"))
		exec_api_get(x, s);
	else if (!*verb && is_method(s, "DELETE"))
		exec_api_delete(x, s);
	else if (!strcmp(verb, "output") && is_method(s, "GET"))
		exec_api_output(x, s);
	else if (!strcmp(verb, "signal") && is_method(s, "POST"))
		collect_exec(g, x, s, exec_api_signal);
	else if (!strcmp(verb, "size") && is_method(s, "POST"))
		collect_exec(g, x, s, exec_api_size);
	else if (!strcmp(verb, "stdin") && is_method(s, "POST"))
		exec_api_stdin(x, s);
	else if (!strcmp(verb, "attach") && is_method(s, "POST"))
		exec_api_attach(x, s);
	else if (is_exec_verb(verb))
		method_not_allowed(s);
	else
		reply_not_found(s, "call of an exec", verb);
}

void service_request(struct http_conn *c, struct http_stream *s)
{
	struct guestd *g = port_owner(http_conn_owner(c));
	char path[256];
	const char *whole = http_stream_head(s)->path;

	/* routes are short; a longer path is none of them */
	snprintf(path, sizeof(path), "%.*s", (int)strcspn(whole, "?"), whole);
	if (strncmp(path, "/g1/", 4) == 0)
		control(g, s, path + 4);
	else if (strcmp(path, "/v1/execs") == 0 && is_method(s, "POST"))
		collect(g, s, EXEC_BODY_MAX, exec_api_create);
	else if (strcmp(path, "/v1/execs") == 0 && is_method(s, "GET"))
		exec_api_list(g, s);
	else if (strncmp(path, "/v1/execs/", 10) == 0 && path[10])
		one_exec(g, s, path + 10);
	else if (files_route(g, s, path))
		return;
	else if (strcmp(path, "/v1/tunnel") == 0 && is_method(s, "POST"))
		tunnel_request(g, s);
	else if (strcmp(path, "/v1/metrics") == 0 && is_method(s, "GET"))
		guest_metrics(g, s);
	else if (!strcmp(path, "/v1/execs") || !strcmp(path, "/v1/tunnel") ||
		 !strcmp(path, "/v1/metrics"))
		method_not_allowed(s);
	else
		reply_not_found(s, "route", path);
}
