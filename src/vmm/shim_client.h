/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Client of the interposer inside the VMM (proto/shim.h), over a connected
 * stream socket. One request at a time; nothing blocks. Answers are fixed
 * structs; the image's completion pipe is understood by shim_image_parse() as
 * its bytes come.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"
#include "proto/shim.h"

struct shim_client;

struct shim_client *shim_client_new_take(struct loop *l, int fd,
					 void (*on_close)(void *owner,
							  const struct err *e),
					 void *owner);
struct shim_client *shim_client_free(struct shim_client *c);

/* rep is NULL if e is set. -EBUSY while one is on its way, -EPIPE when dead.
 * fds stay the caller's. */
int shim_client_call(struct shim_client *c, enum shim_op op, uint64_t a,
		     const int *fds, size_t n_fds, uint64_t timeout_ms,
		     void (*done)(void *arg, const struct shim_rep *rep,
				  const struct err *e),
		     void *arg);

enum { SHIM_IMAGE_DONE, SHIM_IMAGE_MORE };
/* What came through the pipe so far. SHIM_IMAGE_DONE sets *ret (runs follow it
 * in b); is_eof with less is -EPIPE: the image died. ram_bytes bounds what is
 * believed; -EBADMSG for what no image writes; the image's own error. Pure. */
int shim_image_parse(struct buf *b, bool is_eof, uint64_t ram_bytes,
		     struct shim_image_done *ret);
