/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Data connections: the preamble is read (and nothing behind it), one byte
 * answered, and the descriptor handed to the sandbox's monitor. A client that
 * does not send its preamble within two seconds is cut; at most 256 may be in
 * that state at once.
 */

struct node;
struct data;

/* Serves on listen_fd, which is taken over. */
struct data *data_new_take(struct node *n, int listen_fd);
struct data *data_free(struct data *d);
