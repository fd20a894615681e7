/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "cli/chain.h"
#include "net/json.h"

/* A record that fits: its hash made as doc/audit.md says, independently. */
static json_t *record(int n, const char *actor, const uint8_t prev[32],
		      uint8_t ret[32])
{
	json_t *r =
	    json_pack("{s:i,s:s,s:n,s:s,s:s,s:n,s:s,s:n,s:n,s:n,s:s,"
		      "s:n,s:s}",
		      "n", n, "tenant", "ten_a", "project", "time",
		      "2026-12-01T10:00:00.000Z", "actor", actor, "actor_name",
		      "action", "sandbox.create", "target", "request", "trace",
		      "outcome", "done", "code", "detail", "ä");
	char text[512], hex[65];
	uint8_t in[600];
	int k = snprintf(text, sizeof(text),
			 "1:%d,5:ten_a,-,24:2026-12-01T10:00:00.000Z,%zu:%s,-,"
			 "14:sandbox.create,-,-,-,4:done,-,2:ä,",
			 n, strlen(actor), actor);

	memcpy(in, prev, 32);
	memcpy(in + 32, text, (size_t)k);
	digest_sha256(in, 32 + (size_t)k, ret);
	text_hex(ret, 32, hex);
	json_object_set_new(r, "hash", json_string(hex));
	return r;
}

TEST(a_chain_that_fits)
{
	uint8_t zero[32] = { 0 }, one[32], two[32];
	owned_json a = record(1, "key_a", zero, one);
	owned_json b = record(2, "key_b", one, two);
	struct chain c;

	T_TRUE(chain_start(&c, NULL));
	T_TRUE(!chain_next(&c, a));
	T_TRUE(!chain_next(&c, b));
	T_INT(c.n, 2);
	T_TRUE(!memcmp(c.prev, two, 32));
}

TEST(a_changed_record_is_found)
{
	uint8_t zero[32] = { 0 }, one[32];
	owned_json a = record(1, "key_a", zero, one);
	struct chain c;

	json_object_set_new(a, "actor", json_string("key_x"));
	chain_start(&c, NULL);
	T_HAS(chain_next(&c, a), "does not fit");
}

TEST(null_and_empty_differ)
{
	uint8_t zero[32] = { 0 }, one[32];
	owned_json a = record(1, "key_a", zero, one);
	struct chain c;

	json_object_set_new(a, "code", json_string(""));
	chain_start(&c, NULL);
	T_HAS(chain_next(&c, a), "does not fit");
}

TEST(a_missing_record_is_found)
{
	uint8_t zero[32] = { 0 }, one[32], two[32];
	owned_json a = record(1, "key_a", zero, one);
	owned_json b = record(3, "key_b", one, two);
	struct chain c;

	chain_start(&c, NULL);
	T_TRUE(!chain_next(&c, a));
	T_HAS(chain_next(&c, b), "missing");
	T_HAS(chain_next(&c, a), "out of order");
}

TEST(a_chain_begins_behind_its_floor)
{
	uint8_t zero[32] = { 0 }, one[32], two[32];
	owned_json a = record(1, "key_a", zero, one);
	owned_json b = record(2, "key_b", one, two);
	owned_json floor =
	    json_pack("{s:i,s:O}", "n", 1, "hash", json_object_get(a, "hash"));
	struct chain c;

	T_TRUE(chain_start(&c, floor));
	T_TRUE(!chain_next(&c, b));
}

TEST(records_without_what_they_need_are_refused)
{
	owned_json empty = json_object();
	owned_json unhashed = json_pack("{s:i}", "n", 1);
	owned_json floor = json_pack("{s:i}", "n", 4);
	struct chain c;

	T_TRUE(chain_start(&c, NULL));
	T_TRUE(chain_next(&c, empty) != NULL);
	T_HAS(chain_next(&c, unhashed), "no hash");
	T_TRUE(!chain_start(&c, floor));
}
