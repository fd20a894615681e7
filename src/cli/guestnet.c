/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/guestnet.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"

#define RULES_MAX      (64u << 10)
#define NFT_TIMEOUT_MS 5000
#define REMEDY	       "end its sandbox; this is a fault to be reported"

/* What `nft -s list ruleset` says of a slot as noded builds it. Text is
 * compared whole: another spelling is a difference that is shown, never one
 * that is overlooked. */
/* clang-format off */
const char guestnet_rules[] =
"table netdev l2 {\n"
"\tchain in {\n"
"\t\ttype filter hook ingress device \"tap0\" priority -500; policy drop;\n"
"\t\tether saddr != 02:00:00:00:00:02 counter drop\n"
"\t\tlimit rate over 50000/second burst 10000 packets counter drop\n"
"\t\tarp operation request arp saddr ether 02:00:00:00:00:02 arp saddr ip 100.64.0.2 arp daddr ip 100.64.0.1 counter accept\n"
"\t\tether type != ip counter drop\n"
"\t\tether daddr != 02:00:00:00:00:01 counter drop\n"
"\t\tip hdrlength != 5 counter drop\n"
"\t\tip frag-off & 16383 != 0 counter drop\n"
"\t\tip saddr != 100.64.0.2 counter drop\n"
"\t\tip daddr { 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/4, 255.255.255.255 } counter drop\n"
"\t\tip protocol { tcp, udp } accept\n"
"\t\tcounter\n"
"\t}\n"
"}\n"
"table ip g {\n"
"\tchain raw_ {\n"
"\t\ttype filter hook prerouting priority raw; policy accept;\n"
"\t\tiifname \"tap0\" notrack\n"
"\t}\n"
"\n"
"\tchain pre {\n"
"\t\ttype filter hook prerouting priority mangle; policy drop;\n"
"\t\tiifname \"lo\" accept\n"
"\t\tiifname \"tap0\" meta l4proto tcp tproxy to :15001 meta mark set 0x00000001 accept\n"
"\t\tiifname \"tap0\" meta l4proto tcp meta mark set 0x00000003 accept\n"
"\t\tiifname \"tap0\" udp dport 53 meta mark set 0x00000001 accept\n"
"\t\tiifname \"tap0\" meta l4proto udp meta mark set 0x00000002 accept\n"
"\t}\n"
"\n"
"\tchain inp {\n"
"\t\ttype filter hook input priority filter; policy drop;\n"
"\t\tiifname \"lo\" accept\n"
"\t\tmeta mark 0x00000001 accept\n"
"\t\tmeta mark 0x00000002 limit rate 50/second reject with icmp admin-prohibited\n"
"\t\tmeta l4proto tcp meta mark 0x00000003 limit rate 200/second burst 50 packets reject with tcp reset\n"
"\t}\n"
"\n"
"\tchain out {\n"
"\t\ttype filter hook output priority raw; policy accept;\n"
"\t\tnotrack\n"
"\t}\n"
"\n"
"\tchain fw_ {\n"
"\t\ttype filter hook forward priority filter; policy drop;\n"
"\t}\n"
"}\n";
/* clang-format on */

bool guestnet_rules_equal(const char *text, unsigned *ret_line)
{
	unsigned line = 1;
	size_t i;

	for (i = 0; text[i] == guestnet_rules[i]; i++) {
		if (!text[i])
			return true;
		line += text[i] == '\n';
	}
	*ret_line = line;
	return false;
}

unsigned guestnet_count(const char *text)
{
	unsigned n = 0;

	for (const char *p = strchr(text, '\n'); p && p[1];
	     p = strchr(p + 1, '\n'))
		n++;
	return n;
}

static int nft_wait(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	siginfo_t si = { 0 };
	int r = poll(&p, 1, NFT_TIMEOUT_MS);

	if (r <= 0)
		pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	if (waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED) < 0)
		return -errno;
	if (r <= 0)
		return -ETIMEDOUT;
	return si.si_code == CLD_EXITED && si.si_status == 0 ? 0 : -EIO;
}

static void check_rules(struct doctor *d, const char *check)
{
	const char *argv[] = { "/usr/sbin/nft", "-s", "list", "ruleset", NULL };
	const char *envp[] = { "LC_ALL=C", NULL };
	owned_fd out = memfd_create("nft", MFD_CLOEXEC), pidfd = -1;
	owned_str text = xcalloc(1, RULES_MAX);
	struct spawn s = { .argv = argv,
			   .envp = envp,
			   .exe_fd = -1,
			   .stdio = { -1, out, -1 },
			   .die_with_parent = true };
	struct err e = { 0 };
	unsigned line = 0;
	ssize_t n = -1;
	pid_t pid;
	bool same;

	if (out >= 0 && spawn_start(&s, &pid, &pidfd, &e) == 0 &&
	    nft_wait(pidfd) == 0)
		n = pread(out, text, RULES_MAX - 1, 0);
	if (n < 0) {
		doctor_say(d, FINDING_FAIL, check, "install nftables",
			   "its rules cannot be read");
		return;
	}
	text[n] = '\0';
	same = strlen(text) == (size_t)n && guestnet_rules_equal(text, &line);
	if (same)
		doctor_say(d, FINDING_OK, check, REMEDY,
			   "rules are the constant ones");
	else
		doctor_say(d, FINDING_FAIL, check, REMEDY,
			   "rules differ from the constant at line %u of "
			   "'nft -s list ruleset'",
			   line);
}

bool guestnet_address_good(const char *name, const char *ip)
{
	return !strcmp(name, "lo") ? !ip[0] || !strcmp(ip, "127.0.0.1")
				   : !strcmp(name, "tap0") &&
					 (!ip[0] || !strcmp(ip, "100.64.0.1"));
}

static void check_addresses(struct doctor *d, const char *check)
{
	struct ifaddrs *all = NULL;
	char seen[300] = "";
	bool good = true, tap = false;

	if (getifaddrs(&all) < 0) {
		doctor_say(d, FINDING_FAIL, check, REMEDY,
			   "its interfaces cannot be read: %m");
		return;
	}
	for (struct ifaddrs *a = all; a; a = a->ifa_next) {
		int family = a->ifa_addr ? a->ifa_addr->sa_family : AF_PACKET;
		char ip[INET6_ADDRSTRLEN] = "";
		size_t n = strlen(seen);

		if (family == AF_INET)
			inet_ntop(family,
				  &((struct sockaddr_in *)(void *)a->ifa_addr)
				       ->sin_addr,
				  ip, sizeof(ip));
		else if (family != AF_PACKET)
			snprintf(ip, sizeof(ip), "family-%d", family);
		good = good && guestnet_address_good(a->ifa_name, ip);
		tap = tap || !strcmp(ip, "100.64.0.1");
		snprintf(seen + n, sizeof(seen) - n, " %s%s%s", a->ifa_name,
			 ip[0] ? "=" : "", ip);
	}
	freeifaddrs(all);
	doctor_say(d, good && tap ? FINDING_OK : FINDING_FAIL, check, REMEDY,
		   "interfaces:%s", seen);
}

/* Files of one namespace with a heading and a line for each thing. */
static void check_empty(struct doctor *d, const char *check, const char *file,
			bool may_lack)
{
	owned_str path = xasprintf("/proc/self/net/%s", file);
	owned_str text = NULL;
	size_t n;
	unsigned many;

	if (access(path, F_OK) < 0 && errno == ENOENT && may_lack)
		return;
	if (file_read(path, 1u << 20, &text, &n, NULL) < 0) {
		doctor_say(d, FINDING_FAIL, check, REMEDY, "%s cannot be read",
			   path);
		return;
	}
	many = guestnet_count(text);
	if (!strchr(text, '\n'))
		many = 1; /* not even a heading: no table to trust */
	doctor_say(d, many ? FINDING_FAIL : FINDING_OK, check, REMEDY,
		   "%s %s: %u, should be none",
		   !strcmp(file, "route") ? "main table," : "sockets,", file,
		   many);
}

static void check_forwarding(struct doctor *d, const char *check)
{
	owned_str text = NULL;
	size_t n;
	int r = file_read("/proc/sys/net/ipv4/ip_forward", 64, &text, &n, NULL);
	bool off = r == 0 && !strcmp(text, "0\n");

	doctor_say(d, off ? FINDING_OK : FINDING_FAIL, check, REMEDY,
		   "forwarding %s",
		   off	   ? "off"
		   : r < 0 ? "cannot be read"
			   : "is on");
}

void guestnet_check(struct doctor *d, const char *slot)
{
	owned_str path = xasprintf("%s/slots/%s/netns", d->stack->run, slot);
	owned_str check = xasprintf("guest of slot %s", slot);
	owned_fd home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	owned_fd there = open(path, O_RDONLY | O_CLOEXEC);
	struct stat a, b;

	if (home < 0 || there < 0 || fstat(home, &a) < 0 ||
	    fstat(there, &b) < 0) {
		doctor_say(d, FINDING_FAIL, check, "look again as root",
			   "%s: %m", path);
		return;
	}
	if (a.st_ino == b.st_ino || setns(there, CLONE_NEWNET) < 0) {
		doctor_say(d, FINDING_FAIL, check, REMEDY,
			   "its network is the host's or cannot be entered");
		return;
	}
	check_addresses(d, check);
	check_empty(d, check, "route", false);
	check_empty(d, check, "tcp", false);
	check_empty(d, check, "udp", false);
	check_empty(d, check, "raw", false);
	check_empty(d, check, "tcp6", true);
	check_empty(d, check, "udp6", true);
	check_forwarding(d, check);
	check_rules(d, check);
	CHECK(setns(home, CLONE_NEWNET) == 0);
}
