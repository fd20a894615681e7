/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/privs.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#define BIT(cap) (1ull << (cap))

static const uint64_t kept =
    BIT(CAP_SYS_ADMIN) |    /* namespaces, mounts, pivot_root */
    BIT(CAP_NET_ADMIN) |    /* tap, rtnetlink, nft */
    BIT(CAP_SETUID) |	    /* children become their slot's uid */
    BIT(CAP_SETGID) |	    /* and gid, groups */
    BIT(CAP_SETPCAP) |	    /* children empty their bounding set */
    BIT(CAP_SYS_CHROOT) |   /* a jail is built from the real root */
    BIT(CAP_CHOWN) |	    /* sockets of a slot: group or owner */
    BIT(CAP_DAC_OVERRIDE) | /* RUN may belong to another user */
    BIT(CAP_KILL);	    /* a VMM that missed its deadline */

static void close_inherited(void)
{
	const char *text = getenv("CAISSON_READY_FD");
	long ready = text ? strtol(text, NULL, 10) : -1;

	if (ready < 3 || ready > 1 << 20) {
		close_range(3, ~0u, 0);
		return;
	}
	if (ready > 3)
		close_range(3, (unsigned)ready - 1, 0);
	close_range((unsigned)ready + 1, ~0u, 0);
}

int privs_reduce(struct err *e)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2] = { { 0 } };

	close_inherited();
	for (int cap = 0; cap < 64; cap++) {
		if (kept & BIT(cap))
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
			return err_errno(e, errno,
					 "drop capability %d: %m; noded is "
					 "started by root",
					 cap);
	}
	for (int i = 0; i < 2; i++) {
		d[i].permitted = (uint32_t)(kept >> (32 * i));
		d[i].effective = d[i].permitted;
	}
	if (syscall(SYS_capset, &h, d) < 0)
		return err_errno(e, errno,
				 "set capabilities: %m; noded needs root with "
				 "SYS_ADMIN and NET_ADMIN");
	return 0;
}
