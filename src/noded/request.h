/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The bytes a client may send, judged before anything acts on them: pure, and
 * the whole surface that a taken-over caisson-node has towards root. A refusal
 * here means "no honest client sends this": the connection is closed.
 */

#include <stddef.h>

#include "base/channel.h"
#include "proto/noded.h"

#define NODED_VCPUS_MAX	  64u
#define NODED_MEM_MIB_MIN 16u
#define NODED_MEM_MIB_MAX (1u << 20)

extern const struct channel_op noded_ops[NODED_OP_MAX_];

/* Copy and check one message of n bytes with n_fds descriptors. 0, or -EBADMSG
 * with *e. Fields that an operation ignores come out as zero. */
int request_decode(const void *msg, size_t n, size_t n_fds,
		   struct noded_req *ret, struct err *e);
const char *request_name(unsigned op); /* "slot_create", ... */
