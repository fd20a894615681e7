/* SPDX-License-Identifier: Apache-2.0 */

/* Law: what decodes is exactly what encoding gives. */

#include <string.h>

#include "api/auth.h"
#include "api/cursor.h"
#include "api/proxy.h"
#include "api/url.h"
#include "base/check.h"
#include "base/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned_str text = xstrndup((const char *)data, size);
	owned_str path = xasprintf("/x?label=%s", text);
	owned_str escaped = url_escape(text);
	owned_str back = NULL;
	owned_str round = NULL;
	char again[CURSOR_TEXT];
	int64_t seq;

	if (*text && cursor_decode(text[0], text, &seq)) {
		CHECK(seq >= 0);
		cursor_encode(text[0], seq, again);
		CHECK(strcmp(again, text) == 0);
	}
	for (unsigned i = 0; i < 4; i++)
		free(url_query_nth(path, "label", i));
	/* escaping is undone by decoding */
	round = xasprintf("/x?label=%s", escaped);
	back = url_query_nth(round, "label", 0);
	CHECK(back && strcmp(back, text) == 0);
	auth_key(text, NULL);
	auth_key(NULL, text);
	proxy_utf8(data, size);
	proxy_header("etag", text);
	return 0;
}
