/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What `doctor` finds: lines of ok, warn and fail, each failure with a remedy.
 * Looks only; blocking. */

#include <jansson.h>
#include <stdbool.h>

#include "cli/cli.h"
#include "cli/stack.h"

enum finding { FINDING_OK, FINDING_WARN, FINDING_FAIL };

struct doctor {
	struct cli *cli;
	const struct stack *stack;
	json_t *lines; /* {check, state, detail, remedy?} */
	bool failed;
};

void doctor_say(struct doctor *d, enum finding f, const char *check,
		const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* This machine. */
void doctor_host(struct doctor *d);
/* The daemons, the API, and, unless quick, a sandbox. */
void doctor_service(struct doctor *d, bool quick);
/* Who listens, who runs with which rights, compared with what should be. */
void doctor_boundary(struct doctor *d);
int doctor_print(const struct doctor *d);

/* Of /proc/net/tcp's line: local port and inode of a listening socket, and
 * whether its address is a loopback. False: none. Pure. */
bool proc_listener(const char *line, bool v6, unsigned *ret_port,
		   unsigned long *ret_inode, bool *ret_loopback);
/* A number behind "Name:" in the text of /proc/PID/status; -1 if absent.
 * Pure. */
long long proc_status(const char *text, const char *name, int base);
