/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The standard input of one exec. Bytes are named by their position, so whoever
 * lost an answer or a connection repeats from anywhere and nothing is written
 * twice.
 *
 *   0 ......... taken ......... taken + held ......... total
 *     the program's    held here     not yet come        (once its end
 *     pipe has them                                       is known)
 *
 * Writers are told `taken` only. A new writer may say other bytes than those
 * held, from any position that was not taken: its first ones replace them.
 * The end of file is delivered once, when everything before it was taken. On a
 * terminal it is the line discipline's end-of-file character (twice, if a line
 * was begun and not ended); the terminal itself stays open.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/loop.h"

struct exec;

struct exec_stdin {
	int fd; /* -1: closed or never open */
	struct loop_io io;
	struct buf held;
	uint64_t taken;
	uint64_t total; /* UINT64_MAX: unknown */
	bool is_ended;	/* its end was delivered */
	bool is_gone;	/* the program does not take any more */
	bool in_line;	/* a terminal's: the last byte did not end a line */
};

void exec_stdin_init(struct exec *x);
void exec_stdin_fini(struct exec *x);
/* Takes fd, which must not block. */
void exec_stdin_open_take(struct exec *x, int fd);

/* Bytes accepted so far: taken and held. */
uint64_t exec_stdin_accepted(const struct exec *x);
/* How many more may be put now. */
size_t exec_stdin_room(const struct exec *x);
/* A new writer begins at offset: what is held from there on is forgotten. */
void exec_stdin_rewrite(struct exec *x, uint64_t offset);
/* At most exec_stdin_room() bytes. 0; -ERANGE: a hole before them; -EINVAL:
 * they lie beyond the end; -ENOMEM. Bytes for a program that takes no more are
 * accepted and dropped (is_gone). */
int exec_stdin_put(struct exec *x, uint64_t offset, const void *p, size_t n);
/* The whole of it is total bytes long. The same errors. */
int exec_stdin_end(struct exec *x, uint64_t total);
