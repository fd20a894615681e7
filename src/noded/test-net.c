/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slot's rules with real frames, written into the tap as the guest would.
 * A frame that must be dropped is followed by a good one: the first answer must
 * be the good one's, so that nothing is concluded from waiting. Root.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/if_ether.h>

#include "base/own.h"
#include "base/text.h"
#include "noded/test-node.h"

#define WAIT_MS 5000
#define TCP	6
#define UDP	17
#define ICMP	1

static const uint8_t host_mac[6] = { 2, 0, 0, 0, 0, 1 };
static const uint8_t guest_mac[6] = { 2, 0, 0, 0, 0, 2 };

/* A frame to send, with the knobs that the tests turn. */
struct frame {
	const uint8_t *src_mac, *dst_mac;
	uint16_t ethertype;
	const char *src, *dst;
	uint16_t frag; /* flags and offset */
	bool options;  /* an IP header with options */
	uint8_t proto;
	uint16_t sport, dport;
	uint8_t tcp_flags;
};

static struct frame tcp_syn(uint16_t sport)
{
	return (struct frame){ .src_mac = guest_mac,
			       .dst_mac = host_mac,
			       .ethertype = ETH_P_IP,
			       .src = "100.64.0.2",
			       .dst = "93.184.216.34",
			       .proto = TCP,
			       .sport = sport,
			       .dport = 443,
			       .tcp_flags = 2 };
}

static struct frame udp(uint16_t dport)
{
	struct frame f = tcp_syn(40000);

	f.proto = UDP;
	f.dport = dport;
	return f;
}

static int tap = -1;

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static unsigned get16(const uint8_t *p)
{
	return (unsigned)(p[0] << 8 | p[1]);
}

static uint32_t sum16(const uint8_t *p, size_t n, uint32_t sum)
{
	for (size_t i = 0; i + 1 < n; i += 2)
		sum += get16(p + i);
	return n & 1 ? sum + (uint32_t)(p[n - 1] << 8) : sum;
}

static unsigned fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum & 0xffff;
}

static size_t build(const struct frame *f, uint8_t *to)
{
	size_t ip_n = f->options ? 24 : 20, l4_n = f->proto == TCP ? 20 : 12;
	uint8_t *ip = to + 14, *l4 = ip + ip_n;
	uint32_t addr, sum;

	memset(to, 0, 128);
	memcpy(to, f->dst_mac, 6);
	memcpy(to + 6, f->src_mac, 6);
	put16(to + 12, f->ethertype);
	ip[0] = (uint8_t)(0x40 | ip_n / 4);
	put16(ip + 2, (unsigned)(ip_n + l4_n));
	put16(ip + 6, f->frag);
	ip[8] = 64;
	ip[9] = f->proto;
	addr = inet_addr(f->src);
	memcpy(ip + 12, &addr, 4);
	addr = inet_addr(f->dst);
	memcpy(ip + 16, &addr, 4);
	if (f->options)
		memset(ip + 20, 1, 4); /* no-operation */
	put16(ip + 10, fold(sum16(ip, ip_n, 0)));

	put16(l4, f->sport);
	put16(l4 + 2, f->dport);
	if (f->proto == TCP) {
		put16(l4 + 4, 1000); /* sequence number, upper half */
		l4[12] = 5 << 4;
		l4[13] = f->tcp_flags;
		put16(l4 + 14, 65535);
	} else {
		put16(l4 + 4, (unsigned)l4_n);
	}
	sum = sum16(ip + 12, 8, f->proto + (uint32_t)l4_n);
	put16(l4 + (f->proto == TCP ? 16 : 6), fold(sum16(l4, l4_n, sum)));
	return 14 + ip_n + l4_n;
}

static void send_frame(const struct frame *f)
{
	uint8_t raw[256];
	size_t n = build(f, raw);

	T_INT(write(tap, raw, n), n);
}

/* The next frame that the host sends to the guest, or 0. */
static size_t receive(uint8_t *to, size_t size)
{
	struct pollfd p = { .fd = tap, .events = POLLIN };
	ssize_t n;

	if (poll(&p, 1, WAIT_MS) <= 0)
		return 0;
	n = read(tap, to, size);
	return n > 0 ? (size_t)n : 0;
}

/* The host resets the connection from sport. */
static void expect_reset(uint16_t sport)
{
	uint8_t in[2048];
	size_t n = receive(in, sizeof(in));

	T_TRUE(n >= 14 + 20 + 20);
	T_INT(get16(in + 12), ETH_P_IP);
	T_TRUE(memcmp(in, guest_mac, 6) == 0);
	T_INT(in[14 + 9], TCP);
	T_INT(get16(in + 14 + 22), sport); /* to the port that asked */
	T_TRUE(in[14 + 20 + 13] & 4);	   /* RST */
}

static void begin(void)
{
	node_start();
	tap = fd_close(tap);
	T_HAS(jailed_says(0, "tap", &tap), ".");
	T_TRUE(tap >= 0);
	T_INT(fcntl(tap, F_SETFL, O_NONBLOCK), 0);
}

static void end(void)
{
	tap = fd_close(tap);
	node_end();
}

/* f is swallowed: the answer is that to the good one after it. */
static void expect_dropped(const struct frame *f)
{
	const struct frame good = tcp_syn(50123);

	send_frame(f);
	send_frame(&good);
	expect_reset(50123);
}

/* Does the slot's kernel keep parts of packets and wait for the others? */
static bool keeps_fragments(void)
{
	owned_str path = xasprintf("%s/slots/0/netns", node_run);
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		char *text = NULL;

		if (fd < 0 || setns(fd, CLONE_NEWNET) < 0 ||
		    file_read("/proc/self/net/sockstat", 4096, &text, NULL,
			      NULL) < 0 ||
		    !strstr(text, "FRAG: inuse "))
			_exit(2);
		_exit(!strstr(text, "FRAG: inuse 0 "));
	}
	T_TRUE(pid > 0 && waitpid(pid, &status, 0) == pid);
	T_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status) == 1;
}

TEST(tcp_is_reset_at_once)
{
	struct frame f = tcp_syn(50000);

	begin();
	send_frame(&f);
	expect_reset(50000);
	end();
}

TEST(reset_comes_from_the_address_that_was_asked)
{
	struct frame f = tcp_syn(50000);
	uint8_t in[2048];
	uint32_t want = inet_addr("93.184.216.34");

	begin();
	send_frame(&f);
	T_TRUE(receive(in, sizeof(in)) >= 54);
	T_TRUE(memcmp(in + 14 + 12, &want, 4) == 0);
	end();
}

TEST(stale_connection_is_reset)
{
	struct frame f = tcp_syn(50001);

	begin();
	f.tcp_flags = 16; /* ACK of a flow from before a restore */
	send_frame(&f);
	expect_reset(50001);
	end();
}

TEST(udp_is_refused_by_icmp)
{
	struct frame f = udp(443);
	uint8_t in[2048];

	begin();
	send_frame(&f);
	T_TRUE(receive(in, sizeof(in)) >= 14 + 20 + 8);
	T_INT(in[14 + 9], ICMP);
	T_INT(in[14 + 20], 3);	    /* unreachable */
	T_INT(in[14 + 20 + 1], 13); /* administratively prohibited */
	end();
}

TEST(dns_without_a_resolver_is_refused_by_icmp)
{
	struct frame f = udp(53);
	uint8_t in[2048];

	begin();
	send_frame(&f);
	T_TRUE(receive(in, sizeof(in)) >= 14 + 20 + 8);
	T_INT(in[14 + 9], ICMP);
	T_INT(in[14 + 20], 3);
	T_INT(in[14 + 20 + 1], 3); /* port unreachable */
	end();
}

TEST(arp_for_the_gateway_is_answered)
{
	static const uint8_t ask_arp[] = { 2, 0, 0, 0, 0, 1,   2,   0,	0, 0, 0,
					   2, 8, 6, 0, 1, 8,   0,   6,	4, 0, 1,
					   2, 0, 0, 0, 0, 2,   100, 64, 0, 2, 0,
					   0, 0, 0, 0, 0, 100, 64,  0,	1 };
	uint8_t in[2048];

	begin();
	T_INT(write(tap, ask_arp, sizeof(ask_arp)), sizeof(ask_arp));
	T_TRUE(receive(in, sizeof(in)) >= 42);
	T_INT(get16(in + 12), ETH_P_ARP);
	T_INT(in[21], 2);
	T_TRUE(memcmp(in + 22, host_mac, 6) == 0);
	end();
}

TEST(other_source_address_is_dropped)
{
	struct frame f = tcp_syn(50000);

	begin();
	f.src = "100.64.0.3";
	expect_dropped(&f);
	f.src = "127.0.0.1";
	expect_dropped(&f);
	end();
}

TEST(other_source_mac_is_dropped)
{
	static const uint8_t other[6] = { 2, 0, 0, 0, 0, 3 };
	struct frame f = tcp_syn(50000);

	begin();
	f.src_mac = other;
	expect_dropped(&f);
	end();
}

TEST(other_destination_mac_is_dropped)
{
	static const uint8_t all[6] = { 255, 255, 255, 255, 255, 255 };
	struct frame f = udp(67);

	begin();
	f.dst_mac = all;
	expect_dropped(&f);
	end();
}

TEST(loopback_on_the_wire_is_dropped)
{
	struct frame f = tcp_syn(50000);

	begin();
	f.dst = "127.0.0.1";
	expect_dropped(&f);
	f.dst = "127.1.2.3";
	expect_dropped(&f);
	end();
}

TEST(zero_multicast_and_broadcast_are_dropped)
{
	static const char *const to[] = { "0.0.0.0", "224.0.0.1",
					  "239.255.255.250",
					  "255.255.255.255" };
	struct frame f = udp(5353);

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(to); i++) {
		f.dst = to[i];
		expect_dropped(&f);
	}
	end();
}

TEST(fragments_are_dropped)
{
	struct frame f = tcp_syn(50000);

	begin();
	f.frag = 0x2000; /* more to come */
	expect_dropped(&f);
	f.frag = 1; /* not the first */
	expect_dropped(&f);
	end();
}

TEST(fragments_are_not_kept)
{
	struct frame f = tcp_syn(50000);

	begin();
	f.frag = 0x2000;
	expect_dropped(&f);
	T_TRUE(!keeps_fragments());
	end();
}

/* Reassembled, these two would be a SYN, and answered before the good one. */
TEST(fragments_are_not_put_together)
{
	const struct frame whole = tcp_syn(50000), good = tcp_syn(50123);
	uint8_t raw[256], second[64];
	size_t n = build(&whole, raw);

	begin();
	memcpy(second, raw, 34);
	memcpy(second + 34, raw + 34 + 16, n - 34 - 16);
	put16(raw + 14 + 2, 20 + 16);
	put16(raw + 14 + 6, 0x2000);
	put16(raw + 14 + 10, 0);
	put16(raw + 14 + 10, fold(sum16(raw + 14, 20, 0)));
	T_INT(write(tap, raw, 34 + 16), 34 + 16);
	put16(second + 14 + 2, 20 + 4);
	put16(second + 14 + 6, 2);
	put16(second + 14 + 10, 0);
	put16(second + 14 + 10, fold(sum16(second + 14, 20, 0)));
	T_INT(write(tap, second, 34 + 4), 34 + 4);
	send_frame(&good);
	expect_reset(50123);
	end();
}

TEST(dont_fragment_is_no_fragment)
{
	struct frame f = tcp_syn(50000);

	begin();
	f.frag = 0x4000;
	send_frame(&f);
	expect_reset(50000);
	end();
}

TEST(options_are_dropped)
{
	struct frame f = tcp_syn(50000);

	begin();
	f.options = true;
	expect_dropped(&f);
	end();
}

TEST(ipv6_and_other_types_are_dropped)
{
	struct frame f = tcp_syn(50000);

	begin();
	f.ethertype = ETH_P_IPV6;
	expect_dropped(&f);
	f.ethertype = ETH_P_8021Q;
	expect_dropped(&f);
	end();
}

TEST(other_protocols_are_dropped)
{
	struct frame f = udp(0);

	begin();
	f.proto = ICMP;
	expect_dropped(&f);
	f.proto = 47; /* GRE */
	expect_dropped(&f);
	end();
}

TEST(short_frames_are_dropped)
{
	static const uint8_t bytes[20] = { 2, 0, 0, 0, 0, 1, 2,
					   0, 0, 0, 0, 2, 8, 0 };
	struct frame good = tcp_syn(50123);

	begin();
	for (size_t n = 14; n <= sizeof(bytes); n++)
		if (write(tap, bytes, n) < 0)
			T_INT(errno, EINVAL);
	send_frame(&good);
	expect_reset(50123);
	end();
}

TEST(namespace_has_no_ipv6)
{
	struct frame good = tcp_syn(50123);

	begin();
	/* had the tap an address, neighbour discovery would be on the wire
	 * before this answer */
	send_frame(&good);
	expect_reset(50123);
	end();
}
