/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The bodies of the node RPC (doc/node-rpc.md), read strictly into fixed
 * structs: pure functions of the bytes, no allocation that outlives them.
 * Digests are accepted as 64 hex characters with or without "sha256:" and kept
 * as plain hex.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SPEC_TIME_LEFT_MAX_MS 3600000

struct release {
	char digest[72], kernel[72], initramfs[72], root[72]; /* hex */
};

struct resources {
	uint32_t vcpus, memory_mib, disk_mib;
};

struct spec {
	struct release release;
	struct resources res;
	char hostname[64];
	char digest[72]; /* of all of it, hex */
};

struct command {
	char incarnation[32], operation[32];
	uint64_t generation, fence;
	uint64_t time_left_ms;
};

/* All: 0, or -EINVAL with *e naming the field. */
int spec_parse_ensure(const void *p, size_t n, struct command *ret_cmd,
		      struct spec *ret_spec, struct err *e);
int spec_parse_end(const void *p, size_t n, struct command *ret_cmd,
		   struct err *e);
/* operation, generation and fence stay empty. */
int spec_parse_prepare(const void *p, size_t n, struct command *ret_cmd,
		       struct spec *ret_spec, struct err *e);

/* "sha256:" + 64 hex or 64 hex (lower case) -> 64 hex. 0 or -EINVAL. */
int spec_digest(const char *s, char ret[72]);
/* SHA-256 of a text, as 64 hex. */
void spec_hash(const char *text, char ret[72]);
