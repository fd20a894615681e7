/* SPDX-License-Identifier: Apache-2.0 */

/* The kernel's events, and the lines that come of them. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "guestd/watch.h"
#include "net/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t at = 0, before = 0;
	struct watch_event e;

	while (watch_event_next(data, size, &at, &e) > 0) {
		struct buf line;
		owned_json v = NULL;
		struct err error = { 0 };

		CHECK(at > before && at <= size);
		before = at;
		CHECK(strlen(e.name) < 512 && !strchr(e.name, '/'));
		buf_init(&line, 0);
		watch_line(&line, "create", e.name, e.name, true);
		/* one line, and the host can read it */
		CHECK(memchr(buf_data(&line), '\n', buf_len(&line)) ==
		      buf_data(&line) + buf_len(&line) - 1);
		CHECK(json_parse(buf_data(&line), buf_len(&line) - 1, &v,
				 &error) == 0);
		buf_fini(&line);
	}
	CHECK(at <= size);
	return 0;
}
