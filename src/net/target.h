/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The URL of a destination that a tenant names and we connect to: http or
 * https, a host that is a DNS name or an address in canonical spelling
 * (addr.h), a port, a path. Whatever two readers could take for different
 * things is refused: user information, fragments, backslashes, white space,
 * bytes beyond ASCII. Pure.
 *
 * It says where the URL points, not that one may go there: the address is
 * judged when it is connected to.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/addr.h"

#define TARGET_URL_MAX 2048u

struct target {
	bool tls;
	char host[256]; /* as written, without brackets */
	enum addr_host kind;
	struct addr addr; /* if kind is ADDR_HOST_ADDRESS */
	uint16_t port;
};

/* -EINVAL with *e: what was expected. Ports below 1024 other than 80 and 443
 * are refused: nothing that speaks HTTP to strangers listens there. */
int target_parse(const char *url, struct target *ret, struct err *e);
