/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/portspec.h"

#include "base/own.h"
#include "base/test.h"

TEST(one_number_is_both)
{
	struct portspec s;
	struct err e = { 0 };

	T_INT(portspec_parse("8080", &s, &e), 0);
	T_INT(s.local, 8080);
	T_INT(s.port, 8080);
}

TEST(two_numbers)
{
	struct portspec s;
	struct err e = { 0 };

	T_INT(portspec_parse("9000:80", &s, &e), 0);
	T_TRUE(s.local == 9000 && s.port == 80);
	T_INT(portspec_parse("0:65535", &s, &e), 0);
	T_TRUE(s.local == 0 && s.port == 65535);
}

TEST(what_is_no_port)
{
	static const char *const bad[] = { "",
					   "0",
					   "65536",
					   "-1",
					   "x",
					   ":80",
					   "80:",
					   "80:0",
					   "1:2:3",
					   " 80",
					   "80 ",
					   "65536:80",
					   "0x50",
					   "80:+80",
					   ":",
					   "127.0.0.1:80",
					   "000000080:80" };
	struct portspec s;
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		T_INT(portspec_parse(bad[i], &s, &e), -EINVAL);
		T_HAS(e.msg, "[LOCAL:]PORT");
	}
}
