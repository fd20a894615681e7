/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sandboxd (and root's CLI) -> storaged: artifacts by digest, overlays and refs
 * of a local folder, over SOCK_SEQPACKET at RUN/storaged.sock (0660
 * caisson-store:caisson-node; uids of caisson-node and root are let in).
 *
 * An artifact is named by SHA-256 of its bytes (lower-case hex) and read-only.
 * It enters by a draft: DRAFT_NEW gives an empty O_RDWR file, the caller fills
 * it, DRAFT_COMMIT hashes and publishes it (write -> fsync -> verify ->
 * rename). An overlay is a sandbox's writable disk (qcow2 without a backing
 * file name), named by its VM. A ref is a small JSON text under a name (boot
 * checkpoints).
 */

#include <stdint.h>

#include "base/channel.h"

#define STORAGED_VERSION 1u
#define ST_DIGEST_MAX	 65u  /* 64 hex + NUL */
#define ST_NAME_MAX	 128u /* [a-z0-9_.-], not starting with a dot */
#define ST_REF_MAX	 16384u
#define ST_LIST_MAX	 512u

enum st_op {
	ST_HELLO = 1,
	ST_OPEN,      /* digest -> fd O_RDONLY; verdict re-used while the file's
		       * (dev, ino, size, mtime, ctime) is unchanged, else hashed
		       * again: a mismatch is -EBADMSG */
	ST_STAT,      /* digest -> size */
	ST_DRAFT_NEW, /* -> id, fd O_RDWR */
	ST_DRAFT_COMMIT,   /* id, digest ("" = any) -> digest, size; may take
			    * seconds, others are served meanwhile */
	ST_DRAFT_DROP,	   /* id */
	ST_OVERLAY_NEW,	   /* name, size (virtual bytes) -> fd O_RDWR */
	ST_OVERLAY_COMMIT, /* name -> digest, size: becomes an artifact */
	ST_OVERLAY_DROP,   /* name; absent is success */
	ST_OVERLAY_LIST,   /* -> names */
	ST_REF_SET,	   /* name, text */
	ST_REF_GET,	   /* name -> text; -ENOENT */
	ST_REF_DROP,
	ST_SPACE, /* -> size = free bytes, a = total bytes */
	ST_OP_MAX_,
};

struct st_req {
	struct channel_hdr hdr;
	char digest[ST_DIGEST_MAX];
	char name[ST_NAME_MAX];
	char pad[7];
	uint64_t id, size;
	uint32_t text_n;
	uint32_t pad2;
	char text[]; /* REF_SET */
};

struct st_rep {
	struct channel_hdr hdr;
	int32_t r;     /* 0 or -errno */
	uint32_t kind; /* enum err_kind if r < 0 */
	char digest[ST_DIGEST_MAX];
	char pad[7];
	uint64_t id, size, a;
	char msg[200];
	uint32_t text_n; /* REF_GET: text; OVERLAY_LIST: names, each with NUL */
	uint32_t pad2;
	char text[];
};
