/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The steps of boot_run() that have to do with mounts and the root disk. They
 * block and use paths: boot is the only time when guestd may. */

#include "base/err.h"

int boot_mount_kernel(struct err *e); /* /dev /proc /sys */
void boot_load_modules(void);	      /* /modules/order; failures are logged */
int boot_mount_disk(struct err *e);
int boot_switch_root(struct err *e); /* stays this process */
void boot_mount_rest(void);	     /* /run /dev/pts /dev/shm cgroup2 */
/* /etc/NAME becomes a file of the tmpfs; its descriptor or -1. */
int boot_cover_file(const char *name, const char *content);
