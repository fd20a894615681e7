/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "cli/doctor.h"

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
