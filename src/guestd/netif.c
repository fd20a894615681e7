/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/netif.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>

#include "base/own.h"

#define DEVICE "eth0"

static struct sockaddr_in ipv4(const char *text)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	(void)inet_pton(AF_INET, text, &a.sin_addr);
	return a;
}

static void put_addr(struct sockaddr *to, const char *text)
{
	struct sockaddr_in a = ipv4(text);

	memcpy(to, &a, sizeof(a));
}

static int set_flags_up(int sock, const char *name)
{
	struct ifreq q = { 0 };

	snprintf(q.ifr_name, sizeof(q.ifr_name), "%s", name);
	if (ioctl(sock, SIOCGIFFLAGS, &q) < 0)
		return -errno;
	q.ifr_flags = (short)(q.ifr_flags | IFF_UP);
	return ioctl(sock, SIOCSIFFLAGS, &q) < 0 ? -errno : 0;
}

static int set_address(int sock)
{
	static const unsigned char mac[6] = NETIF_MAC;
	struct ifreq q = { 0 };

	snprintf(q.ifr_name, sizeof(q.ifr_name), "%s", DEVICE);
	q.ifr_hwaddr.sa_family = ARPHRD_ETHER;
	memcpy(q.ifr_hwaddr.sa_data, mac, sizeof(mac));
	if (ioctl(sock, SIOCSIFHWADDR, &q) < 0)
		return -errno;
	put_addr(&q.ifr_addr, NETIF_ADDRESS);
	if (ioctl(sock, SIOCSIFADDR, &q) < 0)
		return -errno;
	put_addr(&q.ifr_netmask, "255.255.255.255");
	if (ioctl(sock, SIOCSIFNETMASK, &q) < 0)
		return -errno;
	return set_flags_up(sock, DEVICE);
}

/* The gateway is on the link, everything else behind it; its hardware address
 * is a constant too, so no ARP answer can be wrong or late. */
static int set_routes(int sock)
{
	static const unsigned char mac[6] = NETIF_GATEWAY_MAC;
	char device[] = DEVICE;
	struct rtentry gateway = { .rt_flags = RTF_UP | RTF_HOST,
				   .rt_dev = device };
	struct rtentry rest = { .rt_flags = RTF_UP | RTF_GATEWAY,
				.rt_dev = device };
	struct arpreq arp = { .arp_flags = ATF_PERM | ATF_COM };

	put_addr(&gateway.rt_dst, NETIF_GATEWAY);
	put_addr(&gateway.rt_genmask, "255.255.255.255");
	if (ioctl(sock, SIOCADDRT, &gateway) < 0 && errno != EEXIST)
		return -errno;
	put_addr(&rest.rt_dst, "0.0.0.0");
	put_addr(&rest.rt_genmask, "0.0.0.0");
	put_addr(&rest.rt_gateway, NETIF_GATEWAY);
	if (ioctl(sock, SIOCADDRT, &rest) < 0 && errno != EEXIST)
		return -errno;
	put_addr(&arp.arp_pa, NETIF_GATEWAY);
	arp.arp_ha.sa_family = ARPHRD_ETHER;
	memcpy(arp.arp_ha.sa_data, mac, sizeof(mac));
	snprintf(arp.arp_dev, sizeof(arp.arp_dev), "%s", DEVICE);
	return ioctl(sock, SIOCSARP, &arp) < 0 ? -errno : 0;
}

static void write_sysctl(const struct held *h, const char *name,
			 const char *value)
{
	owned_fd fd = openat(h->proc, name, O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, value, strlen(value));
}

int netif_setup(const struct held *h, struct err *e)
{
	owned_fd sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r;

	if (sock < 0)
		return err_errno(e, errno, "socket");
	write_sysctl(h, "sys/net/ipv6/conf/all/disable_ipv6", "1");
	write_sysctl(h, "sys/net/ipv6/conf/default/disable_ipv6", "1");
	write_sysctl(h, "sys/net/ipv4/ping_group_range", "0 2147483647");
	r = set_flags_up(sock, "lo");
	if (r < 0)
		return err_errno(e, -r, "bring lo up");
	r = set_address(sock);
	if (r < 0)
		return err_errno(e, -r, "configure " DEVICE);
	r = set_routes(sock);
	if (r < 0)
		return err_errno(e, -r, "add the routes of " DEVICE);
	return 0;
}

struct diag_request {
	struct nlmsghdr n;
	struct inet_diag_req_v2 r;
};

static int diag_send(int fd, uint16_t type, uint16_t flags, uint8_t protocol,
		     const struct inet_diag_sockid *id)
{
	struct diag_request q = {
		.n = { .nlmsg_len = sizeof(q),
		       .nlmsg_type = type,
		       .nlmsg_flags = flags },
		.r = { .sdiag_family = AF_INET,
		       .sdiag_protocol = protocol,
		       .idiag_states = ~0u },
	};

	if (id)
		q.r.id = *id;
	return send(fd, &q, sizeof(q), 0) < 0 ? -errno : 0;
}

static bool is_loopback(const struct inet_diag_sockid *id)
{
	uint32_t src = ntohl(id->idiag_src[0]), dst = ntohl(id->idiag_dst[0]);

	/* A wildcard socket listens for the new life as well. */
	return src >> 24 == 127 || (src == 0 && dst == 0);
}

static void destroy_one(int fd, uint8_t protocol, const struct inet_diag_msg *m,
			int *count)
{
	char answer[512];

	if (is_loopback(&m->id) ||
	    diag_send(fd, SOCK_DESTROY, NLM_F_REQUEST | NLM_F_ACK, protocol,
		      &m->id) < 0)
		return;
	if (recv(fd, answer, sizeof(answer), 0) > 0)
		(*count)++;
}

/* Walk one dump; netlink of the kernel answers at once, so nothing waits. */
static int destroy_protocol(int dump, int kill, uint8_t protocol, int *count)
{
	static _Alignas(struct nlmsghdr) char text[32768];
	int r = diag_send(dump, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP,
			  protocol, NULL);

	if (r < 0)
		return r;
	for (;;) {
		ssize_t n = recv(dump, text, sizeof(text), 0);
		struct nlmsghdr *h = (struct nlmsghdr *)(void *)text;
		size_t left = n < 0 ? 0 : (size_t)n;

		if (n <= 0)
			return n < 0 ? -errno : 0;
		for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
			if (h->nlmsg_type == NLMSG_DONE ||
			    h->nlmsg_type == NLMSG_ERROR)
				return 0;
			destroy_one(kill, protocol, NLMSG_DATA(h), count);
		}
	}
}

int netif_destroy_sockets(void)
{
	static const struct timeval limit = { .tv_usec = 500000 };
	owned_fd dump =
	    socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	owned_fd kill =
	    socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	int count = 0, r;

	if (dump < 0 || kill < 0)
		return -errno;
	(void)setsockopt(dump, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(kill, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	r = destroy_protocol(dump, kill, IPPROTO_TCP, &count);
	if (r >= 0)
		r = destroy_protocol(dump, kill, IPPROTO_UDP, &count);
	return r < 0 ? r : count;
}
