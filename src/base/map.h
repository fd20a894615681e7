/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * String-keyed hash table with a per-table random key (SipHash-2-4), so that a
 * peer who chooses the keys cannot choose the collisions. Keys are copied;
 * values are borrowed pointers.
 */

#include <stddef.h>
#include <stdint.h>

struct map;

struct map *map_new(void);
struct map *map_free(struct map *m); /* values are not touched */
size_t map_len(const struct map *m);
void *map_get(const struct map *m, const char *key); /* NULL if absent */
/* Insert or replace; returns the value that was there, or NULL. */
void *map_set(struct map *m, const char *key, void *value);
/* Remove; returns the value that was there, or NULL. */
void *map_del(struct map *m, const char *key);
/* Walk in no order: start with *pos = 0; returns 1 and sets the outputs, or 0
 * at the end. The current key may be deleted during the walk, nothing added. */
int map_next(const struct map *m, size_t *pos, const char **ret_key,
	     void **ret_value);

/* SipHash-2-4 with the key k0 | k1. */
uint64_t map_siphash(uint64_t k0, uint64_t k1, const void *p, size_t n);
