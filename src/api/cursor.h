/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Cursors of lists: where a page ended. Opaque to clients; a cursor of one list
 * is not one of another. They grant nothing: a forged one only chooses where to
 * read on in one's own list. Pure. */

#include <stdbool.h>
#include <stdint.h>

#define CURSOR_TEXT 24u /* with NUL */

/* kind: one letter per list. seq >= 0. */
void cursor_encode(char kind, int64_t seq, char ret[CURSOR_TEXT]);
bool cursor_decode(char kind, const char *text, int64_t *ret_seq);
