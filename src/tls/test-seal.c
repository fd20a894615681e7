/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/seal.h"

#include <string.h>

#include "base/test.h"

static const uint8_t key[SEAL_KEY] = { 1, 2, 3 };

TEST(what_was_sealed_comes_back)
{
	uint8_t box[5 + SEAL_OVERHEAD], out[6] = { 0 };

	seal(key, "whk_1", "hello", 5, box);
	T_TRUE(unseal(key, "whk_1", box, sizeof(box), out));
	T_STR((char *)out, "hello");
	T_TRUE(memmem(box, sizeof(box), "hello", 5) == NULL);
}

TEST(twice_the_same_looks_different)
{
	uint8_t a[5 + SEAL_OVERHEAD], b[5 + SEAL_OVERHEAD];

	seal(key, "x", "hello", 5, a);
	seal(key, "x", "hello", 5, b);
	T_TRUE(memcmp(a, b, sizeof(a)) != 0);
}

TEST(another_place_or_key_opens_nothing)
{
	static const uint8_t other[SEAL_KEY] = { 1, 2, 4 };
	uint8_t box[5 + SEAL_OVERHEAD], out[6] = { 0 };

	seal(key, "whk_1", "hello", 5, box);
	T_TRUE(!unseal(key, "whk_2", box, sizeof(box), out));
	T_TRUE(!unseal(other, "whk_1", box, sizeof(box), out));
	T_TRUE(memcmp(out, "\0\0\0\0\0", 5) == 0);
}

TEST(every_changed_byte_and_every_cut_is_noticed)
{
	uint8_t box[5 + SEAL_OVERHEAD], out[6];

	seal(key, "x", "hello", 5, box);
	for (size_t i = 0; i < sizeof(box); i++) {
		box[i] ^= 1;
		T_TRUE(!unseal(key, "x", box, sizeof(box), out));
		box[i] ^= 1;
		T_TRUE(!unseal(key, "x", box, i, out));
	}
	T_TRUE(unseal(key, "x", box, sizeof(box), out));
}

TEST(nothing_is_a_secret_too)
{
	uint8_t box[SEAL_OVERHEAD], out[1];

	seal(key, "x", "", 0, box);
	T_TRUE(unseal(key, "x", box, sizeof(box), out));
}
