/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a guest can address: the network namespace of its slot, looked at from
 * inside and compared with what noded builds. What cannot be read fails.
 * Root; blocking, and for a process of one thread: it enters that namespace
 * and returns. */

#include "cli/doctor.h"

/* slot: its number. The VM itself is in an empty namespace and holds no more
 * than the tap: the other end is in RUN/slots/N/netns. Routes are those of the
 * main table; what noded adds to others is not looked at. */
void guestnet_check(struct doctor *d, const char *slot);

extern const char guestnet_rules[];
/* Pure. On false, the first line (from 1) that differs. */
bool guestnet_rules_equal(const char *text, unsigned *ret_line);
/* Lines behind the heading of a table of /proc/net. Pure. */
unsigned guestnet_count(const char *text);
/* Whether an interface may be there with that address ("" = none). Pure. */
bool guestnet_address_good(const char *name, const char *ip);
