/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tar (plain or in zstd) into a folder of this machine. What comes is
 * hostile: it was written inside a sandbox. libarchive reads the format alone;
 * each folder is opened below the destination by openat2(RESOLVE_BENEATH |
 * NO_SYMLINKS | NO_MAGICLINKS), so neither a name nor a link, made by the
 * archive or there before, leads out.
 *
 * Kept: contents, permission bits 0777, times, hard links between files of the
 * tree, symbolic links whose target stays inside. Left out with a word: links
 * that leave the tree, devices, FIFOs. Refused, entry by entry: "..", absolute
 * names, what goes through a link. Owners, setuid, setgid, sticky and extended
 * attributes are not taken over. A file that is there is replaced, never
 * written into.
 *
 * Blocking; runs in a process of its own (transit.h), whose memory it bounds.
 */

#include <stdbool.h>
#include <stdint.h>

struct unpack_limits {
	uint64_t bytes, entries; /* 0 = none */
};

struct unpack_count {
	uint64_t entries, bytes; /* made */
	uint64_t left_out;	 /* links that leave, devices */
	uint64_t refused;	 /* what no honest archive holds */
};

/* Read from in_fd until the archive's end. 0; -EBADMSG: no such archive, or it
 * is cut; -E2BIG: over a limit; another -errno: this machine (a full disk).
 * Each has been told on stderr. */
int unpack_run(int in_fd, int top_fd, const struct unpack_limits *l,
	       struct unpack_count *ret);
