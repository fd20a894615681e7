/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"

/*
 * Open addressing with linear probing. A removed entry leaves a tombstone, so
 * that a walk may delete where it stands; tombstones go when the table is
 * rebuilt, which only an insertion does.
 */

#define MAP_MIN 16u

struct slot {
	uint64_t hash;
	char *key; /* NULL = free, tombstone = removed */
	void *value;
};

struct map {
	uint64_t k0, k1;
	struct slot *slots;
	size_t cap; /* power of two */
	size_t used, removed;
};

static char tombstone[1];

static uint64_t rotl(uint64_t x, unsigned b)
{
	return x << b | x >> (64 - b);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t m)
{
	v[3] ^= m;
	sip_round(v);
	sip_round(v);
	v[0] ^= m;
}

uint64_t map_siphash(uint64_t k0, uint64_t k1, const void *p, size_t n)
{
	const uint8_t *in = p;
	uint64_t v[4] = { k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du,
			  k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u };
	uint64_t m, last = (uint64_t)n << 56;
	size_t i = 0;

	for (; i + 8 <= n; i += 8) {
		memcpy(&m, in + i, 8); /* little endian, as all we run on */
		sip_word(v, m);
	}
	for (unsigned b = 0; i < n; i++, b += 8)
		last |= (uint64_t)in[i] << b;
	sip_word(v, last);
	v[2] ^= 0xff;
	for (int k = 0; k < 4; k++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct map *map_new(void)
{
	struct map *m = xnew(struct map);
	uint64_t key[2];

	random_bytes(key, sizeof(key));
	m->k0 = key[0];
	m->k1 = key[1];
	m->cap = MAP_MIN;
	m->slots = xnew_n(struct slot, m->cap);
	return m;
}

struct map *map_free(struct map *m)
{
	if (!m)
		return NULL;
	for (size_t i = 0; i < m->cap; i++) {
		if (m->slots[i].key != tombstone)
			free(m->slots[i].key);
	}
	free(m->slots);
	free(m);
	return NULL;
}

size_t map_len(const struct map *m)
{
	return m->used;
}

/* The entry of key, or NULL; *ret_free is the first place where it could go. */
static struct slot *find(const struct map *m, const char *key, uint64_t hash,
			 struct slot **ret_free)
{
	struct slot *spare = NULL;

	for (size_t i = hash & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
		struct slot *s = &m->slots[i];

		if (!s->key) {
			*ret_free = spare ? spare : s;
			return NULL;
		}
		if (s->key == tombstone) {
			if (!spare)
				spare = s;
			continue;
		}
		if (s->hash == hash && strcmp(s->key, key) == 0)
			return s;
	}
}

static uint64_t hash_of(const struct map *m, const char *key)
{
	return map_siphash(m->k0, m->k1, key, strlen(key));
}

void *map_get(const struct map *m, const char *key)
{
	struct slot *spare, *s = find(m, key, hash_of(m, key), &spare);

	return s ? s->value : NULL;
}

static void rebuild(struct map *m)
{
	struct slot *old = m->slots;
	size_t old_cap = m->cap;

	while (m->used * 2 >= m->cap)
		m->cap *= 2;
	m->slots = xnew_n(struct slot, m->cap);
	m->removed = 0;
	for (size_t i = 0; i < old_cap; i++) {
		struct slot *to = NULL;

		if (!old[i].key || old[i].key == tombstone)
			continue;
		(void)find(m, old[i].key, old[i].hash, &to);
		*to = old[i];
	}
	free(old);
}

void *map_set(struct map *m, const char *key, void *value)
{
	uint64_t hash = hash_of(m, key);
	struct slot *spare = NULL, *s;

	/* a quarter stays free, so that every probe ends */
	if ((m->used + m->removed + 1) * 4 > m->cap * 3)
		rebuild(m);
	s = find(m, key, hash, &spare);
	if (s) {
		void *was = s->value;

		s->value = value;
		return was;
	}
	if (spare->key == tombstone)
		m->removed--;
	*spare = (struct slot){ hash, xstrdup(key), value };
	m->used++;
	return NULL;
}

void *map_del(struct map *m, const char *key)
{
	struct slot *spare, *s = find(m, key, hash_of(m, key), &spare);
	void *was;

	if (!s)
		return NULL;
	was = s->value;
	free(s->key);
	*s = (struct slot){ .key = tombstone };
	m->used--;
	m->removed++;
	return was;
}

int map_next(const struct map *m, size_t *pos, const char **ret_key,
	     void **ret_value)
{
	while (*pos < m->cap) {
		struct slot *s = &m->slots[(*pos)++];

		if (!s->key || s->key == tombstone)
			continue;
		if (ret_key)
			*ret_key = s->key;
		if (ret_value)
			*ret_value = s->value;
		return 1;
	}
	return 0;
}
