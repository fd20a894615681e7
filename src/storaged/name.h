/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a client may call things, and the requests of proto/storaged.h as a
 * whole: pure checks, before any name becomes part of a path. */

#include <stdbool.h>
#include <stddef.h>

#include "base/channel.h"
#include "proto/storaged.h"

/* 64 lower-case hex digits. */
bool digest_valid(const char *s);
/* 1..ST_NAME_MAX-1 of [a-z0-9_.-], not starting with a dot: it can be neither
 * "..", nor hidden, nor leave its folder. */
bool name_valid(const char *s);

extern const struct channel_op storaged_ops[ST_OP_MAX_];

/*
 * Is this a request that an honest client sends? Every string ends within its
 * array, text_n is the text's length, names and digests are of their form where
 * the operation uses them. 0, or -EBADMSG (cut it off), or -EINVAL (a name that
 * a person may have chosen: answer with *e).
 */
int request_check(const struct st_req *q, size_t n, struct err *e);
