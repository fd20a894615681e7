/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The user's terminal in raw mode, and back on every way out: tty_cooked(),
 * exit(), and signals of our own faults. One terminal per process.
 */

#include <stdbool.h>

/* Keys go through untouched (Ctrl-C, Ctrl-Z and Ctrl-\ as well). 0 / -errno. */
int tty_raw(int fd);
/* As it was before tty_raw(); no-op if it is. */
void tty_cooked(void);
/* Window of the terminal at fd; false if it has none. */
bool tty_size(int fd, unsigned *ret_cols, unsigned *ret_rows);
