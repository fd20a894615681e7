/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/digest.h"

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

static const char *hex(const uint8_t md[DIGEST_BYTES])
{
	static char s[DIGEST_HEX];

	text_hex(md, DIGEST_BYTES, s);
	return s;
}

/* FIPS 180-4 examples */
TEST(sha256_of_nothing)
{
	char s[DIGEST_HEX];

	digest_sha256_hex("", 0, s);
	T_STR(s, "e3b0c44298fc1c149afbf4c8996fb924"
		 "27ae41e4649b934ca495991b7852b855");
}

TEST(sha256_of_abc)
{
	char s[DIGEST_HEX];

	digest_sha256_hex("abc", 3, s);
	T_STR(s, "ba7816bf8f01cfea414140de5dae2223"
		 "b00361a396177a9cb410ff61f20015ad");
}

TEST(stream_equals_one_go_at_every_cut)
{
	uint8_t data[200], whole[DIGEST_BYTES], parts[DIGEST_BYTES];
	struct digest *d = digest_new();

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	digest_sha256(data, sizeof(data), whole);
	for (size_t cut = 0; cut <= sizeof(data); cut++) {
		digest_update(d, data, cut);
		digest_update(d, data + cut, sizeof(data) - cut);
		digest_final(d, parts);
		T_TRUE(memcmp(whole, parts, sizeof(whole)) == 0);
	}
	digest_free(d);
}

/* RFC 4231, 4.2, 4.3, 4.7 */
TEST(hmac_case_1)
{
	uint8_t key[20], md[DIGEST_BYTES];

	memset(key, 0x0b, sizeof(key));
	digest_hmac(key, sizeof(key), "Hi There", 8, md);
	T_STR(hex(md), "b0344c61d8db38535ca8afceaf0bf12b"
		       "881dc200c9833da726e9376c2e32cff7");
}

TEST(hmac_case_2)
{
	uint8_t md[DIGEST_BYTES];

	digest_hmac("Jefe", 4, "what do ya want for nothing?", 28, md);
	T_STR(hex(md), "5bdcc146bf60754e6a042426089575c7"
		       "5a003f089d2739839dec58b964ec3843");
}

TEST(hmac_key_longer_than_a_block)
{
	uint8_t key[131], md[DIGEST_BYTES];

	memset(key, 0xaa, sizeof(key));
	digest_hmac(key, sizeof(key),
		    "Test Using Larger Than Block-Size Key - Hash Key First",
		    54, md);
	T_STR(hex(md), "60e431591ee0b67f0d8a26aacbf5b77f"
		       "8e0bc6213728c5140546040f0ee37f54");
}

TEST(hmac_stream_starts_again_after_final)
{
	struct digest *d = digest_hmac_new("Jefe", 4);
	uint8_t a[DIGEST_BYTES], b[DIGEST_BYTES];

	digest_update(d, "one", 3);
	digest_final(d, a);
	digest_update(d, "one", 3);
	digest_final(d, b);
	T_TRUE(memcmp(a, b, sizeof(a)) == 0);
	digest_free(d);
}
