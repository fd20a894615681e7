/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* SIGINT, SIGTERM and SIGHUP as a descriptor, for verbs that must tidy up. */

/* Block them and read them from a signalfd (non-blocking). */
int follow_signals(void);
/* Undo: they end the program again. */
void unblock_signals(void);
