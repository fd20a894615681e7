/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A log read as NDJSON lines with offsets (an exec's output, a console) and
 * written to descriptors 1 and 2 exactly as it was: read only, starts nothing,
 * acknowledges nothing. Following, a lost connection is resumed at the byte
 * where it was lost. Signals end the program.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/client.h"

#define FOLLOW_GIVE_UP_S 60

struct follow {
	const struct cli *cli;
	struct client *client;
	enum client_side side;
	const char *path; /* without a query */
	uint64_t from;
	bool follow;  /* wait for more; else what there is */
	bool has_end; /* an exit fact ends it (an exec) */
	/* result */
	json_t *fact;	  /* exit fact, the caller's; NULL while unknown */
	bool reader_gone; /* stdout or stderr is a closed pipe */
};

/* 0: the end, or reader_gone. Else the exit code after a message. */
int follow_log(struct follow *f);
