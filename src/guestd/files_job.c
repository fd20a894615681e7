/* SPDX-License-Identifier: Apache-2.0 */

/* Queries and header fields of a file call. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "guestd/files.h"
#include "guestd/list.h"
#include "guestd/reply.h"

#define LIMIT_DEFAULT 200

static bool refuse(struct http_stream *s, const char *field, const char *msg)
{
	reply_error(s, 400, "invalid_field", field, NULL, msg);
	return false;
}

static bool read_path(struct http_stream *s, const char *name,
		      char ret[FILE_PATH_MAX])
{
	owned_str path = http_query_get(http_stream_head(s)->path, name);

	if (!path) {
		reply_error(s, 400, "missing_field", name, NULL,
			    "expected an absolute path, percent-encoded");
		return false;
	}
	if (filework_path(path, ret) < 0) {
		reply_error(s, 400, "bad_path", name, NULL,
			    "expected an absolute path of at most 4096 bytes");
		return false;
	}
	return true;
}

static bool read_flag(struct http_stream *s, const char *name, bool *ret)
{
	owned_str v = http_query_get(http_stream_head(s)->path, name);

	if (!v)
		return true;
	*ret = strcmp(v, "1") == 0;
	return *ret || strcmp(v, "0") == 0 ||
	       refuse(s, name, "expected 0 or 1");
}

static bool read_number(struct http_stream *s, const char *name, int64_t max,
			unsigned *ret)
{
	owned_str v = http_query_get(http_stream_head(s)->path, name);
	int64_t n;

	if (!v)
		return true;
	if (!text_int(v, 1, max, &n)) {
		char msg[64];

		snprintf(msg, sizeof(msg), "expected a number from 1 to %lld",
			 (long long)max);
		return refuse(s, name, msg);
	}
	*ret = (unsigned)n;
	return true;
}

static bool read_mode(struct http_stream *s, struct file_job *job)
{
	owned_str mode = http_query_get(http_stream_head(s)->path, "mode");
	size_t n = mode ? strlen(mode) : 0;

	if (!mode)
		return true;
	if (n == 0 || n > 5 || strspn(mode, "01234567") != n ||
	    strtol(mode, NULL, 8) > 07777)
		return refuse(s, "mode",
			      "expected octal permissions such as 0644");
	job->mode = (int)strtol(mode, NULL, 8);
	return true;
}

static bool read_owner(struct http_stream *s, struct file_job *job)
{
	owned_str owner = http_query_get(http_stream_head(s)->path, "owner");

	if (!owner)
		return true;
	if (!*owner || strlen(owner) >= sizeof(job->owner))
		return refuse(s, "owner", "expected user or user:group");
	snprintf(job->owner, sizeof(job->owner), "%s", owner);
	return true;
}

static bool read_format(struct http_stream *s, struct file_job *job)
{
	owned_str format = http_query_get(http_stream_head(s)->path, "format");

	job->zstd = format && strcmp(format, "tar.zst") == 0;
	return !format || job->zstd || strcmp(format, "tar") == 0 ||
	       refuse(s, "format", "expected tar or tar.zst");
}

static bool read_list(struct http_stream *s, struct file_job *job)
{
	owned_str after = http_query_get(http_stream_head(s)->path, "after");

	job->depth = 1;
	job->limit = LIMIT_DEFAULT;
	if (after && list_cursor_parse(after, job->after) < 0) {
		reply_error(s, 400, "bad_cursor", "after",
			    "start again without it",
			    "this is no cursor of a list");
		return false;
	}
	return read_number(s, "depth", LIST_DEPTH_MAX, &job->depth) &&
	       read_number(s, "limit", LIST_LIMIT_MAX, &job->limit);
}

static bool read_query(struct http_stream *s, struct file_job *job)
{
	bool follow = true, ok = true;

	switch (job->verb) {
	case FILE_WRITE:
	case FILE_MKDIR:
		return read_mode(s, job) && read_owner(s, job) &&
		       read_flag(s, "parents", &job->parents);
	case FILE_DELETE:
	case FILE_WATCH:
		return read_flag(s, "recursive", &job->recursive);
	case FILE_LIST:
		return read_list(s, job);
	case FILE_STAT:
		ok = read_flag(s, "follow", &follow);
		job->nofollow = !follow;
		return ok;
	case FILE_MOVE:
		return read_path(s, "to", job->to) &&
		       read_flag(s, "replace", &job->replace);
	case FILE_UNPACK:
		return read_format(s, job) && read_owner(s, job);
	case FILE_PACK:
		return read_format(s, job);
	case FILE_READ:
		return true;
	}
	return false;
}

/* ---- header fields ---- */

static bool copy_field(struct http_stream *s, const char *name,
		       char ret[FILE_FIELD_MAX])
{
	const struct http_head *head = http_stream_head(s);
	const char *v = http_head_get(head, name);
	unsigned n = 0;

	for (size_t i = 0; i < head->n_fields; i++)
		n += strcmp(head->fields[i].name, name) == 0;
	if (!v)
		return true;
	if (n > 1 || strlen(v) >= FILE_FIELD_MAX)
		return refuse(s, name, "expected it once, in 1023 bytes");
	snprintf(ret, FILE_FIELD_MAX, "%s", v);
	return true;
}

static bool copy_tags(struct http_stream *s, const char *name,
		      char ret[FILE_FIELD_MAX])
{
	if (!copy_field(s, name, ret))
		return false;
	return !*ret || file_etag_listed(ret, "\"\"", true) >= 0 ||
	       refuse(s, name, "expected quoted entity tags, or *");
}

static bool read_range(struct http_stream *s, struct file_job *job)
{
	const struct http_head *head = http_stream_head(s);
	unsigned n = 0;

	for (size_t i = 0; i < head->n_fields; i++)
		n += strcmp(head->fields[i].name, "range") == 0;
	if (n <= 1 &&
	    file_range_parse(http_head_get(head, "range"), &job->range) == 0)
		return true;
	reply_error(s, 416, "offset_gone", "range",
		    "ask for one range, such as bytes=0-99",
		    "this is no single range of bytes");
	return false;
}

static bool read_digest(struct http_stream *s, struct file_job *job)
{
	const char *v = http_head_get(http_stream_head(s), "content-digest");
	int r = v ? file_digest_parse(v, job->digest) : 0;

	job->has_digest = r > 0;
	return r >= 0 || refuse(s, "content-digest",
				"expected sha-256=:BASE64: (RFC 9530)");
}

static bool read_fields(struct http_stream *s, struct file_job *job)
{
	if (job->verb == FILE_READ)
		return copy_tags(s, "if-match", job->if_match) &&
		       copy_tags(s, "if-none-match", job->if_none_match) &&
		       copy_field(s, "if-range", job->if_range) &&
		       read_range(s, job);
	/* Hashing is most of a large upload's work in an emulated guest, so the
	 * monitor does it; it ends no body whose digest is wrong. */
	job->no_sum = http_head_get(http_stream_head(s), "sum-by") != NULL;
	if (job->verb == FILE_WRITE)
		return copy_tags(s, "if-match", job->if_match) &&
		       copy_tags(s, "if-none-match", job->if_none_match) &&
		       read_digest(s, job);
	return true;
}

bool files_job_read(struct http_stream *s, enum file_verb verb,
		    struct file_job *job)
{
	job->verb = verb;
	job->mode = -1;
	job->length = http_head_length(http_stream_head(s));
	return read_path(s, "path", job->path) && read_query(s, job) &&
	       read_fields(s, job);
}
