/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Remove a folder and all below, never following a link and never crossing
 * into another file system; files that were made immutable are released first.
 * 0 also if it is absent. Refuses "/" and folders directly below it. */

#include "base/err.h"

int tree_remove(const char *path, struct err *e);
