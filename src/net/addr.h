/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The address guard: what an address is, and whether somebody who may name any
 * destination (a webhook's URL, a rule of egress) may be let go there.
 *
 * Addresses are read in their one canonical spelling only. Everything else that
 * some resolver would take for an address (2130706433, 0x7f.1, 127.1,
 * 0177.0.0.1) is refused, not guessed at, so that no two parts of a program can
 * read it differently. A name says nothing: judge the address that is about to
 * be connected to, at the socket, and follow no redirect.
 *
 * Only ADDR_PUBLIC is open to the world. Whatever embeds an IPv4 address
 * (mapped, NAT64, 6to4, …) is never public: it is a second spelling of an
 * address that has a first one. Pure, no allocation, no look-ups.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct addr {
	bool v6;
	uint8_t b[16]; /* network order; IPv4 in the first four, rest 0 */
};

enum addr_class {
	ADDR_PUBLIC,
	ADDR_UNSPECIFIED, /* 0/8, :: */
	ADDR_LOOPBACK,
	ADDR_PRIVATE,	 /* RFC 1918, fc00::/7, fec0::/10 */
	ADDR_SHARED,	 /* 100.64/10 */
	ADDR_LINK_LOCAL, /* 169.254/16, fe80::/10 */
	ADDR_METADATA,	 /* clouds' own services, wherever they lie */
	ADDR_MULTICAST,
	ADDR_DOCUMENTATION,
	ADDR_BENCHMARK,	 /* 198.18/15, 2001:2::/48 */
	ADDR_TRANSITION, /* an IPv4 address inside IPv6, or a tunnel's relay */
	ADDR_RESERVED,	 /* everything else that is nobody's */
	ADDR_CLASS_MAX_,
};
const char *addr_class_name(enum addr_class c);

/* Dotted quad without leading zeros, or RFC 4291 IPv6 without brackets and
 * without zone. false: not in that spelling. */
bool addr_parse(const char *s, size_t n, struct addr *ret);
/* AF_INET and AF_INET6; false for others and for a short length. */
bool addr_of_sockaddr(const struct sockaddr *sa, socklen_t n, struct addr *ret);
enum addr_class addr_classify(const struct addr *a);
/* An IPv4 address inside an IPv6 one: mapped, compatible, NAT64 (64:ff9b::/96),
 * 6to4, Teredo. false if there is none. */
bool addr_embedded(const struct addr *a, struct addr *ret_v4);

#define ADDR_TEXT 48u
void addr_text(const struct addr *a, char ret[ADDR_TEXT]);

/* ---- networks ---- */

struct addr_net {
	struct addr addr;
	unsigned bits;
};
/* ADDRESS/BITS or a single address; bits beyond the prefix must be 0. */
bool addr_net_parse(const char *s, size_t n, struct addr_net *ret);
/* Families do not mix: an embedded address is in no IPv4 network. */
bool addr_net_has(const struct addr_net *net, const struct addr *a);

/* ---- hosts of URLs ---- */

enum addr_host {
	ADDR_HOST_BAD,	   /* no name, and no address in canonical spelling */
	ADDR_HOST_NAME,	   /* a DNS name: 1..253 bytes of labels */
	ADDR_HOST_ADDRESS, /* *ret is set; IPv6 came in brackets */
};
/* The host of a URL, without port. A name whose last label begins with a digit
 * and is a number (decimal, octal or 0x…) is bad: a resolver may read it as an
 * address. "localhost" and names below it are bad too, and so are names
 * with bytes other than letters, digits, '-', '_' and '.'. */
enum addr_host addr_host(const char *s, size_t n, struct addr *ret);

/* Public, or in one of the networks that an operator allows. */
bool addr_allowed(const struct addr *a, const struct addr_net *allow,
		  size_t n_allow);
