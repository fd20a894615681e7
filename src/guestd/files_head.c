/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/files_head.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

#define DIGEST_MAX 1024u

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t");
}

/* Digits only; 19 of them fit. */
static bool number(const char **p, uint64_t *ret)
{
	size_t n = strspn(*p, "0123456789");

	if (n == 0 || n > 18)
		return false;
	*ret = 0;
	for (size_t i = 0; i < n; i++)
		*ret = *ret * 10 + (uint64_t)((*p)[i] - '0');
	*p += n;
	return true;
}

int file_range_parse(const char *field, struct file_range *ret)
{
	*ret = (struct file_range){ 0 };
	if (!field)
		return 0;
	ret->given = true;
	if (strncmp(field, "bytes=", 6) != 0)
		return -EINVAL;
	field = skip_blanks(field + 6);
	if (*field == '-') {
		ret->suffix = true;
		field++;
		if (!number(&field, &ret->first))
			return -EINVAL;
	} else {
		if (!number(&field, &ret->first) || *field++ != '-')
			return -EINVAL;
		ret->open = *field < '0' || *field > '9';
		if (!ret->open && !number(&field, &ret->last))
			return -EINVAL;
		if (!ret->open && ret->last < ret->first)
			return -EINVAL;
	}
	return *skip_blanks(field) ? -EINVAL : 0;
}

bool file_range_apply(const struct file_range *r, uint64_t size,
		      uint64_t *ret_from, uint64_t *ret_n)
{
	uint64_t last = size - 1;

	if (size == 0)
		return false;
	if (r->suffix) {
		*ret_n = r->first < size ? r->first : size;
		*ret_from = size - *ret_n;
		return *ret_n > 0;
	}
	if (r->first >= size)
		return false;
	if (!r->open && r->last < last)
		last = r->last;
	*ret_from = r->first;
	*ret_n = last - r->first + 1;
	return true;
}

void file_etag(const struct stat *st, char ret[FILE_ETAG_MAX])
{
	snprintf(ret, FILE_ETAG_MAX, "\"%llx-%llx-%llx-%llx.%lx-%llx.%lx\"",
		 (unsigned long long)st->st_dev, (unsigned long long)st->st_ino,
		 (unsigned long long)st->st_size,
		 (unsigned long long)st->st_mtim.tv_sec,
		 (unsigned long)st->st_mtim.tv_nsec,
		 (unsigned long long)st->st_ctim.tv_sec,
		 (unsigned long)st->st_ctim.tv_nsec);
}

void file_date(int64_t unix_s, char ret[FILE_DATE_MAX])
{
	static const char days[][4] = { "Sun", "Mon", "Tue", "Wed",
					"Thu", "Fri", "Sat" };
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr",
					  "May", "Jun", "Jul", "Aug",
					  "Sep", "Oct", "Nov", "Dec" };
	/* beyond four digits of a year there is no such date */
	const int64_t max = 253402300799;
	time_t t = unix_s < 0 ? 0 : unix_s > max ? max : unix_s;
	struct tm tm = { 0 };

	(void)gmtime_r(&t, &tm);
	snprintf(ret, FILE_DATE_MAX, "%s, %02u %s %04u %02u:%02u:%02u GMT",
		 days[tm.tm_wday], (unsigned)tm.tm_mday, months[tm.tm_mon],
		 (unsigned)tm.tm_year + 1900u, (unsigned)tm.tm_hour,
		 (unsigned)tm.tm_min, (unsigned)tm.tm_sec);
}

/* One entity tag at *p: its opaque part with quotes. */
static bool next_tag(const char **p, const char **ret, size_t *ret_n,
		     bool *ret_weak)
{
	const char *end;

	*ret_weak = (*p)[0] == 'W' && (*p)[1] == '/';
	if (*ret_weak)
		*p += 2;
	if (**p != '"')
		return false;
	end = strchr(*p + 1, '"');
	if (!end)
		return false;
	*ret = *p;
	*ret_n = (size_t)(end + 1 - *p);
	*p = end + 1;
	return true;
}

int file_etag_listed(const char *list, const char *etag, bool weak)
{
	const char *p = skip_blanks(list);
	int found = 0;

	if (*p == '*')
		return *skip_blanks(p + 1) ? -EINVAL : 1;
	for (;;) {
		const char *tag;
		size_t n;
		bool is_weak;

		if (!next_tag(&p, &tag, &n, &is_weak))
			return -EINVAL;
		if ((weak || !is_weak) && strlen(etag) == n &&
		    memcmp(tag, etag, n) == 0)
			found = 1;
		p = skip_blanks(p);
		if (!*p)
			return found;
		if (*p != ',')
			return -EINVAL;
		p = skip_blanks(p + 1);
	}
}

bool file_if_range(const char *field, const char *etag, const char *date)
{
	field = skip_blanks(field);
	return strcmp(field, etag) == 0 || strcmp(field, date) == 0;
}

/* A member "sha-256=:B64:" of the dictionary, without blanks around. */
static int one_digest(const char *p, size_t n, uint8_t ret[32])
{
	static const char name[] = "sha-256=";
	const size_t n_name = sizeof(name) - 1;
	uint8_t sum[36]; /* what 44 characters may hold */

	if (n < n_name || memcmp(p, name, n_name) != 0)
		return memchr(p, '=', n) ? 0 : -EINVAL;
	p += n_name;
	n -= n_name;
	if (n != 46 || p[0] != ':' || p[45] != ':' ||
	    text_unbase64(p + 1, 44, sum) != 32)
		return -EINVAL;
	memcpy(ret, sum, 32);
	return 1;
}

int file_digest_parse(const char *field, uint8_t ret[32])
{
	int found = 0;

	if (strlen(field) > DIGEST_MAX)
		return -EINVAL;
	for (;;) {
		size_t n, used;
		int r;

		field = skip_blanks(field);
		n = used = strcspn(field, ",");
		while (n > 0 && (field[n - 1] == ' ' || field[n - 1] == '\t'))
			n--;
		r = one_digest(field, n, ret);
		if (r < 0 || (r > 0 && found))
			return -EINVAL;
		found |= r;
		if (!field[used])
			return found;
		field += used + 1;
	}
}
