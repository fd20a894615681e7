/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * As much of rtnetlink as a slot needs: a batch of requests is put together in
 * memory, sent with one call and answered by one acknowledgement each. Much
 * faster than ip(8), which is then not needed at run time. Blocking (the kernel
 * answers at once); always the namespace of the caller.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NL_BYTES_MAX	2048u
#define NL_REQUESTS_MAX 16u

struct nl {
	_Alignas(8) uint8_t mem[NL_BYTES_MAX];
	size_t n;
	unsigned count;
	const char *what[NL_REQUESTS_MAX]; /* for messages */
	bool overflow;			   /* a bug: the batch is constant */
};

void nl_init(struct nl *b);
/* Link up; mac and mtu are set as well unless NULL and 0. */
void nl_link(struct nl *b, const char *what, int ifindex, const uint8_t *mac,
	     uint32_t mtu);
/* ip is in network byte order, everywhere here. */
void nl_addr(struct nl *b, const char *what, int ifindex, uint32_t ip,
	     uint8_t prefix);
/* type: RTN_UNICAST or RTN_LOCAL */
void nl_route(struct nl *b, const char *what, int ifindex, uint32_t ip,
	      uint8_t prefix, uint8_t table, uint8_t type);
void nl_rule_add(struct nl *b, const char *what, uint32_t pref, uint8_t table);
void nl_rule_del(struct nl *b, const char *what, uint32_t pref);
void nl_neigh(struct nl *b, const char *what, int ifindex, uint32_t ip,
	      const uint8_t mac[6]);

/* Run the batch; the first request that failed is named in *e. */
int nl_run(struct nl *b, struct err *e);
/* The acknowledgements in one datagram: counts them into *acks; -errno of the
 * first refused request with its index in *ret_bad, -EBADMSG if malformed. */
int nl_parse_acks(const void *p, size_t n, unsigned *acks, unsigned *ret_bad);
