/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a sandbox uses, from facts of the host alone: the VMM's cgroup where
 * accounting exists, else its process; the blocks of its overlay. Nothing that
 * a guest, a VMM or a monitor says goes into it.
 *
 * The cgroup survives its process, so the processor time of a VMM that died is
 * still exact; memory and disk then stay what they were. A few short reads of
 * /proc and cgroupfs, no waiting.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct usage {
	bool is_known;
	bool has_disk;
	int64_t at_ms;
	/* since the sandbox began on this node */
	uint64_t cpu_ms, net_rx_bytes, net_tx_bytes;
	/* now */
	uint64_t memory_bytes, disk_bytes;
};

struct usage_source {
	int pid; /* 0: no process any more */
	uint32_t slot;
	int disk_fd;	      /* -1: not known */
	uint64_t cpu_base_ms; /* used before it was this sandbox's */
	char cgroup[192];     /* found at the first reading; "" before */
};

/* Bring u up to date: what cannot be read keeps its value, and counters never
 * go back. */
void usage_read(struct usage_source *src, struct usage *u);
/* Processor time that the VMM has used in its life; 0 if unknown. */
uint64_t usage_cpu_ms(struct usage_source *src);

/* ---- pure ---- */

/* utime + stime of /proc/PID/stat, in ticks. The name in it is any text. */
bool usage_parse_stat(const char *text, uint64_t *ret_ticks);
/* Resident pages of /proc/PID/statm. */
bool usage_parse_statm(const char *text, uint64_t *ret_pages);
/* The v2 path of /proc/PID/cgroup, if it is the VMM's group of this slot. */
bool usage_parse_cgroup(const char *text, uint32_t slot, char *ret, size_t max);
/* usage_usec of cpu.stat. */
bool usage_parse_cpu_stat(const char *text, uint64_t *ret_us);
