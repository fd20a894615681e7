/* SPDX-License-Identifier: Apache-2.0 */
/* Words that come out are the bytes that went in, and end where they end. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "noded/argv.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static const char *argv[ARGV_WORDS_MAX + 1];
	char *text;
	size_t sum = 0;
	int n;

	if (size == 0)
		return 0;
	text = malloc(size);
	CHECK(text);
	memcpy(text, data, size);
	n = argv_split(text, size, argv);
	if (n > 0) {
		CHECK(n <= (int)ARGV_WORDS_MAX && !argv[n] && argv[0][0]);
		for (int i = 0; i < n; i++)
			sum += strlen(argv[i]) + 1;
		CHECK(sum == size);
	} else {
		CHECK(n == -EBADMSG);
	}
	free(text);
	return 0;
}
