/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One attached exec, from here: output to descriptors 1 and 2, input from 0,
 * exact across lost connections (cli/attach.h), until its exit fact, a refusal,
 * or the user's leave. Runs a loop of its own and returns when it is over.
 *
 * Signals without a terminal: the first SIGINT, SIGTERM or SIGHUP goes to the
 * command's whole tree, the second leaves; the command runs on. With a raw
 * terminal keys are the guest's, and a signal from outside leaves.
 *
 * The line may break as often as it likes. What ends the waiting is give_up_ms
 * without a message from the server.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/client.h"

#define SESSION_GIVE_UP_S 120

struct session_spec {
	const struct cli *cli;
	struct client *control; /* mints tokens; its context is used */
	const char *sandbox;	/* as the user calls it, for remedies */
	const char *exec;
	const char *token; /* NULL: mint one */
	uint64_t from;
	bool fresh;	 /* made by us: stdin begins at 0 */
	bool watch;	 /* look only */
	bool with_stdin; /* descriptor 0 is its input */
	bool tty;	 /* it has a pty: sizes, and raw mode if with_stdin */
	const char *detach_keys; /* NULL = the default */
	bool no_escapes;	 /* `~` is an ordinary key */
	uint64_t give_up_ms;
};

struct session_end {
	json_t *fact;	  /* exit fact, the caller's; NULL if it is not known */
	bool detached;	  /* by keys */
	bool interrupted; /* by last_signal */
	bool reader_gone; /* stdout or stderr is a closed pipe */
	int last_signal;
};

/* 0: one field of *ret says why. Else the exit code, after a message. */
int session_run(const struct session_spec *spec, struct session_end *ret);
/* The exit code of an end, after the note that goes with it. */
int session_exit_code(const struct session_spec *spec,
		      const struct session_end *end);
