/* SPDX-License-Identifier: Apache-2.0 */

/* What clients send about events: cursors, types, times, bodies of webhooks.
 * What is read as a cursor has one spelling; a body that is read is one that
 * the database's literals can hold. */

#include <stdlib.h>
#include <string.h>

#include "api/h-event-cursor.h"
#include "api/h-usage.h"
#include "api/h-webhook-body.h"
#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void words(const char *s)
{
	char again[EVENT_CURSOR_TEXT], time[25];
	struct event_pos pos;
	int64_t ms;

	if (event_cursor_decode(s, &pos)) {
		event_cursor_encode(&pos, again);
		CHECK(strcmp(again, s) == 0);
	}
	if (event_type_valid(s, true))
		CHECK(!strpbrk(s, "{}\",\\' ") && strlen(s) < 72);
	if (time_parse(s, &ms)) {
		text_rfc3339(ms, time);
		CHECK(strncmp(time, s, 19) == 0);
	}
}

static void body(const char *s, size_t n, bool change)
{
	owned_json v = NULL;
	struct body_webhook b;
	struct fault f = { 0 };

	if (json_parse(s, n, &v, NULL) < 0)
		return;
	if (body_webhook(v, change, &b, &f) < 0) {
		CHECK(fault_status(f.code) == 400);
		return;
	}
	CHECK(change || (b.url && b.types));
	if (b.types) {
		owned_str text = webhook_types_literal(b.types);

		CHECK(!strpbrk(text + 1, "{\\'"));
	}
	for (size_t i = 0; i < b.n_secrets; i++)
		CHECK(strlen(b.secrets[i]) >= WEBHOOK_SECRET_MIN &&
		      strlen(b.secrets[i]) <= WEBHOOK_SECRET_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	owned_str s = xstrndup((const char *)p, n);

	words(s);
	body((const char *)p, n, false);
	body((const char *)p, n, true);
	return 0;
}
