/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limit.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/own.h"
#include "base/text.h"

#define SETS 1024u
#define WAYS 8u

struct bucket {
	uint64_t hash; /* 0 = free */
	uint64_t at_ms;
	double tokens;
};

struct limit {
	double per_s, burst;
	uint64_t key[2];
	struct bucket set[SETS][WAYS];
};

struct limit *limit_new(double per_s, double burst)
{
	struct limit *l = xnew(struct limit);

	l->per_s = per_s;
	l->burst = burst;
	random_bytes(l->key, sizeof(l->key));
	return l;
}

struct limit *limit_free(struct limit *l)
{
	free(l);
	return NULL;
}

static uint64_t hash_of(const struct limit *l, const char *name)
{
	uint64_t h = map_siphash(l->key[0], l->key[1], name, strlen(name));

	return h ? h : 1;
}

/* What is in it by now. A clock that went back fills nothing. */
static double level(const struct limit *l, const struct bucket *b,
		    uint64_t now_ms)
{
	double t = b->tokens;

	if (now_ms > b->at_ms)
		t += (double)(now_ms - b->at_ms) / 1000.0 * l->per_s;
	return t < l->burst ? t : l->burst;
}

static unsigned wait_s(const struct limit *l, double tokens)
{
	double s;

	if (tokens >= 1)
		return 0;
	s = (1 - tokens) / l->per_s;
	return s >= 3600 ? 3600 : s <= 1 ? 1 : (unsigned)s + 1;
}

unsigned limit_wait_s(const struct limit *l, const char *name, uint64_t now_ms)
{
	uint64_t h = hash_of(l, name);
	const struct bucket *set = l->set[h % SETS];

	for (unsigned i = 0; i < WAYS; i++)
		if (set[i].hash == h)
			return wait_s(l, level(l, &set[i], now_ms));
	return 0;
}

/* The name's bucket; a new one takes a free place or the fullest's. */
static struct bucket *bucket_of(struct limit *l, uint64_t h, uint64_t now_ms)
{
	struct bucket *set = l->set[h % SETS], *best = &set[0];
	double most = -1;

	for (unsigned i = 0; i < WAYS; i++) {
		double t =
		    set[i].hash ? level(l, &set[i], now_ms) : l->burst + 1;

		if (set[i].hash == h)
			return &set[i];
		if (t > most) {
			most = t;
			best = &set[i];
		}
	}
	*best =
	    (struct bucket){ .hash = h, .at_ms = now_ms, .tokens = l->burst };
	return best;
}

unsigned limit_take(struct limit *l, const char *name, uint64_t now_ms)
{
	struct bucket *b = bucket_of(l, hash_of(l, name), now_ms);
	double t = level(l, b, now_ms);
	unsigned wait = wait_s(l, t);

	b->tokens = t >= 1 ? t - 1 : t;
	if (now_ms > b->at_ms)
		b->at_ms = now_ms;
	return wait;
}
