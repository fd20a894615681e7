/* SPDX-License-Identifier: Apache-2.0 */
#include "net/addr.h"

#include <netinet/in.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"

static enum addr_class class_of(const char *s)
{
	struct addr a;

	if (!addr_parse(s, strlen(s), &a))
		return ADDR_CLASS_MAX_;
	return addr_classify(&a);
}

static enum addr_host host_of(const char *s)
{
	struct addr a;

	return addr_host(s, strlen(s), &a);
}

static void expect(enum addr_class want, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (class_of(v[i]) != want)
			test_fail(__FILE__, __LINE__, "%s is %s, not %s", v[i],
				  addr_class_name(class_of(v[i])),
				  addr_class_name(want));
}
#define EXPECT(class, ...)                                                     \
	do {                                                                   \
		const char *const v_[] = { __VA_ARGS__ };                      \
		expect(class, v_, ARRAY_SIZE(v_));                             \
	} while (0)

TEST(what_is_public)
{
	EXPECT(ADDR_PUBLIC, "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0",
	       "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
	       "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255",
	       "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
	       "168.63.129.15", "2600::1", "2a00:1450::1", "2001:200::1",
	       "3ffe::1");
}

TEST(the_edges_of_every_private_range)
{
	EXPECT(ADDR_PRIVATE, "10.0.0.0", "10.255.255.255", "172.16.0.0",
	       "172.31.255.255", "192.168.0.0", "192.168.255.255",
	       "fc00::", "fdff:ffff::1", "fec0::1");
	EXPECT(ADDR_SHARED, "100.64.0.0", "100.127.255.255");
	EXPECT(ADDR_LOOPBACK, "127.0.0.0", "127.255.255.255", "::1");
	EXPECT(ADDR_UNSPECIFIED, "0.0.0.0", "0.255.255.255", "::");
	EXPECT(ADDR_LINK_LOCAL, "169.254.0.0", "169.254.255.255", "fe80::1",
	       "febf::1");
	EXPECT(ADDR_MULTICAST, "224.0.0.0", "239.255.255.255", "ff02::1");
	EXPECT(ADDR_RESERVED, "240.0.0.0", "255.255.255.255", "192.0.0.8",
	       "4000::1", "1::1", "5f00::1", "2001:20::1", "100::1", "8000::");
	EXPECT(ADDR_DOCUMENTATION, "192.0.2.1", "198.51.100.1", "203.0.113.255",
	       "2001:db8::1", "3fff:fff::1");
	EXPECT(ADDR_BENCHMARK, "198.18.0.0", "198.19.255.255", "2001:2::1");
}

TEST(metadata_services_wherever_they_lie)
{
	EXPECT(ADDR_METADATA, "169.254.169.254", "169.254.170.2",
	       "169.254.170.23", "100.100.100.200", "168.63.129.16",
	       "192.0.0.192", "169.254.169.123", "169.254.169.253",
	       "fd00:ec2::254", "fd00:ec2::23");
}

TEST(an_ipv4_address_inside_ipv6_is_never_public)
{
	EXPECT(ADDR_TRANSITION, "::ffff:8.8.8.8", "::ffff:127.0.0.1",
	       "::ffff:0:8.8.8.8", "::8.8.8.8", "::a9fe:a9fe",
	       "64:ff9b::8.8.8.8", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
	       "2002:808:808::1", "2002:a9fe:a9fe::1", "2001:0:1::1");
	EXPECT(ADDR_TRANSITION, "192.88.99.1");
}

TEST(the_embedded_address_is_found)
{
	static const struct {
		const char *v6, *v4;
	} t[] = {
		{ "::ffff:127.0.0.1", "127.0.0.1" },
		{ "64:ff9b::a9fe:a9fe", "169.254.169.254" },
		{ "2002:a9fe:a9fe::1", "169.254.169.254" },
		{ "::10.0.0.1", "10.0.0.1" },
		{ "2001::5601:5601", "169.254.169.254" },
	};
	struct addr a, v4;
	char text[ADDR_TEXT];

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		T_TRUE(addr_parse(t[i].v6, strlen(t[i].v6), &a));
		T_TRUE(addr_embedded(&a, &v4));
		addr_text(&v4, text);
		T_STR(text, t[i].v4);
	}
	T_TRUE(addr_parse("::1", 3, &a) && !addr_embedded(&a, &v4));
	T_TRUE(addr_parse("2600::1", 7, &a) && !addr_embedded(&a, &v4));
	T_TRUE(addr_parse("1.2.3.4", 7, &a) && !addr_embedded(&a, &v4));
}

TEST(only_the_canonical_spelling_is_an_address)
{
	static const char *const bad[] = {
		"",
		"1",
		"127.1",
		"127.0.1",
		"2130706433",
		"0x7f.1",
		"0x7f000001",
		"0177.0.0.1",
		"127.0.0.01",
		"1.2.3.4.",
		"1.2.3.4.5",
		"256.1.1.1",
		" 127.0.0.1",
		"1.2.3.4 ",
		"1..2.3",
		"+1.2.3.4",
		"1.2.3.4%eth",
		"fe80::1%2",
		"[::1]",
		"::ffff:127.1",
		":::",
		"12345::",
		"::1::",
		"1.2.3.-4",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (class_of(bad[i]) != ADDR_CLASS_MAX_)
			test_fail(__FILE__, __LINE__, "%s was read", bad[i]);
	T_INT(class_of("0.0.0.0"), ADDR_UNSPECIFIED);
}

TEST(a_nul_within_the_text_ends_nothing)
{
	struct addr a;

	T_TRUE(!addr_parse("1.1.1.1\0", 8, &a));
	T_TRUE(!addr_parse("::1\0", 4, &a));
	T_INT(addr_host("example.org\0", 12, &a), ADDR_HOST_BAD);
}

TEST(hosts_are_names_or_canonical_addresses)
{
	T_INT(host_of("example.org"), ADDR_HOST_NAME);
	T_INT(host_of("example.org."), ADDR_HOST_NAME);
	T_INT(host_of("1and1.com"), ADDR_HOST_NAME);
	T_INT(host_of("127.0.0.1.nip.io"), ADDR_HOST_NAME);
	T_INT(host_of("xn--bcher-kva.example"), ADDR_HOST_NAME);
	T_INT(host_of("192.0.2.7"), ADDR_HOST_ADDRESS);
	T_INT(host_of("[2001:db8::1]"), ADDR_HOST_ADDRESS);
	T_INT(host_of("[::ffff:1.2.3.4]"), ADDR_HOST_ADDRESS);
}

TEST(hosts_that_a_resolver_could_read_as_an_address_are_bad)
{
	static const char *const bad[] = {
		"2130706433",
		"2852039166",
		"0x7f.1",
		"0xa9fea9fe",
		"127.1",
		"127.0.0.1.",
		"0251.0376.0251.0376",
		"169.254.43518",
		"0x",
		"a.0x7f",
		"evil.1",
		"1.2.3.4.5",
		"08",
		"[127.0.0.1]",
		"::1",
		"[::1",
		"[fe80::1%25lo]",
		"[]",
		"localhost",
		"LOCALHOST.",
		"a.localhost",
		"a..b",
		".a",
		"",
		".",
		"a b",
		"a@b",
		"a/b",
		"a\\b",
		"-a.b",
		"a-.b",
		"ex\303\244mple.org",
		"%31.1.1.1",
		"\357\274\221.1.1.1",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (host_of(bad[i]) != ADDR_HOST_BAD)
			test_fail(__FILE__, __LINE__, "%s passed", bad[i]);
}

TEST(a_name_that_only_begins_like_localhost_is_a_name)
{
	T_INT(host_of("localhost.example"), ADDR_HOST_NAME);
	T_INT(host_of("notlocalhost"), ADDR_HOST_NAME);
}

TEST(networks_contain_their_edges_and_nothing_else)
{
	struct addr_net net;
	struct addr a;

	T_TRUE(addr_net_parse("10.128.0.0/9", 12, &net));
	T_TRUE(addr_parse("10.128.0.0", 10, &a) && addr_net_has(&net, &a));
	T_TRUE(addr_parse("10.255.255.255", 14, &a) && addr_net_has(&net, &a));
	T_TRUE(addr_parse("10.127.255.255", 14, &a) && !addr_net_has(&net, &a));
	T_TRUE(addr_parse("::ffff:10.128.0.0", 17, &a) &&
	       !addr_net_has(&net, &a));
	T_TRUE(addr_net_parse("0.0.0.0/0", 9, &net));
	T_TRUE(addr_parse("1.2.3.4", 7, &a) && addr_net_has(&net, &a));
	T_TRUE(addr_net_parse("::1", 3, &net) && net.bits == 128);
}

TEST(networks_with_set_host_bits_or_odd_numbers_are_refused)
{
	static const char *const bad[] = {
		"10.0.0.1/8",  "10.0.0.0/33",
		"10.0.0.0/",   "10.0.0.0/08",
		"10.0.0.0/-1", "10.0.0.0/8x",
		"::/129",      "/8",
		"10/8",	       "",
		"10.0.0.0/ 8", "10.0.0.0/8/8",
	};
	struct addr_net net;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (addr_net_parse(bad[i], strlen(bad[i]), &net))
			test_fail(__FILE__, __LINE__, "%s was read", bad[i]);
}

TEST(an_operator_may_allow_a_network_and_only_that)
{
	struct addr_net net;
	struct addr a;

	T_TRUE(addr_net_parse("127.0.0.0/8", 11, &net));
	T_TRUE(addr_parse("127.0.0.1", 9, &a));
	T_TRUE(!addr_allowed(&a, NULL, 0));
	T_TRUE(addr_allowed(&a, &net, 1));
	T_TRUE(addr_parse("10.0.0.1", 8, &a) && !addr_allowed(&a, &net, 1));
	T_TRUE(addr_parse("8.8.8.8", 7, &a) && addr_allowed(&a, NULL, 0));
	T_TRUE(addr_parse("::ffff:127.0.0.1", 16, &a) &&
	       !addr_allowed(&a, &net, 1));
}

TEST(socket_addresses_are_read_and_short_or_foreign_ones_refused)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(0x7f000001) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr un = { .sa_family = AF_UNIX };
	struct addr a;

	T_TRUE(addr_of_sockaddr((struct sockaddr *)&in, sizeof(in), &a));
	T_INT(addr_classify(&a), ADDR_LOOPBACK);
	T_TRUE(!addr_of_sockaddr((struct sockaddr *)&in, 8, &a));
	T_TRUE(addr_of_sockaddr((struct sockaddr *)&in6, sizeof(in6), &a));
	T_INT(addr_classify(&a), ADDR_UNSPECIFIED);
	T_TRUE(!addr_of_sockaddr((struct sockaddr *)&in6, sizeof(in), &a));
	T_TRUE(!addr_of_sockaddr(&un, sizeof(un), &a));
}
