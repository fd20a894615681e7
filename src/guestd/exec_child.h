/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The forked half of an exec: from guestd's copy to the program. It may touch
 * the root file system, so the parent bounds it by a deadline.
 */

#include <stdint.h>

#include "guestd/spec.h"

/* What a child that could not exec tells its parent, over a pipe that closes
 * silently when the exec works. */
struct exec_report {
	int32_t status; /* HTTP: 400, 403, 404, 500, 503, 504 */
	int32_t errnum;
	char field[16]; /* of the spec, "" for none */
	char msg[400];
};

struct exec_setup {
	const struct exec_spec *spec;
	const char *default_user; /* "" = stay who we are */
	int stdio[3];
	int report_fd;
	int cgroup_procs; /* -1 = none */
	int proc;	  /* directory of /proc */
};

/* Never returns. */
__attribute__((noreturn)) void exec_child(const struct exec_setup *s);
