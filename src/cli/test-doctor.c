/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "cli/doctor.h"
#include "cli/guestnet.h"

TEST(a_listener_on_the_loopback)
{
	unsigned long inode;
	unsigned port;
	bool loopback;

	T_TRUE(proc_listener("   0: 0100007F:1E14 00000000:0000 0A 00000000:"
			     "00000000 00:00000000 00000000  0  0 4711 1 0",
			     false, &port, &inode, &loopback));
	T_INT(port, 7700);
	T_INT(inode, 4711);
	T_TRUE(loopback);
}

TEST(a_listener_for_everybody)
{
	unsigned long inode;
	unsigned port;
	bool loopback;

	T_TRUE(proc_listener("   1: 00000000:0016 00000000:0000 0A 00000000:"
			     "00000000 00:00000000 00000000  0  0 12 1 0",
			     false, &port, &inode, &loopback));
	T_TRUE(!loopback);
	T_TRUE(proc_listener(
	    "   1: 00000000000000000000000000000000:0016 "
	    "00000000000000000000000000000000:0000 0A 00000000:00000000 "
	    "00:00000000 00000000  0  0 12 1 0",
	    true, &port, &inode, &loopback));
	T_TRUE(!loopback);
	T_TRUE(proc_listener(
	    "   1: 00000000000000000000000001000000:0016 "
	    "00000000000000000000000000000000:0000 0A 00000000:00000000 "
	    "00:00000000 00000000  0  0 12 1 0",
	    true, &port, &inode, &loopback));
	T_TRUE(loopback);
}

TEST(what_is_no_listener)
{
	unsigned long inode;
	unsigned port;
	bool loopback;

	T_TRUE(!proc_listener("  sl  local_address rem_address   st", false,
			      &port, &inode, &loopback));
	T_TRUE(!proc_listener("   0: 0100007F:1E14 0100007F:0001 01 00000000:"
			      "00000000 00:00000000 00000000  0  0 4711 1 0",
			      false, &port, &inode, &loopback));
	T_TRUE(!proc_listener("", false, &port, &inode, &loopback));
}

TEST(numbers_of_a_status)
{
	static const char text[] = "Name:\tx\nUid:\t1000\t1000\nCapEff:\t"
				   "00000000000000ff\nNoNewPrivs:\t1\n";

	T_INT(proc_status(text, "Uid", 10), 1000);
	T_INT(proc_status(text, "CapEff", 16), 255);
	T_INT(proc_status(text, "NoNewPrivs", 10), 1);
	T_INT(proc_status(text, "Seccomp", 10), -1);
	T_INT(proc_status("", "Uid", 10), -1);
}

TEST(a_guest_whose_rules_differ)
{
	owned_str more = xasprintf("%stable ip x {\n}\n", guestnet_rules);
	owned_str other = xasprintf("%s", guestnet_rules);
	unsigned line = 0;

	T_TRUE(guestnet_rules_equal(guestnet_rules, &line));
	T_TRUE(!guestnet_rules_equal("", &line));
	T_INT(line, 1);
	T_TRUE(!guestnet_rules_equal(more, &line));
	other[strlen(other) - 2] = '\0';
	T_TRUE(!guestnet_rules_equal(other, &line));
	memcpy(strstr(guestnet_rules, "drop") - guestnet_rules + other, "open",
	       4);
	T_TRUE(!guestnet_rules_equal(other, &line));
	T_INT(line, 3);
}

TEST(things_in_a_table_of_proc)
{
	T_INT(guestnet_count("heading\n"), 0);
	T_INT(guestnet_count("heading"), 0);
	T_INT(guestnet_count("heading\n a\n"), 1);
	T_INT(guestnet_count("heading\n a\n b"), 2);
}

TEST(addresses_of_a_slot)
{
	T_TRUE(guestnet_address_good("lo", ""));
	T_TRUE(guestnet_address_good("tap0", "100.64.0.1"));
	T_TRUE(!guestnet_address_good("tap0", "10.0.0.1"));
	T_TRUE(!guestnet_address_good("eth0", ""));
	T_TRUE(!guestnet_address_good("lo", "family-10"));
}
