/* SPDX-License-Identifier: Apache-2.0 */
/* The pure parts of cgroup, slotdir, nl, rules and jail. */
#include <arpa/inet.h>
#include <string.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/test.h"
#include "noded/cgroup.h"
#include "noded/jail.h"
#include "noded/nl.h"
#include "noded/rules.h"
#include "noded/slotdir.h"

TEST(key_is_found_among_lines)
{
	const char *t = "populated 1\nfrozen 0\n";

	T_INT(cgroup_key(t, "populated"), 1);
	T_INT(cgroup_key(t, "frozen"), 0);
	T_INT(cgroup_key("oom 3\noom_kill 2\n", "oom_kill"), 2);
}

TEST(key_that_is_only_a_prefix_is_not_found)
{
	T_INT(cgroup_key("oom_kill 2\n", "oom"), 0);
	T_INT(cgroup_key("", "oom"), 0);
	T_INT(cgroup_key("oom", "oom"), 0);
}

TEST(first_process_of_a_pid_namespace)
{
	T_TRUE(cgroup_status_is_init("Name:\tq\nNSpid:\t400\t1\nX:\n"));
	T_TRUE(!cgroup_status_is_init("Name:\tq\nNSpid:\t400\t11\nX:\n"));
	T_TRUE(!cgroup_status_is_init("Name:\tq\nNSpid:\t1\t400\nX:\n"));
	T_TRUE(!cgroup_status_is_init("Name:\tq\nNSpid:\t21\t2\n"));
}

TEST(status_that_is_cut_off_is_no_first_process)
{
	T_TRUE(!cgroup_status_is_init(""));
	T_TRUE(!cgroup_status_is_init("Name:\tq\nNSpid:\t400\t1"));
	T_TRUE(!cgroup_status_is_init("Name:\tNSpid:\t1\n"));
}

TEST(slot_numbers)
{
	T_INT(slotdir_number("0"), 0);
	T_INT(slotdir_number("1023"), 1023);
	T_INT(slotdir_number("1024"), -1);
	T_INT(slotdir_number("01"), -1);
	T_INT(slotdir_number(""), -1);
	T_INT(slotdir_number("-1"), -1);
	T_INT(slotdir_number("1x"), -1);
	T_INT(slotdir_number("99999999999999999999"), -1);
}

TEST(uids_of_slots_do_not_meet)
{
	struct noded_conf c = { .uid_base = 200000 };

	T_INT(conf_vmm_uid(&c, 0), 200000);
	T_INT(conf_monitor_uid(&c, 0), 200001);
	T_INT(conf_vmm_uid(&c, 1), 200004);
}

TEST(batch_is_made_of_whole_messages)
{
	static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };
	struct nl b;
	size_t at = 0;
	unsigned n = 0;

	nl_init(&b);
	nl_link(&b, "link", 2, mac, 60000);
	nl_addr(&b, "addr", 2, inet_addr("100.64.0.1"), 32);
	nl_rule_del(&b, "rule", 0);
	while (at < b.n) {
		struct nlmsghdr h;

		memcpy(&h, b.mem + at, sizeof(h));
		T_TRUE(h.nlmsg_len >= sizeof(h) && at + h.nlmsg_len <= b.n);
		T_INT(h.nlmsg_seq, n);
		T_TRUE(h.nlmsg_flags & NLM_F_ACK);
		at += NLMSG_ALIGN(h.nlmsg_len);
		n++;
	}
	T_INT(n, 3);
	T_TRUE(!b.overflow);
}

TEST(batch_that_is_too_long_says_so)
{
	struct nl b;

	nl_init(&b);
	for (unsigned i = 0; i <= NL_REQUESTS_MAX; i++)
		nl_rule_del(&b, "rule", i);
	T_TRUE(b.overflow);
}

static size_t ack(uint8_t *to, uint32_t seq, int32_t code)
{
	struct nlmsghdr h = { .nlmsg_len = sizeof(h) + sizeof(code),
			      .nlmsg_type = NLMSG_ERROR,
			      .nlmsg_seq = seq };

	memcpy(to, &h, sizeof(h));
	memcpy(to + sizeof(h), &code, sizeof(code));
	return h.nlmsg_len;
}

TEST(acknowledgements_are_counted)
{
	uint8_t in[256];
	size_t n = ack(in, 0, 0);
	unsigned acks = 0, bad = 99;

	n += ack(in + n, 1, 0);
	T_INT(nl_parse_acks(in, n, &acks, &bad), 0);
	T_INT(acks, 2);
}

TEST(refused_request_is_named)
{
	uint8_t in[256];
	size_t n = ack(in, 0, 0);
	unsigned acks = 0, bad = 99;

	n += ack(in + n, 1, -EEXIST);
	T_INT(nl_parse_acks(in, n, &acks, &bad), -EEXIST);
	T_INT(bad, 1);
}

TEST(acknowledgement_that_lies_about_its_length)
{
	uint8_t in[256];
	size_t n = ack(in, 0, 0);
	unsigned acks = 0, bad = 99;
	uint32_t len = 4096;

	memcpy(in, &len, sizeof(len));
	T_INT(nl_parse_acks(in, n, &acks, &bad), -EBADMSG);
	len = 0;
	memcpy(in, &len, sizeof(len));
	T_INT(nl_parse_acks(in, n, &acks, &bad), -EBADMSG);
	T_INT(nl_parse_acks(in, 3, &acks, &bad), -EBADMSG);
}

TEST(rules_drop_by_default_and_forward_nothing)
{
	T_HAS(slotnet_rules, "priority -500; policy drop");
	T_HAS(slotnet_rules, "hook forward priority 0; policy drop");
	T_HAS(slotnet_rules, "hook input priority 0; policy drop");
	T_TRUE(!strstr(slotnet_rules, "masquerade"));
	T_TRUE(!strstr(slotnet_rules, "redirect"));
}

TEST(steps_of_the_jail_have_words)
{
	for (int i = 1; i < JAIL_STEP_MAX_; i++)
		T_TRUE(strcmp(jail_step_name(i), "start") != 0);
	T_STR(jail_step_name(-1), "start");
	T_STR(jail_step_name(JAIL_STEP_MAX_), "start");
}
