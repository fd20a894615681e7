/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The guest's network: the same constants in every sandbox, because each lives
 * in a namespace of its own on the host. So a restored guest needs no
 * reconfiguration. No IPv6.
 */

#include "base/err.h"
#include "guestd/guestd.h"

#define NETIF_ADDRESS "100.64.0.2"
#define NETIF_GATEWAY "100.64.0.1"
#define NETIF_MAC                                                              \
	{                                                                      \
		0x02, 0, 0, 0, 0, 0x02                                         \
	}
#define NETIF_GATEWAY_MAC                                                      \
	{                                                                      \
		0x02, 0, 0, 0, 0, 0x01                                         \
	}

/* lo and eth0. At boot only. */
int netif_setup(const struct held *h, struct err *e);

/* Destroy every TCP and UDP socket whose address is not a loopback one, so
 * that nothing of a former life goes on. Number destroyed or -errno. */
int netif_destroy_sockets(void);
