/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The network of a slot, a constant: every slot uses the same names, addresses
 * and MACs, so that a restored guest needs no new configuration. What differs
 * between slots is the namespace.
 *
 * Only frames from the guest's own MAC and address, without options, fragments
 * or odd destinations, get past the ingress hook. TCP goes to the listener of
 * the egress worker by TPROXY; while there is none it is reset, and UDP gets an
 * ICMP error, so that nothing in the guest waits for a timeout. No NAT, no
 * connection tracking, no forwarding.
 */

#define SLOTNET_TAP	  "tap0"
#define SLOTNET_MTU	  60000
#define SLOTNET_HOST_MAC  "02:00:00:00:00:01"
#define SLOTNET_GUEST_MAC "02:00:00:00:00:02"
#define SLOTNET_HOST_IP	  "100.64.0.1"
#define SLOTNET_GUEST_IP  "100.64.0.2"
#define SLOTNET_TABLE	  50 /* holds the route to the guest */

extern const char slotnet_rules[]; /* for nft -f */
