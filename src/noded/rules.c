/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/rules.h"

#define T  SLOTNET_TAP
#define HM SLOTNET_HOST_MAC
#define GM SLOTNET_GUEST_MAC
#define HI SLOTNET_HOST_IP
#define GI SLOTNET_GUEST_IP

/*
 * tproxy without a listener ends its rule, not the chain: the packet falls to
 * the next line, whose mark makes it a reset (3). DNS goes to the socket on 53
 * itself, because replies of a tproxied UDP socket come from its own port.
 */
/* clang-format off */
const char slotnet_rules[] =
"table netdev l2 {\n"
" chain in {\n"
"  type filter hook ingress device \"" T "\" priority -500; policy drop;\n"
"  ether saddr != " GM " counter drop\n"
"  limit rate over 50000/second burst 10000 packets counter drop\n"
"  ether type arp arp operation request arp saddr ether " GM
" arp saddr ip " GI " arp daddr ip " HI " counter accept\n"
"  ether type != ip counter drop\n"
"  ether daddr != " HM " counter drop\n"
"  ip hdrlength != 5 counter drop\n"
"  ip frag-off & 0x3fff != 0 counter drop\n"
"  ip saddr != " GI " counter drop\n"
"  ip daddr { 0.0.0.0/8, 127.0.0.0/8, 224.0.0.0/4, 255.255.255.255 }"
" counter drop\n"
"  ip protocol { tcp, udp } accept\n"
"  counter\n"
" }\n"
"}\n"
"table ip g {\n"
" chain raw_ {\n"
"  type filter hook prerouting priority raw; policy accept;\n"
"  iifname \"" T "\" notrack\n"
" }\n"
" chain pre {\n"
"  type filter hook prerouting priority mangle; policy drop;\n"
"  iifname \"lo\" accept\n"
"  iifname \"" T "\" meta l4proto tcp tproxy to :15001 meta mark set 1"
" accept\n"
"  iifname \"" T "\" meta l4proto tcp meta mark set 3 accept\n"
"  iifname \"" T "\" udp dport 53 meta mark set 1 accept\n"
"  iifname \"" T "\" meta l4proto udp meta mark set 2 accept\n"
" }\n"
" chain inp {\n"
"  type filter hook input priority 0; policy drop;\n"
"  iifname \"lo\" accept\n"
"  meta mark 1 accept\n"
"  meta mark 2 limit rate 50/second reject with icmp type"
" admin-prohibited\n"
"  meta mark 3 limit rate 200/second burst 50 packets reject with tcp"
" reset\n"
" }\n"
" chain out {\n"
"  type filter hook output priority raw; policy accept;\n"
"  notrack\n"
" }\n"
" chain fw_ {\n"
"  type filter hook forward priority 0; policy drop;\n"
" }\n"
"}\n";
/* clang-format on */
