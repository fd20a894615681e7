/* SPDX-License-Identifier: Apache-2.0 */

/* Law: what is accepted names a port, and says the same again. */

#include "cli/portspec.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct portspec s, again;
	struct err e = { 0 };
	char word[128], text[32];

	if (size >= sizeof(word))
		return 0;
	memcpy(word, data, size);
	word[size] = '\0';
	if (portspec_parse(word, &s, &e) < 0) {
		CHECK(e.code == -EINVAL);
		return 0;
	}
	CHECK(s.port != 0);
	snprintf(text, sizeof(text), "%u:%u", s.local, s.port);
	CHECK(portspec_parse(text, &again, &e) == 0);
	CHECK(again.local == s.local && again.port == s.port);
	return 0;
}
