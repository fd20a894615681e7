/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Webhooks: events become deliveries in the database, due ones are claimed
 * under a lease and posted by a child process each. At least once: a
 * controller that dies between the receiver's answer and its own note leaves a
 * lease that runs out, and the delivery is made again.
 */

#include "controller/controller.h"

#define HOOKS_AT_ONCE 16u
/* longer than a POST may take, and than the note about it may wait */
#define HOOK_LEASE_S "40"

struct hooks;
/* allow: networks beside the public ones; borrowed. */
struct hooks *hooks_new(struct controller *c, const struct addr_net *allow,
			size_t n_allow);
/* Before the database's pool goes. Posts under way are cut. */
void hooks_stop(struct hooks *h);
struct hooks *hooks_free(struct hooks *h);
