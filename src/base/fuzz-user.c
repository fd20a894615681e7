/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "base/user.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first line is the key, the rest passwd(5) or group(5). Whatever is found
 * is findable by its own name and is never the "no change" number. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *)data;
	const char *end = size ? memchr(s, '\n', size) : NULL;
	size_t n = end ? (size_t)(end - s) : size;
	char *key = xcalloc(n + 1, 1);
	const char *text = end ? end + 1 : s;
	size_t left = end ? size - n - 1 : 0;
	struct user u, again;
	gid_t gids[4], gid;

	if (n)
		memcpy(key, s, n);
	if (user_find(text, left, key, &u) == 0) {
		CHECK(u.uid != (uid_t)-1 && u.gid != (gid_t)-1);
		CHECK(u.home[0] && u.shell[0]);
		CHECK(strcmp(u.name, key) == 0 ||
		      strtoul(key, NULL, 10) == u.uid);
		CHECK(user_find_uid(text, left, u.uid, &again) == 0);
		CHECK(again.uid == u.uid);
	}
	if (group_find(text, left, key, &gid) == 0)
		CHECK(gid != (gid_t)-1);
	CHECK(user_find_groups(text, left, key, gids, 4) <= 4);
	free(key);
	return 0;
}
