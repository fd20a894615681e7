/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/nl.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/check.h"
#include "base/own.h"

void nl_init(struct nl *b)
{
	memset(b, 0, sizeof(*b));
}

static void put(struct nl *b, const void *p, size_t n)
{
	size_t padded = NLMSG_ALIGN(n);

	if (b->n + padded > sizeof(b->mem)) {
		b->overflow = true;
		return;
	}
	memcpy(b->mem + b->n, p, n);
	b->n += padded;
}

static size_t begin(struct nl *b, const char *what, uint16_t type,
		    uint16_t flags, const void *body, size_t n)
{
	struct nlmsghdr h = {
		.nlmsg_type = type,
		.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags),
		.nlmsg_seq = b->count,
	};
	size_t at = b->n;

	if (b->count == NL_REQUESTS_MAX) {
		b->overflow = true;
		return at;
	}
	b->what[b->count++] = what;
	put(b, &h, sizeof(h));
	put(b, body, n);
	return at;
}

static void attr(struct nl *b, uint16_t type, const void *p, size_t n)
{
	struct rtattr a = { .rta_len = (uint16_t)RTA_LENGTH(n),
			    .rta_type = type };

	put(b, &a, sizeof(a));
	put(b, p, n);
}

static void end(struct nl *b, size_t at)
{
	uint32_t len = (uint32_t)(b->n - at);

	if (!b->overflow)
		memcpy(b->mem + at, &len, sizeof(len)); /* nlmsg_len is first */
}

void nl_link(struct nl *b, const char *what, int ifindex, const uint8_t *mac,
	     uint32_t mtu)
{
	struct ifinfomsg m = { .ifi_family = AF_UNSPEC,
			       .ifi_index = ifindex,
			       .ifi_flags = IFF_UP,
			       .ifi_change = IFF_UP };
	size_t at = begin(b, what, RTM_NEWLINK, 0, &m, sizeof(m));

	if (mac)
		attr(b, IFLA_ADDRESS, mac, 6);
	if (mtu)
		attr(b, IFLA_MTU, &mtu, sizeof(mtu));
	end(b, at);
}

void nl_addr(struct nl *b, const char *what, int ifindex, uint32_t ip,
	     uint8_t prefix)
{
	struct ifaddrmsg m = { .ifa_family = AF_INET,
			       .ifa_prefixlen = prefix,
			       .ifa_index = (uint32_t)ifindex };
	size_t at = begin(b, what, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &m,
			  sizeof(m));

	attr(b, IFA_LOCAL, &ip, sizeof(ip));
	attr(b, IFA_ADDRESS, &ip, sizeof(ip));
	end(b, at);
}

void nl_route(struct nl *b, const char *what, int ifindex, uint32_t ip,
	      uint8_t prefix, uint8_t table, uint8_t type)
{
	struct rtmsg m = {
		.rtm_family = AF_INET,
		.rtm_dst_len = prefix,
		.rtm_table = table,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = type == RTN_LOCAL ? RT_SCOPE_HOST : RT_SCOPE_LINK,
		.rtm_type = type,
	};
	size_t at = begin(b, what, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &m,
			  sizeof(m));

	if (prefix)
		attr(b, RTA_DST, &ip, sizeof(ip));
	attr(b, RTA_OIF, &ifindex, sizeof(ifindex));
	end(b, at);
}

static void rule(struct nl *b, const char *what, uint16_t type, uint16_t flags,
		 uint32_t pref, uint8_t table)
{
	struct fib_rule_hdr m = { .family = AF_INET,
				  .table = table,
				  .action = FR_ACT_TO_TBL };
	size_t at = begin(b, what, type, flags, &m, sizeof(m));

	attr(b, FRA_PRIORITY, &pref, sizeof(pref));
	end(b, at);
}

void nl_rule_add(struct nl *b, const char *what, uint32_t pref, uint8_t table)
{
	rule(b, what, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, pref, table);
}

void nl_rule_del(struct nl *b, const char *what, uint32_t pref)
{
	rule(b, what, RTM_DELRULE, 0, pref, RT_TABLE_LOCAL);
}

void nl_neigh(struct nl *b, const char *what, int ifindex, uint32_t ip,
	      const uint8_t mac[6])
{
	struct ndmsg m = { .ndm_family = AF_INET,
			   .ndm_ifindex = ifindex,
			   .ndm_state = NUD_PERMANENT };
	size_t at = begin(b, what, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE,
			  &m, sizeof(m));

	attr(b, NDA_DST, &ip, sizeof(ip));
	attr(b, NDA_LLADDR, mac, 6);
	end(b, at);
}

int nl_parse_acks(const void *p, size_t n, unsigned *acks, unsigned *ret_bad)
{
	const uint8_t *at = p;

	while (n >= sizeof(struct nlmsghdr)) {
		struct nlmsghdr h;
		int32_t code;
		size_t step;

		memcpy(&h, at, sizeof(h));
		if (h.nlmsg_len < sizeof(h) + sizeof(code) || h.nlmsg_len > n ||
		    h.nlmsg_type != NLMSG_ERROR)
			return -EBADMSG;
		memcpy(&code, at + sizeof(h), sizeof(code));
		if (code != 0) {
			*ret_bad = h.nlmsg_seq;
			return code < 0 ? code : -EBADMSG;
		}
		(*acks)++;
		step = NLMSG_ALIGN((size_t)h.nlmsg_len);
		step = step > n ? n : step;
		at += step;
		n -= step;
	}
	return n == 0 ? 0 : -EBADMSG;
}

int nl_run(struct nl *b, struct err *e)
{
	const struct timeval two_s = { .tv_sec = 2 };
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	unsigned acks = 0, bad = 0;
	owned_fd fd = -1;

	CHECK(!b->overflow);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return err_errno(e, errno, "rtnetlink socket: %m");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &two_s, sizeof(two_s)) < 0)
		return err_errno(e, errno, "rtnetlink deadline: %m");
	if (sendto(fd, b->mem, b->n, 0, (struct sockaddr *)&kernel,
		   sizeof(kernel)) != (ssize_t)b->n)
		return err_errno(e, errno, "rtnetlink send: %m");

	while (acks < b->count) {
		_Alignas(8) uint8_t in[8192];
		ssize_t n = recv(fd, in, sizeof(in), 0);
		int r;

		if (n <= 0)
			return err_errno(e, n ? errno : EPIPE,
					 "rtnetlink answer: %m");
		r = nl_parse_acks(in, (size_t)n, &acks, &bad);
		if (r < 0)
			return err_errno(e, -r, "network: %s: %m",
					 bad < b->count ? b->what[bad] : "?");
	}
	return 0;
}
