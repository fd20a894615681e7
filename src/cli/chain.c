/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/jget.h"

static const char *const fields[] = { "n",	"tenant",  "project",
				      "time",	"actor",   "actor_name",
				      "action", "target",  "request",
				      "trace",	"outcome", "code",
				      "detail" };

bool chain_start(struct chain *c, const json_t *floor)
{
	const char *hash = jget_str(floor, "hash", NULL);
	int64_t n = jget_int(floor, "n", 0);

	*c = (struct chain){ 0 };
	if (!json_is_object(floor) || n == 0)
		return true;
	c->n = (uint64_t)n;
	return n > 0 && hash && text_unhex(hash, DIGEST_BYTES, c->prev);
}

static void put(struct digest *d, const char *p, size_t n)
{
	char head[24];
	int k = snprintf(head, sizeof(head), "%zu:", n);

	digest_update(d, head, (size_t)k);
	digest_update(d, p, n);
	digest_update(d, ",", 1);
}

const char *chain_next(struct chain *c, const json_t *record)
{
	const char *hash = jget_str(record, "hash", "");
	int64_t n = jget_int(record, "n", -1);
	uint8_t want[DIGEST_BYTES], is[DIGEST_BYTES];
	struct digest *d;
	char number[24];

	if (n < 1 || (uint64_t)n != c->n + 1)
		return "a record is missing, or out of order";
	if (!text_unhex(hash, sizeof(is), is))
		return "it has no hash";
	d = digest_new();
	digest_update(d, c->prev, sizeof(c->prev));
	snprintf(number, sizeof(number), "%" PRId64, n);
	put(d, number, strlen(number));
	for (size_t i = 1; i < ARRAY_SIZE(fields); i++) {
		const json_t *v = json_object_get(record, fields[i]);

		if (json_is_string(v))
			put(d, json_string_value(v), json_string_length(v));
		else
			digest_update(d, "-,", 2);
	}
	digest_final(d, want);
	digest_free(d);
	if (memcmp(want, is, sizeof(is)) != 0)
		return "its hash does not fit what it says";
	c->n = (uint64_t)n;
	memcpy(c->prev, is, sizeof(is));
	return NULL;
}
