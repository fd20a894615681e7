/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * "I serve now": told once by a daemon to whoever started it. Both protocols
 * are optional and independent:
 *
 * - CAISSON_READY_FD=N: the line "1" is written to descriptor N, which is then
 *   closed. A starter reads from a pipe and sees either the line or, if the
 *   daemon died, the end of file.
 * - NOTIFY_SOCKET: systemd's protocol, READY=1.
 *
 * Failures are ignored: whoever waits sees that nothing came.
 */

#include "base/loop.h"

/* Also removes both variables from the environment. */
void ready_notify(void);

/* Tell it, then run the loop. SIGTERM and SIGINT end the process at once: for
 * daemons whose stop is equal to a crash. */
int ready_run(struct loop *l);
