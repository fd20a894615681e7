/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The folder of storaged:
 *   blobs/sha256/xx/HEX      artifacts, 0440; HEX.ok is the verdict on it
 *   quarantine/HEX.TIME      artifacts that were found changed: never served
 *   drafts/ID                being filled by a client; void after a restart
 *   overlays/NAME            disks of running sandboxes; they outlive us
 *   refs/NAME                small texts
 *   tmp/ trash/              unfinished and thrown away; emptied at start
 *
 * An artifact is a fresh inode that nobody but we ever had open for writing: a
 * VMM keeps its descriptors of what it wrote. It is published by write -> fsync
 * -> rename -> fsync of the folder, so a crash leaves it whole or absent.
 *
 * Short calls, except those marked "blocks", which run in worker processes.
 */

#include <stdint.h>

#include "base/err.h"
#include "proto/storaged.h"

struct store {
	int dir, blobs, drafts, overlays, refs, tmp, trash, quarantine, lock;
	char *path;
	uint64_t floor_bytes; /* less free space than this: nothing new */
};

/* Make or open the folder, lock it, sweep what a dead instance left. */
int store_open(struct store *s, const char *path, uint64_t floor_bytes,
	       struct err *e);
void store_close(struct store *s);

int store_space(const struct store *s, uint64_t *ret_free, uint64_t *ret_total,
		struct err *e);
/* -ENOSPC below the floor. */
int store_room(const struct store *s, struct err *e);

enum { STORE_VERIFIED, STORE_UNVERIFIED };
/* Open an artifact O_RDONLY into *ret; says whether its verdict holds. */
int store_blob_open(const struct store *s, const char *digest, int *ret,
		    uint64_t *ret_size, struct err *e);
/* Blocks: hash it. 0 with a new verdict written; -EBADMSG: it is not what its
 * name says, and has been moved to the quarantine. */
int store_blob_verify(const struct store *s, const char *digest, struct err *e);
/*
 * Blocks: make an artifact of a copy of `name` in folder dir (drafts or
 * overlays); the source is thrown away after success. expected "" = any.
 * -EBADMSG if the bytes have another digest: then the source stays.
 */
int store_publish(const struct store *s, int dir, const char *name,
		  const char *expected, char ret_digest[ST_DIGEST_MAX],
		  uint64_t *ret_size, struct err *e);

void store_draft_name(uint64_t id, char ret[17]);
int store_draft_new(const struct store *s, uint64_t id, int *ret,
		    struct err *e);
int store_overlay_new(const struct store *s, const char *name, uint64_t size,
		      int *ret, struct err *e);
/* Out of sight at once; its blocks are freed by store_sweep(). 0 if absent. */
int store_throw(const struct store *s, int dir, const char *name);
void store_sweep(const struct store *s); /* blocks */

/* Names with their NULs into ret (at most max bytes, ST_LIST_MAX names); *ret_n
 * bytes, *ret_total names there are. */
int store_overlay_list(const struct store *s, char *ret, size_t max,
		       uint32_t *ret_n, uint64_t *ret_total, struct err *e);

/* Blocks (fsync). */
int store_ref_set(const struct store *s, const char *name, const char *text,
		  size_t n, struct err *e);
int store_ref_get(const struct store *s, const char *name, char *ret,
		  uint32_t *ret_n, struct err *e);
int store_ref_drop(const struct store *s, const char *name, struct err *e);
