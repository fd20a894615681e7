/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The output of one exec: bytes of stdout and stderr, or of its terminal, in
 * arrival order, under one running offset, in a bounded memory. Pure: no
 * descriptors, no clock.
 *
 * Bytes lie in chunks; a chunk holds runs, each one kind of bytes with its
 * length in front. The oldest chunks are dropped when more than keep_bytes are
 * held, but never beyond the floor that the user sets (what a reader still
 * needs, overflow "block"); what is gone is a gap for a later reader.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct execlog {
	struct list chunks;
	uint64_t begin, end;	/* offsets held: [begin, end) */
	uint64_t floor;		/* what a reader still needs begins here */
	size_t slack;		/* kept below the floor, see exec.h */
	uint64_t n_kind[3];	/* all stdout, stderr, pty bytes ever */
	uint64_t dropped_bytes; /* dropped before any reader had them */
	uint64_t taken;		/* highest offset that any reader had */
	size_t keep_bytes, chunk_bytes;
	/* where the last piece was found */
	const void *memo_chunk;
	size_t memo_at;
	uint64_t memo_offset;
	size_t *total; /* memory of all logs, for a common budget */
};

/* One piece of a run, as execlog_read() shows it. */
struct execlog_piece {
	uint64_t offset;
	const uint8_t *p; /* valid until the log changes */
	size_t n;
	uint8_t kind; /* enum exec_frame: EXEC_STDOUT .. EXEC_PTY */
};

/* total: counter of memory held by all logs together; may be NULL. */
void execlog_init(struct execlog *l, size_t keep_bytes, size_t *total);
void execlog_fini(struct execlog *l);

/* Room for at most *ret_n more bytes of a kind, at least one; NULL only when
 * memory is gone. Fill, then commit. */
uint8_t *execlog_reserve(struct execlog *l, uint8_t kind, size_t *ret_n);
void execlog_commit(struct execlog *l, size_t n);
/* Both in one, for any length. -ENOMEM with a prefix appended. */
int execlog_put(struct execlog *l, uint8_t kind, const void *p, size_t n);

/* Everything more than slack below the floor may be dropped. UINT64_MAX: all
 * may. */
void execlog_set_floor(struct execlog *l, uint64_t floor);
/* A reader had everything below offset. */
void execlog_mark_taken(struct execlog *l, uint64_t offset);
/* Bytes that may still come before the floor would have to be broken. */
size_t execlog_room(const struct execlog *l);
/* Bytes at or above the floor. */
uint64_t execlog_unread(const struct execlog *l);
/* Drop what no reader needs, whatever keep_bytes and slack say. */
void execlog_shrink(struct execlog *l);
/* Drop everything held, e.g. of a finished exec when memory is short. */
void execlog_drop_all(struct execlog *l);

/* The piece at offset, at most max bytes of one kind. false: offset is at the
 * end. offset must be within begin..end. */
bool execlog_read(struct execlog *l, uint64_t offset, size_t max,
		  struct execlog_piece *ret);
