/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "base/test.h"

DEFINE_CLEANUP(struct map, map_free);

TEST(map_siphash_matches_the_published_vectors)
{
	/* Aumasson, Bernstein: SipHash, appendix A and the reference table */
	uint8_t in[15];

	for (unsigned i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)i;
	T_TRUE(map_siphash(0x0706050403020100, 0x0f0e0d0c0b0a0908, in, 15) ==
	       0xa129ca6149be45e5);
	T_TRUE(map_siphash(0x0706050403020100, 0x0f0e0d0c0b0a0908, in, 0) ==
	       0x726fdb47dd0e0e31);
	T_TRUE(map_siphash(0x0706050403020100, 0x0f0e0d0c0b0a0908, in, 8) ==
	       0x93f5f5799a932462);
}

TEST(map_set_get_del)
{
	OWNED(map_free_p) struct map *m = map_new();
	int a = 1, b = 2;

	T_TRUE(!map_get(m, "x"));
	T_TRUE(!map_set(m, "x", &a));
	T_TRUE(map_get(m, "x") == &a);
	T_TRUE(map_set(m, "x", &b) == &a);
	T_INT(map_len(m), 1);
	T_TRUE(map_del(m, "x") == &b);
	T_TRUE(!map_del(m, "x"));
	T_TRUE(!map_get(m, "x"));
	T_INT(map_len(m), 0);
}

TEST(map_copies_its_keys)
{
	OWNED(map_free_p) struct map *m = map_new();
	char key[] = "first";

	map_set(m, key, m);
	key[0] = 'F';
	T_TRUE(map_get(m, "first") == m);
	T_TRUE(!map_get(m, "First"));
}

TEST(map_grows_and_finds_all)
{
	OWNED(map_free_p) struct map *m = map_new();
	static int values[5000];
	char key[16];

	for (int i = 0; i < 5000; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		T_TRUE(!map_set(m, key, &values[i]));
	}
	T_INT(map_len(m), 5000);
	for (int i = 0; i < 5000; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		T_TRUE(map_get(m, key) == &values[i]);
	}
}

TEST(map_survives_endless_coming_and_going)
{
	OWNED(map_free_p) struct map *m = map_new();
	char key[16];

	for (int i = 0; i < 50000; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		map_set(m, key, m);
		if (i >= 10) {
			snprintf(key, sizeof(key), "k%d", i - 10);
			T_TRUE(map_del(m, key) == m);
		}
	}
	T_INT(map_len(m), 10);
}

TEST(map_walk_visits_each_once_and_may_delete)
{
	OWNED(map_free_p) struct map *m = map_new();
	static int hits[300];
	const char *name;
	void *value;
	size_t pos = 0;
	char key[16];

	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		map_set(m, key, &hits[i]);
	}
	while (map_next(m, &pos, &name, &value)) {
		++*(int *)value;
		T_TRUE(map_del(m, name) == value);
	}
	for (int i = 0; i < 300; i++)
		T_INT(hits[i], 1);
	T_INT(map_len(m), 0);
}
