/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Follow one exec's output to its exit fact: bytes go to descriptors 1 and 2
 * exactly as they came, a lost connection is resumed at the byte where it was
 * lost (for at most 60 s without progress), and signals are handed on: the
 * first to the command's whole tree, the second ends the following.
 */

#include <jansson.h>
#include <stdbool.h>

#include "cli/cli.h"
#include "cli/client.h"

struct follow {
	const struct cli *cli;
	struct client *data;	/* carries the stream */
	struct client *control; /* carries signals meanwhile */
	int signal_fd;		/* signalfd, or -1 */
	const char *exec;	/* id */
	/* result */
	json_t *fact;	  /* exit fact (ours), NULL while unknown */
	bool interrupted; /* a second signal came */
	bool reader_gone; /* stdout or stderr is a closed pipe */
	int n_signals, last_signal;
};

/* 0: f->fact is set, or interrupted or reader_gone. Else the exit code after
 * a message. */
int follow_output(struct follow *f);
void follow_fini(struct follow *f);

/* Block SIGINT, SIGTERM, SIGHUP and read them from a descriptor. */
int follow_signals(void);
/* Undo: they end the program again. */
void unblock_signals(void);
