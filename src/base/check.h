/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Assertions that are never compiled out. CHECK() states what only a bug in
 * this program can break; it must never be reachable by a peer's bytes.
 */

__attribute__((noreturn, cold)) void check_failed(const char *what,
						  const char *file, int line);

#define CHECK(x)                                                               \
	do {                                                                   \
		if (__builtin_expect(!(x), 0))                                 \
			check_failed(#x, __FILE__, __LINE__);                  \
	} while (0)
