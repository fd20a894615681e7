/* SPDX-License-Identifier: Apache-2.0 */
/* A request that passes the check has only strings that end, and names that
 * cannot leave a folder. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "storaged/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	struct st_req *q;

	if (size < sizeof(*q) || size > sizeof(*q) + ST_REF_MAX + 1)
		return 0; /* the channel's table refuses these */
	q = malloc(size); /* exact, so that reading past it shows */
	CHECK(q);
	memcpy(q, data, size);
	if (request_check(q, size, &e) == 0) {
		CHECK(strlen(q->name) < ST_NAME_MAX);
		CHECK(strlen(q->digest) < ST_DIGEST_MAX);
		CHECK(q->text_n == size - sizeof(*q));
		if (q->hdr.op == ST_OVERLAY_NEW || q->hdr.op == ST_REF_SET)
			CHECK(q->name[0] && q->name[0] != '.' &&
			      !strchr(q->name, '/'));
		if (q->hdr.op == ST_OPEN)
			CHECK(strlen(q->digest) == 64);
	} else {
		CHECK(e.code < 0 && e.msg[0]);
	}
	free(q);
	return 0;
}
