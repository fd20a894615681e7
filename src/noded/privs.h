/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Keep the capabilities that noded's work needs, lose all others for good
 * (bounding set too), and close every descriptor above stderr that the starter
 * left open, except CAISSON_READY_FD's. */
int privs_reduce(struct err *e);
