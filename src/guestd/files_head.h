/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The header fields of a file request, parsed: Range, If-Match, If-None-Match,
 * If-Range, Content-Digest; and what they mean for one file. Everything here is
 * pure and takes a peer's bytes.
 *
 * An entity tag names one content of one file: device, inode, size and both
 * times to the nanosecond. The kernel stamps writes with a clock that ticks
 * every few milliseconds; whoever hands a tag out waits until that clock has
 * moved on (filework.h), so that a later write cannot keep the tag.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define FILE_ETAG_MAX 100u
#define FILE_DATE_MAX 32u

/* What one Range field asks for; exact numbers follow from the file's size. */
struct file_range {
	bool given, suffix, open; /* suffix: last `first` bytes */
	uint64_t first, last;	  /* last: inclusive, unless open */
};

/* Field NULL: not given, 0. Several ranges, another unit, or anything else that
 * is no range: -EINVAL. */
int file_range_parse(const char *field, struct file_range *ret);
/* The bytes [*ret_from, *ret_from + *ret_n) of a file of that size; false: none
 * of them exist (416). */
bool file_range_apply(const struct file_range *r, uint64_t size,
		      uint64_t *ret_from, uint64_t *ret_n);

/* Quoted. */
void file_etag(const struct stat *st, char ret[FILE_ETAG_MAX]);
/* As HTTP writes dates; UTC. */
void file_date(int64_t unix_s, char ret[FILE_DATE_MAX]);

/* Is the tag in a list of If-Match / If-None-Match ("*" or tags)? weak: a tag
 * W/"x" counts as "x" (If-None-Match). -EINVAL if it is no such list. */
int file_etag_listed(const char *list, const char *etag, bool weak);
/* Does If-Range name this very content? Malformed is no. */
bool file_if_range(const char *field, const char *etag, const char *date);

/* Content-Digest (RFC 9530): 1 with the sha-256 of it, 0 if it has none, or
 * -EINVAL. */
int file_digest_parse(const char *field, uint8_t ret[32]);
