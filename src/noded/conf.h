/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What noded was told on its command line: fixed before the socket exists. */

#include <sys/types.h>

struct noded_conf {
	const char *run;     /* RUN: sockets, slots/ */
	const char *libexec; /* caisson-monitor, caisson-shim.so */
	const char *qemu;    /* the VMM's binary */
	const char *nft;     /* absolute path of nft(8) */
	const char *cgroup;  /* our cgroup's name below the v2 root */
	uid_t node_uid;	     /* who may ask (and root) */
	gid_t node_gid;
	uid_t uid_base; /* BASE + 4*N: VMM, +1: monitor, +2: worker */
};

static inline uid_t conf_vmm_uid(const struct noded_conf *c, unsigned slot)
{
	return c->uid_base + 4 * slot;
}
static inline uid_t conf_monitor_uid(const struct noded_conf *c, unsigned slot)
{
	return c->uid_base + 4 * slot + 1;
}
