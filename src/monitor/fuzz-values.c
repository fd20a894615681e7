/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/values.h"

#include "base/check.h"
#include "base/own.h"
#include "net/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What passed passes again when it was written anew. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned_json v = NULL;
	owned_json again = NULL;
	owned_str text = NULL;
	struct err e = { 0 };

	if (json_parse(data, size, &v, NULL) < 0)
		return 0;
	if (values_check(v, &e) < 0) {
		CHECK(e.msg[0]);
		return 0;
	}
	text = json_text(v);
	CHECK(json_parse(text, strlen(text), &again, NULL) == 0);
	CHECK(values_check(again, &e) == 0);
	return 0;
}
