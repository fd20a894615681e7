/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/renew.h"

#include <stdio.h>
#include <string.h>

#include "base/test.h"

#define B64                                                                    \
	"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v"     \
	"MDEyMzQ1Njc4OTo7PD0+Pw=="

static struct renew got;
static char field[96];
static struct err err;

static int parse(const char *sandbox, const char *machine, const char *entropy,
		 long long ns, int low, int high)
{
	char text[1024];

	snprintf(
	    text, sizeof(text),
	    "{\"sandbox\":\"%s\",\"hostname\":\"h1\",\"machine_id\":\"%s\","
	    "\"entropy\":\"%s\",\"realtime_ns\":%lld,\"port_low\":%d,"
	    "\"port_high\":%d,\"nonce\":\"abc+/=\"}",
	    sandbox, machine, entropy, ns, low, high);
	err_clear(&err);
	return renew_read(text, strlen(text), &got, field, &err);
}

#define MACHINE "0123456789abcdef0123456789abcdef"

TEST(a_whole_renewal)
{
	T_INT(parse("sb1", MACHINE, B64, 5, 20000, 50000), 0);
	T_STR(got.sandbox, "sb1");
	T_STR(got.hostname, "h1");
	T_STR(got.machine_id, MACHINE);
	T_STR(got.nonce, "abc+/=");
	T_INT(got.realtime_ns, 5);
	T_INT(got.port_low, 20000);
	T_INT(got.port_high, 50000);
	for (int i = 0; i < 64; i++)
		T_INT(got.entropy[i], i);
}

TEST(entropy_of_wrong_length)
{
	T_TRUE(parse("sb1", MACHINE, "AAAA", 5, 20000, 50000) < 0);
	T_STR(field, "entropy");
	T_TRUE(parse("sb1", MACHINE, B64 B64, 5, 20000, 50000) < 0);
	T_TRUE(parse("sb1", MACHINE, "", 5, 20000, 50000) < 0);
}

TEST(entropy_that_is_no_base64)
{
	char bad[] = B64;

	bad[10] = '!';
	T_TRUE(parse("sb1", MACHINE, bad, 5, 20000, 50000) < 0);
	T_STR(field, "entropy");
}

TEST(machine_id_must_be_32_digits)
{
	T_TRUE(parse("sb1", "0123", B64, 5, 20000, 50000) < 0);
	T_STR(field, "machine_id");
	T_TRUE(parse("sb1", "x123456789abcdef0123456789abcdef", B64, 5, 20000,
		     50000) < 0);
}

TEST(too_small_a_port_window)
{
	T_TRUE(parse("sb1", MACHINE, B64, 5, 40000, 50000) < 0);
	T_STR(field, "port_high");
}

TEST(ports_out_of_range)
{
	T_TRUE(parse("sb1", MACHINE, B64, 5, 80, 50000) < 0);
	T_TRUE(parse("sb1", MACHINE, B64, 5, 20000, 70000) < 0);
}

TEST(names_with_odd_letters)
{
	T_TRUE(parse("sb1\\nroot", MACHINE, B64, 5, 20000, 50000) < 0);
	T_STR(field, "sandbox");
	T_TRUE(parse("", MACHINE, B64, 5, 20000, 50000) < 0);
}

TEST(time_before_the_epoch)
{
	T_TRUE(parse("sb1", MACHINE, B64, -1, 20000, 50000) < 0);
	T_STR(field, "realtime_ns");
}

TEST(something_is_missing)
{
	const char *text = "{\"sandbox\":\"sb1\"}";

	T_TRUE(renew_read(text, strlen(text), &got, field, &err) < 0);
	T_TRUE(field[0] != '\0');
}

TEST(root_less_applies_nothing)
{
	struct guestd g = { .root_less = true };

	held_init(&g.held);
	T_INT(parse("sb1", MACHINE, B64, 5, 20000, 50000), 0);
	T_INT(renew_apply(&g, &got, &err), 0);
	T_INT(renew_clock(&g, 1, &err), 0);
	T_TRUE(renew_realtime_ns() > 1000000000000000000ll);
}
