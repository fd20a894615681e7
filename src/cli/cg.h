/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Control groups, version 2 hierarchy only (also where it lies beside version
 * 1): they say exactly which processes are ours, so that nothing is ever ended
 * by a remembered pid or a name. Paths are absolute. Blocking, with bounds.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* From the text of /proc/self/mounts: where a cgroup2 is mounted, preferring
 * /sys/fs/cgroup. Allocated; NULL if there is none. Pure. */
char *cg_find_root(const char *mounts, size_t n);
char *cg_root(void);

int cg_make(const char *path, struct err *e); /* parents too; 0 if there */
/*
 * The same, but a group that is there and empty is replaced by a new one. On
 * Linux 6.18 a group remembers that cgroup.kill was used on it, and a process
 * that one of its members clones into another group (as noded does with VMs) is
 * then killed at birth.
 */
int cg_renew(const char *path, struct err *e);
int cg_enter(const char *path, struct err *e); /* this process */
bool cg_has_pid(const char *path, pid_t pid);
/* Anything alive in it or below? False if it is not there. */
bool cg_populated(const char *path);
/* Send signo to each process directly in it. */
void cg_signal(const char *path, int signo);
/* SIGKILL all in it and below. */
void cg_kill(const char *path);
/* Wait until it is empty: true, or false at the deadline. */
bool cg_wait_empty(const char *path, unsigned timeout_ms);
/* Remove it and all below; they must be empty. 0 also if absent. */
int cg_remove(const char *path, struct err *e);
