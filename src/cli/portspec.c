/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/portspec.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

int portspec_parse(const char *word, struct portspec *ret, struct err *e)
{
	const char *colon = strchr(word, ':');
	int64_t local = -1, port = -1;
	char first[8];

	if (!colon) {
		text_int(word, 1, 65535, &port);
		local = port;
	} else if ((size_t)(colon - word) < sizeof(first)) {
		snprintf(first, sizeof(first), "%.*s", (int)(colon - word),
			 word);
		if (!text_int(first, 0, 65535, &local) ||
		    !text_int(colon + 1, 1, 65535, &port))
			port = -1;
	}
	if (port < 1)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "\"%.64s\": expected [LOCAL:]PORT, for example "
			       "8080, 9000:80 or 0:80",
			       word);
	ret->local = (uint16_t)local;
	ret->port = (uint16_t)port;
	return 0;
}
