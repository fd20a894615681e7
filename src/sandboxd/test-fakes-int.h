/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by test-fakes.c (noded, everything) and test-fakes-store.c (store and
 * monitors). */

#include "sandboxd/test-fakes.h"

enum fake_mode fake_use(struct fakes *f, enum fake_who who, unsigned op);
int fake_error(const struct fakes *f, enum fake_who who, unsigned op);
void fake_on_monitor_accept(struct loop_io *io, unsigned events);
void fake_on_store_accept(struct loop_io *io, unsigned events);
