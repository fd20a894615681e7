/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names that somebody else chose: how to print one, and where an archive's
 * entry may go. Pure.
 */

#include <stdbool.h>
#include <stddef.h>

#define NAME_PATH_MAX 4096u

/* What a terminal may be shown: bytes that are no UTF-8, control characters,
 * those that change the direction of writing, and the backslash become \xNN
 * (each byte). Unambiguous. Allocated. */
char *name_shown(const char *s, size_t n);
/* Of a string; NULL is "". */
char *name_shown_str(const char *s);

/* The path of an entry below the top of the tree that is unpacked: no ".", no
 * empty parts; "" is the top itself. -EINVAL for absolute names and "..",
 * -ENAMETOOLONG. */
int name_of_entry(const char *name, char ret[NAME_PATH_MAX]);

/* May an entry `name` (of name_of_entry()) be a symbolic link to target? Only
 * to a relative one that stays below the top, whatever lies on the way: ".."
 * counts at the start alone. */
bool name_link_stays(const char *name, const char *target);
