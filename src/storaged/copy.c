/* SPDX-License-Identifier: Apache-2.0 */
#include "storaged/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"

#define CHUNK ((size_t)1 << 20)

DEFINE_CLEANUP(struct digest, digest_free);

struct pass {
	int from, to;
	struct digest *digest;
	uint8_t *mem, *zeros;
};

static int write_at(int fd, const uint8_t *p, size_t n, off_t at)
{
	while (n > 0) {
		ssize_t did = pwrite(fd, p, n, at);

		if (did < 0 && errno == EINTR)
			continue;
		if (did < 0)
			return -errno;
		p += did;
		at += did;
		n -= (size_t)did;
	}
	return 0;
}

static void zeros(struct pass *p, off_t n)
{
	while (n > 0) {
		size_t part = n < (off_t)CHUNK ? (size_t)n : CHUNK;

		digest_update(p->digest, p->zeros, part);
		n -= (off_t)part;
	}
}

static int data(struct pass *p, off_t at, off_t end)
{
	while (at < end) {
		off_t left = end - at;
		size_t want = left < (off_t)CHUNK ? (size_t)left : CHUNK;
		ssize_t n = pread(p->from, p->mem, want, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EBUSY; /* it shrank under us */
		digest_update(p->digest, p->mem, (size_t)n);
		if (p->to >= 0) {
			int r = write_at(p->to, p->mem, (size_t)n, at);

			if (r < 0)
				return r;
		}
		at += n;
	}
	return 0;
}

static int walk(struct pass *p, off_t size)
{
	off_t at = 0;

	while (at < size) {
		off_t start = lseek(p->from, at, SEEK_DATA), end;
		int r;

		if (start < 0 && errno != ENXIO)
			return -errno;
		if (start < 0 || start > size)
			start = size; /* a hole up to the end */
		zeros(p, start - at);
		if (start == size)
			return 0;
		end = lseek(p->from, start, SEEK_HOLE);
		if (end < 0 || end > size)
			end = size;
		r = data(p, start, end);
		if (r < 0)
			return r;
		at = end;
	}
	return 0;
}

int copy_hash(int from, int to, char ret_hex[DIGEST_HEX], uint64_t *ret_size)
{
	OWNED(digest_free_p) struct digest *d = digest_new();
	OWNED(own_free_p) uint8_t *mem = xcalloc(1, CHUNK);
	OWNED(own_free_p) uint8_t *none = xcalloc(1, CHUNK);
	struct pass p = { from, to, d, mem, none };
	uint8_t raw[DIGEST_BYTES];
	struct stat st;
	int r;

	if (fstat(from, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (to >= 0 && ftruncate(to, st.st_size) < 0)
		return -errno;
	posix_fadvise(from, 0, 0, POSIX_FADV_SEQUENTIAL);
	r = walk(&p, st.st_size);
	if (r < 0)
		return r;
	digest_final(d, raw);
	text_hex(raw, sizeof(raw), ret_hex);
	*ret_size = (uint64_t)st.st_size;
	return 0;
}
