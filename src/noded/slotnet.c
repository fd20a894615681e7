/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/slotnet.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/if_tun.h>
#include <linux/rtnetlink.h>

#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "noded/nl.h"
#include "noded/rules.h"

#define NFT_TIMEOUT_MS 3000
#define LO_INDEX       1 /* the kernel's, in every new namespace */

/* Before the tap exists, so that it is born with `default`'s values. */
static const struct {
	const char *path, *value;
	bool may_lack; /* a kernel without that feature has nothing to forbid */
} sysctls[] = {
	{ "/proc/sys/net/ipv6/conf/all/disable_ipv6", "1", true },
	{ "/proc/sys/net/ipv6/conf/default/disable_ipv6", "1", true },
	{ "/proc/sys/net/ipv4/ip_forward", "0", false },
	{ "/proc/sys/net/ipv4/conf/all/rp_filter", "1", false },
	{ "/proc/sys/net/ipv4/conf/default/rp_filter", "1", false },
	{ "/proc/sys/net/ipv4/conf/all/route_localnet", "0", false },
	{ "/proc/sys/net/ipv4/conf/default/route_localnet", "0", false },
	{ "/proc/sys/net/ipv4/conf/all/accept_redirects", "0", false },
	{ "/proc/sys/net/ipv4/conf/all/send_redirects", "0", false },
	{ "/proc/sys/net/ipv4/conf/default/send_redirects", "0", false },
	{ "/proc/sys/net/ipv4/tcp_syncookies", "1", true },
};

static int set_sysctls(struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(sysctls); i++) {
		owned_fd fd = open(sysctls[i].path, O_WRONLY | O_CLOEXEC);

		if (fd < 0 && errno == ENOENT && sysctls[i].may_lack)
			continue;
		if (fd < 0 || write_all(fd, sysctls[i].value, 1) < 0)
			return err_errno(e, errno,
					 "set %s: %m; noded needs a writable "
					 "/proc/sys",
					 sysctls[i].path);
	}
	return 0;
}

static int tap_open(int *ret, struct err *e)
{
	/* no IFF_VNET_HDR: the guest's offload metadata stays out of the
	 * host's kernel; the large MTU makes up for it */
	struct ifreq ifr = { .ifr_name = SLOTNET_TAP,
			     .ifr_flags = IFF_TAP | IFF_NO_PI };
	owned_fd fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_errno(e, errno,
				 "open /dev/net/tun: %m; load the module "
				 "'tun'");
	if (ioctl(fd, TUNSETIFF, &ifr) < 0)
		return err_errno(e, errno, "make " SLOTNET_TAP ": %m");
	*ret = take_fd(&fd);
	return 0;
}

static int program(struct err *e)
{
	static const uint8_t host_mac[6] = { 2, 0, 0, 0, 0, 1 };
	static const uint8_t guest_mac[6] = { 2, 0, 0, 0, 0, 2 };
	uint32_t host = inet_addr(SLOTNET_HOST_IP);
	uint32_t guest = inet_addr(SLOTNET_GUEST_IP);
	int tap = (int)if_nametoindex(SLOTNET_TAP);
	struct nl b;

	if (tap == 0)
		return err_errno(e, errno, "find " SLOTNET_TAP ": %m");
	nl_init(&b);
	nl_link(&b, "lo up", LO_INDEX, NULL, 0);
	nl_link(&b, "tap0 up", tap, host_mac, SLOTNET_MTU);
	nl_addr(&b, "address of tap0", tap, host, 32);
	nl_route(&b, "route to the guest", tap, guest, 32, SLOTNET_TABLE,
		 RTN_UNICAST);
	/* Every address is local (TPROXY, and ICMP errors have a source), but
	 * the guest's own must be found first: `local` moves behind it. */
	nl_route(&b, "local default", LO_INDEX, 0, 0, RT_TABLE_LOCAL,
		 RTN_LOCAL);
	nl_rule_add(&b, "rule 10", 10, SLOTNET_TABLE);
	nl_rule_add(&b, "rule 20", 20, RT_TABLE_LOCAL);
	nl_rule_del(&b, "rule 0", 0);
	nl_neigh(&b, "neighbour of the guest", tap, guest, guest_mac);
	return nl_run(&b, e);
}

static int memfd_with(const char *text, struct err *e)
{
	size_t n = strlen(text);
	int fd = memfd_create("nft", MFD_CLOEXEC);

	if (fd < 0)
		return err_errno(e, errno, "memfd for nft: %m");
	if (write_all(fd, text, n) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
		int r = err_errno(e, errno, "memfd for nft: %m");

		close(fd);
		return r;
	}
	return fd;
}

/* Exit status of the process, or a negative errno. */
static int wait_exit(int pidfd, int timeout_ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	siginfo_t si = { 0 };
	int r = poll(&p, 1, timeout_ms);

	if (r <= 0)
		pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	if (waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED) < 0)
		return -errno;
	if (r <= 0)
		return -ETIMEDOUT;
	return si.si_code == CLD_EXITED ? si.si_status : -ECHILD;
}

int slotnet_rules_load(const char *nft, const char *rules, struct err *e)
{
	const char *argv[] = { nft, "-f", "-", NULL };
	const char *envp[] = { "PATH=/usr/sbin:/usr/bin", "LC_ALL=C", NULL };
	owned_fd in = memfd_with(rules, e), out = -1, pidfd = -1;
	struct spawn s = { .argv = argv,
			   .envp = envp,
			   .exe_fd = -1,
			   .die_with_parent = true,
			   .no_new_privs = true };
	char said[240] = "";
	ssize_t n;
	pid_t pid;
	int r;

	if (in < 0)
		return in;
	out = memfd_with("", e);
	if (out < 0)
		return out;
	s.stdio[0] = in;
	s.stdio[1] = -1;
	s.stdio[2] = out;
	r = spawn_start(&s, &pid, &pidfd, e);
	if (r < 0)
		return err_wrap(e, "network rules (install nftables)");
	r = wait_exit(pidfd, NFT_TIMEOUT_MS);
	if (r == 0)
		return 0;
	n = pread(out, said, sizeof(said) - 1, 0);
	said[n > 0 ? n : 0] = 0;
	said[strcspn(said, "\n")] = 0;
	return err_set(e, r < 0 ? r : -EIO, ERR_INTERNAL,
		       "network rules: nft ended with %d: %s", r, said);
}

int slotnet_build(const char *nft, int *ret_tap, uint64_t *ret_inode,
		  struct err *e)
{
	owned_fd tap = -1;
	struct stat st;
	int r;

	if (unshare(CLONE_NEWNET) < 0)
		return err_errno(e, errno, "new network namespace: %m");
	if (stat("/proc/self/ns/net", &st) < 0)
		return err_errno(e, errno, "/proc/self/ns/net: %m");
	r = set_sysctls(e);
	if (r < 0)
		return r;
	r = tap_open(&tap, e);
	if (r < 0)
		return r;
	r = program(e);
	if (r < 0)
		return r;
	r = slotnet_rules_load(nft, slotnet_rules, e);
	if (r < 0)
		return r;
	*ret_tap = take_fd(&tap);
	*ret_inode = st.st_ino;
	return 0;
}
