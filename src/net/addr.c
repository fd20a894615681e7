/* SPDX-License-Identifier: Apache-2.0 */
#include "net/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/own.h"

struct range {
	uint8_t b[16];
	uint8_t bits;
	uint8_t class;
};

/* Of those that contain an address the first one counts. */
static const struct range v4_ranges[] = {
	{ { 168, 63, 129, 16 }, 32, ADDR_METADATA },
	{ { 169, 254, 169, 254 }, 32, ADDR_METADATA },
	{ { 169, 254, 170, 2 }, 32, ADDR_METADATA },
	{ { 169, 254, 170, 23 }, 32, ADDR_METADATA },
	{ { 169, 254, 169, 253 }, 32, ADDR_METADATA },
	{ { 169, 254, 169, 123 }, 32, ADDR_METADATA },
	{ { 100, 100, 100, 200 }, 32, ADDR_METADATA },
	{ { 192, 0, 0, 192 }, 32, ADDR_METADATA },
	{ { 0 }, 8, ADDR_UNSPECIFIED },
	{ { 127 }, 8, ADDR_LOOPBACK },
	{ { 10 }, 8, ADDR_PRIVATE },
	{ { 172, 16 }, 12, ADDR_PRIVATE },
	{ { 192, 168 }, 16, ADDR_PRIVATE },
	{ { 100, 64 }, 10, ADDR_SHARED },
	{ { 169, 254 }, 16, ADDR_LINK_LOCAL },
	{ { 192, 0, 2 }, 24, ADDR_DOCUMENTATION },
	{ { 198, 51, 100 }, 24, ADDR_DOCUMENTATION },
	{ { 203, 0, 113 }, 24, ADDR_DOCUMENTATION },
	{ { 198, 18 }, 15, ADDR_BENCHMARK },
	{ { 192, 88, 99 }, 24, ADDR_TRANSITION },
	{ { 192, 0, 0 }, 24, ADDR_RESERVED },
	{ { 224 }, 4, ADDR_MULTICAST },
	{ { 240 }, 4, ADDR_RESERVED },
};

static const struct range v6_ranges[] = {
	{ { 0xfd, 0x00, 0x0e, 0xc2, [15] = 0 }, 32, ADDR_METADATA },
	{ { [15] = 0 }, 128, ADDR_UNSPECIFIED },
	{ { [15] = 1 }, 128, ADDR_LOOPBACK },
	{ { [10] = 0xff, 0xff }, 96, ADDR_TRANSITION },
	{ { [0] = 0 }, 96, ADDR_TRANSITION },
	{ { [8] = 0xff, 0xff }, 96, ADDR_TRANSITION }, /* translated */
	{ { 0x00, 0x64, 0xff, 0x9b }, 32, ADDR_TRANSITION },
	{ { 0x20, 0x02 }, 16, ADDR_TRANSITION },
	{ { 0x20, 0x01, 0x00, 0x00 }, 32, ADDR_TRANSITION },
	{ { 0xfe, 0x80 }, 10, ADDR_LINK_LOCAL },
	{ { 0xfe, 0xc0 }, 10, ADDR_PRIVATE },
	{ { 0xfc }, 7, ADDR_PRIVATE },
	{ { 0xff }, 8, ADDR_MULTICAST },
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32, ADDR_DOCUMENTATION },
	{ { 0x3f, 0xff }, 20, ADDR_DOCUMENTATION },
	{ { 0x20, 0x01, 0x00, 0x02 }, 48, ADDR_BENCHMARK },
	{ { 0x20, 0x01 }, 23, ADDR_RESERVED }, /* protocol assignments */
	{ { 0x20 }, 3, ADDR_PUBLIC },
	{ { 0 }, 0, ADDR_RESERVED },
};

static bool in_range(const uint8_t *b, const uint8_t *net, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;
	uint8_t mask = (uint8_t)(0xffu << (8 - rest));

	if (memcmp(b, net, whole) != 0)
		return false;
	return !rest || (b[whole] & mask) == (net[whole] & mask);
}

enum addr_class addr_classify(const struct addr *a)
{
	const struct range *r = a->v6 ? v6_ranges : v4_ranges;
	size_t n = a->v6 ? ARRAY_SIZE(v6_ranges) : ARRAY_SIZE(v4_ranges);

	for (size_t i = 0; i < n; i++)
		if (in_range(a->b, r[i].b, r[i].bits))
			return (enum addr_class)r[i].class;
	return ADDR_PUBLIC; /* IPv4: what no registry set apart */
}

const char *addr_class_name(enum addr_class c)
{
	static const char *const names[] = {
		[ADDR_PUBLIC] = "public",
		[ADDR_UNSPECIFIED] = "unspecified",
		[ADDR_LOOPBACK] = "loopback",
		[ADDR_PRIVATE] = "private",
		[ADDR_SHARED] = "shared (carrier NAT)",
		[ADDR_LINK_LOCAL] = "link-local",
		[ADDR_METADATA] = "cloud metadata",
		[ADDR_MULTICAST] = "multicast",
		[ADDR_DOCUMENTATION] = "documentation",
		[ADDR_BENCHMARK] = "benchmark",
		[ADDR_TRANSITION] = "IPv4 inside IPv6",
		[ADDR_RESERVED] = "reserved",
	};

	return c < ARRAY_SIZE(names) ? names[c] : "unknown";
}

bool addr_embedded(const struct addr *a, struct addr *ret_v4)
{
	static const uint8_t nat64[16] = { 0x00, 0x64, 0xff, 0x9b };
	static const uint8_t zero[16] = { 0 };
	static const uint8_t mapped[16] = { [10] = 0xff, 0xff };
	size_t at = 12;
	uint8_t flip = 0;

	*ret_v4 = (struct addr){ 0 };
	if (!a->v6)
		return false;
	if (a->b[0] == 0x20 && a->b[1] == 0x02) {
		at = 2;
	} else if (in_range(a->b, (const uint8_t[4]){ 0x20, 0x01 }, 32)) {
		flip = 0xff; /* Teredo hides the client's address */
	} else if (!in_range(a->b, nat64, 96) && !in_range(a->b, mapped, 96) &&
		   !(in_range(a->b, zero, 96) && !in_range(a->b, zero, 120))) {
		return false;
	}
	for (size_t i = 0; i < 4; i++)
		ret_v4->b[i] = a->b[at + i] ^ flip;
	return true;
}

/* ---- spelling ---- */

static bool parse_v4(const char *s, size_t n, struct addr *ret)
{
	size_t at = 0;

	*ret = (struct addr){ 0 };
	for (size_t part = 0; part < 4; part++) {
		unsigned v = 0;
		size_t from;

		if (part && (at >= n || s[at++] != '.'))
			return false;
		from = at;
		while (at < n && at - from < 3 && s[at] >= '0' && s[at] <= '9')
			v = v * 10 + (unsigned)(s[at++] - '0');
		if (at == from || v > 255 || (s[from] == '0' && at - from > 1))
			return false;
		ret->b[part] = (uint8_t)v;
	}
	return at == n;
}

bool addr_parse(const char *s, size_t n, struct addr *ret)
{
	char text[ADDR_TEXT];

	*ret = (struct addr){ 0 };
	if (!n || n >= sizeof(text) || memchr(s, '\0', n))
		return false;
	if (!memchr(s, ':', n))
		return parse_v4(s, n, ret);
	memcpy(text, s, n);
	text[n] = '\0';
	ret->v6 = true;
	return inet_pton(AF_INET6, text, ret->b) == 1;
}

bool addr_of_sockaddr(const struct sockaddr *sa, socklen_t n, struct addr *ret)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	*ret = (struct addr){ 0 };
	if (n >= sizeof(in) && sa->sa_family == AF_INET) {
		memcpy(&in, sa, sizeof(in));
		memcpy(ret->b, &in.sin_addr, 4);
		return true;
	}
	if (n >= sizeof(in6) && sa->sa_family == AF_INET6) {
		memcpy(&in6, sa, sizeof(in6));
		memcpy(ret->b, &in6.sin6_addr, 16);
		ret->v6 = true;
		return true;
	}
	return false;
}

void addr_text(const struct addr *a, char ret[ADDR_TEXT])
{
	if (!inet_ntop(a->v6 ? AF_INET6 : AF_INET, a->b, ret, ADDR_TEXT))
		snprintf(ret, ADDR_TEXT, "?");
}

/* ---- networks ---- */

bool addr_net_parse(const char *s, size_t n, struct addr_net *ret)
{
	const char *slash = n ? memchr(s, '/', n) : NULL;
	size_t head = slash ? (size_t)(slash - s) : n, i;
	unsigned bits = 0, max;

	if (!addr_parse(s, head, &ret->addr))
		return false;
	max = ret->addr.v6 ? 128 : 32;
	ret->bits = max;
	if (!slash)
		return true;
	i = head + 1;
	if (i == n || n - i > 3 || (s[i] == '0' && n - i > 1))
		return false;
	for (; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		bits = bits * 10 + (unsigned)(s[i] - '0');
	}
	if (bits > max)
		return false;
	ret->bits = bits;
	for (unsigned k = bits; k < max; k++)
		if (ret->addr.b[k / 8] & (0x80u >> (k % 8)))
			return false;
	return true;
}

bool addr_net_has(const struct addr_net *net, const struct addr *a)
{
	return net->addr.v6 == a->v6 && in_range(a->b, net->addr.b, net->bits);
}

bool addr_allowed(const struct addr *a, const struct addr_net *allow,
		  size_t n_allow)
{
	for (size_t i = 0; i < n_allow; i++)
		if (addr_net_has(&allow[i], a))
			return true;
	return addr_classify(a) == ADDR_PUBLIC;
}

/* ---- hosts ---- */

static bool label_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool hex_byte(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
	       (c >= 'A' && c <= 'F');
}

/* What inet_aton() and its kin could take for the end of an address. */
static bool numeric_label(const char *s, size_t n)
{
	if (n > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
		for (size_t i = 2; i < n; i++)
			if (!hex_byte(s[i]))
				return false;
		return true;
	}
	for (size_t i = 0; i < n; i++)
		if (s[i] < '0' || s[i] > '9')
			return false;
	return n > 0;
}

static bool is_localhost(const char *s, size_t n)
{
	static const char name[] = "localhost";
	size_t len = sizeof(name) - 1;

	return n >= len && strncasecmp(s + n - len, name, len) == 0 &&
	       (n == len || s[n - len - 1] == '.');
}

static bool name_sound(const char *s, size_t n)
{
	size_t from = 0;

	for (size_t i = 0; i <= n; i++) {
		if (i < n && s[i] != '.') {
			if (!label_byte(s[i]) || i - from >= 63)
				return false;
			continue;
		}
		if (i == from || s[from] == '-' || s[i - 1] == '-')
			return false;
		if (i == n && numeric_label(s + from, i - from))
			return false;
		from = i + 1;
	}
	return true;
}

enum addr_host addr_host(const char *s, size_t n, struct addr *ret)
{
	*ret = (struct addr){ 0 };
	if (n > 2 && s[0] == '[') {
		if (s[n - 1] != ']' || !memchr(s, ':', n) ||
		    !addr_parse(s + 1, n - 2, ret))
			return ADDR_HOST_BAD;
		return ADDR_HOST_ADDRESS;
	}
	if (parse_v4(s, n, ret))
		return ADDR_HOST_ADDRESS;
	*ret = (struct addr){ 0 };
	if (n > 0 && s[n - 1] == '.') /* the root's dot */
		n--;
	if (!n || n > 253 || !name_sound(s, n) || is_localhost(s, n))
		return ADDR_HOST_BAD;
	return ADDR_HOST_NAME;
}
