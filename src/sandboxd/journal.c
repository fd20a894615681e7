/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/journal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "proto/noded.h"

#define JOURNAL_MAGIC	0x4c4e4a53u /* "SJNL" */
#define JOURNAL_VERSION 1u

static uint32_t crc32c(const void *p, size_t n)
{
	const uint8_t *b = p;
	uint32_t crc = ~0u;

	for (size_t i = 0; i < n; i++) {
		crc ^= b[i];
		for (int k = 0; k < 8; k++)
			crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1u)));
	}
	return ~crc;
}

void journal_seal(struct journal *j)
{
	j->magic = JOURNAL_MAGIC;
	j->version = JOURNAL_VERSION;
	j->crc = crc32c(j, offsetof(struct journal, crc));
}

static bool is_text(const char *s, size_t max)
{
	size_t n = strnlen(s, max);

	if (n == max)
		return false;
	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] > '~')
			return false;
	return true;
}

static bool is_hex64(const char *s, size_t max)
{
	uint8_t digest[32];

	return strnlen(s, max) == 64 && text_unhex(s, sizeof(digest), digest);
}

int journal_decode(const void *p, size_t n, struct journal *ret)
{
	struct journal j;

	if (n != sizeof(j))
		return -EBADMSG;
	memcpy(&j, p, sizeof(j));
	if (j.magic != JOURNAL_MAGIC || j.version != JOURNAL_VERSION ||
	    j.crc != crc32c(&j, offsetof(struct journal, crc)))
		return -EBADMSG;
	if (j.slot >= NODED_SLOTS_MAX || j.step == JOURNAL_NONE ||
	    j.step >= JOURNAL_STEP_MAX_ || j.kvm > 1)
		return -EBADMSG;
	if (!is_text(j.sandbox, sizeof(j.sandbox)) ||
	    !id_valid(j.sandbox, "sb", 20) ||
	    !is_text(j.operation, sizeof(j.operation)) ||
	    !is_text(j.vm, sizeof(j.vm)) || !id_valid(j.vm, "vm-", 20) ||
	    !is_text(j.hostname, sizeof(j.hostname)) ||
	    !is_hex64(j.release, sizeof(j.release)) ||
	    !is_hex64(j.spec, sizeof(j.spec)))
		return -EBADMSG;
	*ret = j;
	return 0;
}

int journal_write(int dir_fd, struct journal *j)
{
	char name[32], temp[40];
	owned_fd fd = -1;
	int r;

	journal_seal(j);
	snprintf(name, sizeof(name), "%u", j->slot);
	snprintf(temp, sizeof(temp), ".%u.new", j->slot);
	fd =
	    openat(dir_fd, temp,
		   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	r = write_all(fd, j, sizeof(*j));
	if (r < 0)
		return r;
	return renameat(dir_fd, temp, dir_fd, name) < 0 ? -errno : 0;
}

int journal_read(int dir_fd, uint32_t slot, struct journal *ret)
{
	char name[32], raw[sizeof(struct journal) + 1];
	owned_fd fd = -1;
	ssize_t n;
	int r;

	snprintf(name, sizeof(name), "%u", slot);
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	n = read(fd, raw, sizeof(raw));
	if (n < 0)
		return -errno;
	r = journal_decode(raw, (size_t)n, ret);
	if (r == 0 && ret->slot != slot)
		r = -EBADMSG;
	return r;
}

int journal_remove(int dir_fd, uint32_t slot)
{
	char name[32];

	snprintf(name, sizeof(name), "%u", slot);
	if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}
