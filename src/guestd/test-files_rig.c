/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/test-files_rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

struct rig r;
struct rig_reply p;

int file_call_with(const char *call, const char *method, const char *name,
		   const char *query, const char *const *fields,
		   const void *body, size_t n)
{
	owned_str path =
	    xasprintf("/v1/%s?path=%s/%s%s", call, test_tmpdir(), name, query);

	rig_start(&r, &p, method, path, fields, body, n);
	T_TRUE(rig_finish(&p));
	return p.cut ? 0 : p.status;
}

int file_status(const char *call, const char *method, const char *name,
		const char *query)
{
	int status = file_call_with(call, method, name, query, NULL, NULL, 0);

	rig_reply_fini(&p);
	return status;
}

char *in_tmp(const char *name)
{
	return xasprintf("%s/%s", test_tmpdir(), name);
}

void make_file(const char *name, const char *text)
{
	owned_str path = in_tmp(name);
	owned_fd fd =
	    open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	T_TRUE(fd >= 0);
	T_INT(write_all(fd, text, strlen(text)), 0);
}

const char *content_of(const char *name)
{
	static char text[4096];
	owned_str path = in_tmp(name);
	owned_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = '\0';
	return n < 0 ? "(no file)" : text;
}
