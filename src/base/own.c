/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

void own_free_p(void *p)
{
	void *mem;

	/* p points to a pointer of any type: copy, do not alias */
	memcpy(&mem, p, sizeof(mem));
	free(mem);
}

int fd_close(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	return -1;
}

void own_close_p(int *fd)
{
	*fd = fd_close(*fd);
}

int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	CHECK(p);
	return p;
}

char *xstrdup(const char *s)
{
	char *p = strdup(s);

	CHECK(p);
	return p;
}

char *xstrndup(const char *s, size_t n)
{
	char *p = strndup(s, n);

	CHECK(p);
	return p;
}

char *xasprintf(const char *fmt, ...)
{
	char *p = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&p, fmt, ap);
	va_end(ap);
	CHECK(n >= 0);
	return p;
}
