/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One sandbox's monitor: listens for sandboxd, holds the VM's connections
 * (monitor/vmlink.h, monitor/guest.h), walks it through its life
 * (monitor/life.h) and serves its data plane (monitor/data.h).
 *
 * It outlives sandboxd: when that goes, the monitor goes on serving and answers
 * the next one's MON_STATUS. It holds no authority beyond its one VM, and its
 * working directory is the slot's.
 */

#include <sys/types.h>

#include "base/loop.h"

struct monitor;

/* listen_fd: SOCK_SEQPACKET, taken over. Peers of another uid than node_uid
 * (and root) are turned away. */
struct monitor *monitor_new_take(struct loop *l, int listen_fd, uid_t node_uid,
				 unsigned slot);
struct monitor *monitor_free(struct monitor *m);
