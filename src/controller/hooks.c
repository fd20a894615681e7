/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/hooks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <curl/curl.h>

#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "controller/decide.h"
#include "controller/hook_post.h"
#include "tls/seal.h"

#define QUERY_MS   10000u
#define PAUSE_MS   500u
#define FANOUT_MAX "500"
#define POST_SLACK 3000u

struct hooks {
	struct controller *c;
	const struct addr_net *allow;
	size_t n_allow;
	struct loop_timer timer;
	struct list posts;
	unsigned n;
	bool has_key, asking, again, stopped;
	uint8_t key[SEAL_KEY];
};

struct delivery {
	struct hooks *h;
	struct list link;
	struct worker worker;
	char id[32];
	char *url, *body;
	int attempts;
	uint64_t begun_us;
	struct hook_post post;
};

static struct pg_stmt key_stmt = {
	.name = "webhook_key",
	.sql = "SELECT caisson.webhook_key()",
};
static struct pg_stmt fanout_stmt = {
	.name = "webhook_fanout",
	.sql = "SELECT made, more FROM caisson.webhook_fanout($1)",
	.n_params = 1,
};
static struct pg_stmt claim_stmt = {
	.name = "delivery_claim",
	.sql = "SELECT id, webhook, url, secrets, body, attempts FROM "
	       "caisson.delivery_claim($1, $2, $3)",
	.n_params = 3,
};
static struct pg_stmt done_stmt = {
	.name = "delivery_done",
	.sql = "SELECT caisson.delivery_done($1, $2, $3, $4, $5, $6, $7, $8)",
	.n_params = 8,
};

static void on_tick(struct loop_timer *t);

static void tick_in(struct hooks *h, uint64_t ms)
{
	if (!h->stopped)
		loop_timer_set(h->c->loop, &h->timer, ms, on_tick);
}

static void delivery_free(struct delivery *d)
{
	list_del(&d->link);
	d->h->n--;
	explicit_bzero(&d->post, sizeof(d->post));
	free(d->url);
	free(d->body);
	free(d);
}

/* ---- how it went ---- */

static void on_noted(void *arg, const struct pg_result *res,
		     const struct err *e)
{
	struct hooks *h = arg;

	(void)res;
	/* not noted: its lease runs out and it is delivered again */
	if (e)
		log_warn("webhook_note", "why=%s", e->msg);
	tick_in(h, e ? PAUSE_MS : 0);
}

static void note(struct delivery *d, int status, const char *why)
{
	struct hooks *h = d->h;
	bool ok = status >= 200 && status <= 299;
	char code[16], took[24], delay[16], max[16];
	const char *params[] = {
		d->id, h->c->owner, ok ? "t" : "f", status ? code : NULL,
		why,   took,	    delay,	    max,
	};

	snprintf(code, sizeof(code), "%d", status);
	snprintf(took, sizeof(took), "%" PRIu64,
		 (now_mono_us() - d->begun_us) / 1000);
	snprintf(delay, sizeof(delay), "%d", decide_hook_delay_s(d->attempts));
	snprintf(max, sizeof(max), "%d", HOOK_GIVE_UP_S);
	log_info("webhook", "delivery=%s attempt=%d status=%d why=%s", d->id,
		 d->attempts, status, why ? why : "-");
	if (pg_query(h->c->pool, &done_stmt, params, QUERY_MS, on_noted, h,
		     NULL) < 0)
		tick_in(h, PAUSE_MS);
}

static void on_posted(struct worker *w, const struct worker_report *rep,
		      int *fds, size_t n_fds)
{
	struct delivery *d = container_of(w, struct delivery, worker);
	char why[WORKER_DATA_MAX + 16];

	(void)fds;
	(void)n_fds;
	if (rep->r < 0)
		snprintf(why, sizeof(why), "%.128s", rep->msg);
	else if (rep->a == 0)
		snprintf(why, sizeof(why), "%.127s", rep->data);
	else if (rep->a > 299 || rep->a < 200)
		snprintf(why, sizeof(why), "status %u", (unsigned)rep->a);
	else
		*why = '\0';
	note(d, rep->r < 0 ? 0 : (int)rep->a, *why ? why : NULL);
	delivery_free(d);
}

/* ---- what is due ---- */

/* "{HEX,HEX}" of sealed secrets; false if none can be opened. */
static bool open_secrets(struct delivery *d, const char *webhook,
			 const char *list)
{
	struct hook_post *p = &d->post;
	uint8_t box[sizeof(p->secrets[0]) + SEAL_OVERHEAD];

	while (*list && p->n_secrets < HOOK_SECRETS_MAX) {
		size_t n = strspn(list, "0123456789abcdef");
		char hex[2 * sizeof(box) + 1];

		if (n / 2 > SEAL_OVERHEAD && n / 2 < sizeof(box)) {
			snprintf(hex, sizeof(hex), "%.*s", (int)n, list);
			if (text_unhex(hex, n / 2, box) &&
			    unseal(d->h->key, webhook, box, n / 2,
				   (uint8_t *)p->secrets[p->n_secrets]))
				p->n_secrets++;
		}
		list += n ? n : 1;
	}
	explicit_bzero(box, sizeof(box));
	return p->n_secrets > 0;
}

static void begin(struct hooks *h, const struct pg_result *res, int i)
{
	struct delivery *d = xnew(struct delivery);
	struct err e = { 0 };

	d->h = h;
	h->n++;
	list_add_tail(&h->posts, &d->link);
	snprintf(d->id, sizeof(d->id), "%s", pg_text(res, i, 0));
	d->url = xstrdup(pg_text(res, i, 2));
	d->body = xstrdup(pg_text(res, i, 4));
	d->attempts = (int)pg_int(res, i, 5, 1);
	d->begun_us = now_mono_us();
	d->post = (struct hook_post){ .url = d->url,
				      .body = d->body,
				      .id = d->id,
				      .allow = h->allow,
				      .n_allow = h->n_allow };
	if (!open_secrets(d, pg_text(res, i, 1), pg_text(res, i, 3))) {
		note(d, 0, "its secrets cannot be opened: set new ones");
		delivery_free(d);
		return;
	}
	if (worker_start(h->c->loop, &d->worker, hook_post, &d->post,
			 HOOK_POST_MS + POST_SLACK, on_posted, &e) < 0) {
		note(d, 0, e.msg);
		delivery_free(d);
	}
}

static void on_claimed(void *arg, const struct pg_result *res,
		       const struct err *e)
{
	struct hooks *h = arg;
	int n = e ? 0 : pg_rows(res);

	h->asking = false;
	if (h->stopped)
		return;
	if (e)
		log_warn("webhooks", "why=%s", e->msg);
	for (int i = 0; i < n; i++)
		begin(h, res, i);
	tick_in(h, h->again ? 0 : PAUSE_MS);
}

static void on_fanned(void *arg, const struct pg_result *res,
		      const struct err *e)
{
	struct hooks *h = arg;
	char room[16];
	const char *params[] = { h->c->owner, HOOK_LEASE_S, room };

	h->again = !e && pg_rows(res) && pg_bool(res, 0, 1);
	snprintf(room, sizeof(room), "%u", HOOKS_AT_ONCE - h->n);
	if (!h->stopped && !e && h->n < HOOKS_AT_ONCE &&
	    pg_query(h->c->pool, &claim_stmt, params, QUERY_MS, on_claimed, h,
		     NULL) == 0)
		return;
	h->asking = false;
	tick_in(h, PAUSE_MS);
}

static void on_key(void *arg, const struct pg_result *res, const struct err *e)
{
	struct hooks *h = arg;

	h->asking = false;
	h->has_key = !e && pg_rows(res) && pg_text(res, 0, 0) &&
		     text_unhex(pg_text(res, 0, 0), sizeof(h->key), h->key);
	tick_in(h, h->has_key ? 0 : PAUSE_MS);
}

static void on_tick(struct loop_timer *t)
{
	struct hooks *h = container_of(t, struct hooks, timer);
	const char *params[] = { FANOUT_MAX };
	int r;

	if (h->asking || h->stopped)
		return;
	h->asking = true;
	r = h->has_key ? pg_query(h->c->pool, &fanout_stmt, params, QUERY_MS,
				  on_fanned, h, NULL)
		       : pg_query(h->c->pool, &key_stmt, NULL, QUERY_MS, on_key,
				  h, NULL);
	if (r < 0) {
		h->asking = false;
		tick_in(h, PAUSE_MS);
	}
}

/* ---- life ---- */

struct hooks *hooks_new(struct controller *c, const struct addr_net *allow,
			size_t n_allow)
{
	struct hooks *h = xnew(struct hooks);

	/* before there is a child: it only uses what is set up */
	curl_global_init(CURL_GLOBAL_DEFAULT);
	h->c = c;
	h->allow = allow;
	h->n_allow = n_allow;
	list_init(&h->posts);
	tick_in(h, 0);
	return h;
}

void hooks_stop(struct hooks *h)
{
	struct delivery *d, *tmp;

	h->stopped = true;
	loop_timer_del(&h->timer);
	list_for_each_safe (d, tmp, &h->posts, link) {
		worker_stop(&d->worker);
		delivery_free(d);
	}
}

struct hooks *hooks_free(struct hooks *h)
{
	explicit_bzero(h->key, sizeof(h->key));
	free(h);
	return NULL;
}
