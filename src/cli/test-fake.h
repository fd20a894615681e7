/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For tests: a server in a process of its own that speaks as much of the API as
 * exec, attach and forward need, with one sandbox ("box") and one exec, whose
 * line can be made to break; and the command line run against it in another.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

#define FAKE_SANDBOX "sbaaaaaaaaaaaaaaaaaaaa"
#define FAKE_EXEC    "ex_aaaaaaaaaaaaaaaaaaaabbbbbbbb"

struct fake_opts {
	uint64_t output;   /* bytes that the command writes at once */
	bool echo;	   /* what it reads, it writes */
	bool until_signal; /* it ends by one */
	bool ignore_signals;
	uint64_t cut_every; /* bytes, both ways together, of one connection */
	unsigned die_after; /* connections, then the server is gone */
	const char *fact;   /* exit fact; NULL = exited with 0 */
	int refuse;	    /* attach: status, with this body */
	const char *refusal;
	const char *closing; /* sent instead of the exit */
	bool token_once;     /* the first token is good for one connection */
};

struct fake {
	pid_t pid;
	int port;
	char dir[64]; /* "body": newest POST of an exec; "heard": signals */
};

/* Ends with the test's process at the latest. */
void fake_start(struct fake *f, const struct fake_opts *o);
void fake_stop(struct fake *f);
/* What the server wrote into f->dir/name, "" if nothing; valid until the next
 * call. */
const char *fake_note(const struct fake *f, const char *name);

/* One byte of the command's output at an offset, and on which stream. */
uint8_t fake_byte(uint64_t at);
bool fake_is_stderr(uint64_t at);

/* `caisson WORDS...` as a process with these descriptors, which are taken
 * over (-1: /dev/null). */
pid_t fake_cli_take(const struct fake *f, char *const *argv, int in, int out,
		    int err);
/* ... at a new terminal; *ret_master is its other end. */
pid_t fake_cli_pty(const struct fake *f, char *const *argv, unsigned cols,
		   unsigned rows, int *ret_master);
/* Exit code, or 1000 + signal. */
int fake_wait(pid_t pid);

struct fake_run {
	int code;
	struct buf out, err; /* NUL behind */
};

/* Run to the end with this input (NULL: /dev/null). */
void fake_run(const struct fake *f, char *const *argv, const void *in,
	      size_t n_in, struct fake_run *ret);
void fake_run_fini(struct fake_run *r);
#define ARGV(...)                                                              \
	(char *[])                                                             \
	{                                                                      \
		(char[]){ "caisson" }, __VA_ARGS__, NULL                       \
	}
#define W(s)                                                                   \
	(char[])                                                               \
	{                                                                      \
		s                                                              \
	}
