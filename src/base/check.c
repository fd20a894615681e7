/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void check_failed(const char *what, const char *file, int line)
{
	char m[512];
	int n = snprintf(m, sizeof(m), "bug: CHECK(%s) failed at %s:%d\n", what,
			 file, line);

	if (n > (int)sizeof(m) - 1)
		n = (int)sizeof(m) - 1;
	if (n > 0)
		(void)!write(STDERR_FILENO, m, (size_t)n);
	abort();
}
