/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/execlog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "proto/data.h"

#define CHUNK_MAX 65536u
#define CHUNK_MIN 1024u

/* Header of a run inside a chunk. */
struct run {
	uint32_t n;
	uint8_t kind;
	uint8_t pad[3];
};

struct chunk {
	struct list link;
	uint64_t begin, end; /* offsets */
	size_t used, cap;    /* of mem */
	size_t last;	     /* where the last run's header lies */
	uint8_t mem[];
};

static void run_load(const struct chunk *c, size_t at, struct run *ret)
{
	memcpy(ret, c->mem + at, sizeof(*ret));
}

static void run_store(struct chunk *c, size_t at, const struct run *r)
{
	memcpy(c->mem + at, r, sizeof(*r));
}

void execlog_init(struct execlog *l, size_t keep_bytes, size_t *total)
{
	*l = (struct execlog){ .keep_bytes = keep_bytes,
			       .floor = UINT64_MAX,
			       .total = total };
	list_init(&l->chunks);
	l->chunk_bytes = keep_bytes / 4;
	if (l->chunk_bytes > CHUNK_MAX)
		l->chunk_bytes = CHUNK_MAX;
	if (l->chunk_bytes < CHUNK_MIN)
		l->chunk_bytes = CHUNK_MIN;
}

static void drop_first(struct execlog *l)
{
	struct chunk *c =
	    list_entry(list_first(&l->chunks), struct chunk, link);

	if (c->end > l->taken)
		l->dropped_bytes +=
		    c->end - (c->begin > l->taken ? c->begin : l->taken);
	l->begin = c->end;
	if (l->total)
		*l->total -= sizeof(*c) + c->cap;
	if (l->memo_chunk == c)
		l->memo_chunk = NULL;
	list_del(&c->link);
	free(c);
}

void execlog_fini(struct execlog *l)
{
	while (!list_empty(&l->chunks))
		drop_first(l);
}

void execlog_drop_all(struct execlog *l)
{
	while (!list_empty(&l->chunks))
		drop_first(l);
}

static struct chunk *last_chunk(const struct execlog *l)
{
	if (list_empty(&l->chunks))
		return NULL;
	return list_entry(l->chunks.prev, struct chunk, link);
}

static struct chunk *chunk_add(struct execlog *l)
{
	/* The first chunk is small: most commands say little. */
	size_t cap = list_empty(&l->chunks) && l->chunk_bytes > 4096
			 ? 4096
			 : l->chunk_bytes;
	struct chunk *c = malloc(sizeof(*c) + cap);

	if (!c)
		return NULL;
	c->begin = c->end = l->end;
	c->used = 0;
	c->cap = cap;
	c->last = SIZE_MAX;
	list_add_tail(&l->chunks, &c->link);
	if (l->total)
		*l->total += sizeof(*c) + cap;
	return c;
}

/* In its last chunk, for a run and a byte of it. */
static bool has_room(const struct execlog *l)
{
	const struct chunk *c = last_chunk(l);

	return c && c->cap - c->used > sizeof(struct run);
}

uint8_t *execlog_reserve(struct execlog *l, uint8_t kind, size_t *ret_n)
{
	struct chunk *c;
	struct run r;

	CHECK(kind >= EXEC_STDOUT && kind <= EXEC_PTY);
	c = has_room(l) ? last_chunk(l) : chunk_add(l);
	if (!c)
		return NULL;
	if (c->last != SIZE_MAX) {
		run_load(c, c->last, &r);
		if (r.kind == kind || r.n == 0) {
			r.kind = kind;
			run_store(c, c->last, &r);
			*ret_n = c->cap - c->used;
			return c->mem + c->used;
		}
	}
	r = (struct run){ .kind = kind };
	c->last = c->used;
	run_store(c, c->last, &r);
	c->used += sizeof(r);
	*ret_n = c->cap - c->used;
	return c->mem + c->used;
}

static void trim(struct execlog *l)
{
	while (l->end - l->begin > l->keep_bytes) {
		struct chunk *c =
		    list_entry(list_first(&l->chunks), struct chunk, link);

		/* never the one being written */
		if (c == last_chunk(l) ||
		    (l->floor != UINT64_MAX && c->end + l->slack > l->floor))
			return;
		drop_first(l);
	}
}

void execlog_commit(struct execlog *l, size_t n)
{
	struct chunk *c = last_chunk(l);
	struct run r;

	CHECK(c && c->last != SIZE_MAX && n <= c->cap - c->used);
	run_load(c, c->last, &r);
	r.n += (uint32_t)n;
	run_store(c, c->last, &r);
	c->used += n;
	c->end += n;
	l->end += n;
	l->n_kind[r.kind - EXEC_STDOUT] += n;
	trim(l);
}

int execlog_put(struct execlog *l, uint8_t kind, const void *p, size_t n)
{
	const uint8_t *from = p;

	while (n > 0) {
		size_t room;
		uint8_t *to = execlog_reserve(l, kind, &room);

		if (!to)
			return -ENOMEM;
		if (room > n)
			room = n;
		memcpy(to, from, room);
		execlog_commit(l, room);
		from += room;
		n -= room;
	}
	return 0;
}

void execlog_set_floor(struct execlog *l, uint64_t floor)
{
	l->floor = floor;
	trim(l);
}

void execlog_mark_taken(struct execlog *l, uint64_t offset)
{
	if (offset > l->taken)
		l->taken = offset;
}

uint64_t execlog_unread(const struct execlog *l)
{
	return l->end > l->floor ? l->end - l->floor : 0;
}

void execlog_shrink(struct execlog *l)
{
	while (!list_empty(&l->chunks)) {
		const struct chunk *c =
		    list_entry(list_first(&l->chunks), struct chunk, link);

		if (c == last_chunk(l) || c->end > l->floor)
			return;
		drop_first(l);
	}
}

size_t execlog_room(const struct execlog *l)
{
	uint64_t waiting;

	if (l->floor == UINT64_MAX)
		return SIZE_MAX;
	waiting = execlog_unread(l);
	return waiting >= l->keep_bytes ? 0 : l->keep_bytes - (size_t)waiting;
}

bool execlog_read(struct execlog *l, uint64_t offset, size_t max,
		  struct execlog_piece *ret)
{
	struct chunk *c;
	struct run r;
	uint64_t at;
	size_t i = 0;

	CHECK(offset >= l->begin && offset <= l->end && max > 0);
	if (offset == l->end)
		return false;
	/* Readers follow the end closely: search from there. */
	c = last_chunk(l);
	CHECK(c);
	while (c->begin > offset)
		c = list_entry(c->link.prev, struct chunk, link);
	at = c->begin;
	/* Many short runs are read one after the other: go on from the last. */
	if (l->memo_chunk == c && l->memo_offset <= offset) {
		i = l->memo_at;
		at = l->memo_offset;
	}
	for (; i < c->used; i += sizeof(r) + r.n) {
		run_load(c, i, &r);
		if (offset < at + r.n) {
			size_t skip = (size_t)(offset - at);

			l->memo_chunk = c;
			l->memo_at = i;
			l->memo_offset = at;
			ret->offset = offset;
			ret->p = c->mem + i + sizeof(r) + skip;
			ret->n = r.n - skip < max ? r.n - skip : max;
			ret->kind = r.kind;
			return true;
		}
		at += r.n;
	}
	check_failed("a chunk's runs cover its offsets", __FILE__, __LINE__);
}
