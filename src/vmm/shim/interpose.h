/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The replaced open(), fopen() and mmap() of the VMM (names: proto/shim.h).
 * They are in force as soon as the object is preloaded; RAM is recognised once
 * interpose_ram() was called.
 */

#include "vmm/shim/image.h"

/* Where to note the mapping of RAM; borrowed for the process's life. */
void interpose_ram(struct ram *r);
