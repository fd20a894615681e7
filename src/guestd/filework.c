/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/filework.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "guestd/archives.h"
#include "guestd/list.h"
#include "guestd/watch.h"
#include "net/json.h"

#define BEAT_MS 5000u

int filework_path(const char *text, char ret[FILE_PATH_MAX])
{
	size_t n = strlen(text);

	if (text[0] != '/' || n >= FILE_PATH_MAX)
		return -EINVAL;
	memcpy(ret, text, n + 1);
	return 0;
}

/* ---- to the parent ---- */

static uint64_t now_ms(void)
{
	return now_mono_us() / 1000;
}

int filework_answer(struct file_ctx *c, const struct file_result *r)
{
	int n = write_all(c->sock, r, sizeof(*r));

	c->gone |= n < 0;
	return n;
}

int filework_beat(struct file_ctx *c)
{
	static const struct file_result at_work;

	if (c->gone)
		return -EPIPE;
	if (c->quiet)
		return 0;
	if (now_ms() - c->beat_at_ms < BEAT_MS)
		return 0;
	c->beat_at_ms = now_ms();
	return filework_answer(c, &at_work);
}

void filework_long(struct file_ctx *c, unsigned ms)
{
	const struct file_result r = { .silent_ms = ms };

	(void)filework_answer(c, &r);
}

int filework_json_take(struct file_ctx *c, int status, void *v)
{
	owned_str text = json_text(v);
	struct file_result r = { .status = status,
				 .type = "application/json",
				 .length = (int64_t)strlen(text) };

	json_decref(v);
	if (filework_answer(c, &r) < 0)
		return 1;
	return write_all(c->sock, text, strlen(text)) < 0;
}

int filework_error(struct file_ctx *c, int status, const char *code,
		   const char *field, const char *remedy, const char *fmt, ...)
{
	struct file_result r = { .status = status };
	va_list ap;

	snprintf(r.code, sizeof(r.code), "%s", code);
	snprintf(r.field, sizeof(r.field), "%s", field ? field : "");
	snprintf(r.remedy, sizeof(r.remedy), "%s", remedy ? remedy : "");
	va_start(ap, fmt);
	vsnprintf(r.msg, sizeof(r.msg), fmt, ap);
	va_end(ap);
	(void)filework_answer(c, &r);
	return 1;
}

struct refusal {
	int errnum, status;
	const char *code, *remedy;
};

static const struct refusal refusals[] = {
	{ ENOENT, 404, "not_found", "check the path, or use parents=1" },
	{ ENOTDIR, 404, "not_found",
	  "a part of the path is no folder: check the path" },
	{ EACCES, 403, "policy_denied",
	  "change the permissions inside the sandbox" },
	{ EPERM, 403, "policy_denied",
	  "change the permissions or attributes inside the sandbox" },
	{ EROFS, 403, "policy_denied",
	  "that file system is read-only: use a path on another one" },
	{ ENOSPC, 507, "no_space",
	  "delete files, or create the sandbox with more disk_mib" },
	{ EDQUOT, 507, "no_space",
	  "delete files, or raise the quota inside the sandbox" },
	{ EFBIG, 413, "too_large",
	  "the file system cannot hold a file of that size" },
	{ ENOTEMPTY, 409, "wrong_state", "use recursive=1" },
	{ EEXIST, 409, "name_taken", "delete it first, or use another name" },
	{ EBUSY, 409, "wrong_state", "it is in use, e.g. as a mount point" },
	{ ETXTBSY, 409, "wrong_state", "a program runs from it" },
	{ EISDIR, 409, "wrong_state",
	  "that is a folder: use files/list or archive, or name a file" },
	{ ENXIO, 409, "wrong_state",
	  "devices, sockets and FIFOs are not opened: use a program in the "
	  "sandbox" },
	{ ENAMETOOLONG, 400, "bad_path",
	  "a name holds at most 255 bytes, a path 4,096" },
	{ ELOOP, 400, "bad_path", "symbolic links point at each other" },
	{ EINVAL, 400, "bad_path", "check the path" },
	{ EILSEQ, 400, "bad_path", "the file system refuses such a name" },
	{ EMFILE, 503, "capacity", "repeat it later" },
	{ ENFILE, 503, "capacity", "repeat it later" },
	{ ENOMEM, 503, "capacity", "the sandbox is short of memory" },
};

void filework_errno_result(struct file_result *r, int errnum, const char *field,
			   const char *doing, const char *what)
{
	const struct refusal *f = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
		if (refusals[i].errnum == errnum)
			f = &refusals[i];
	*r = (struct file_result){ .status = f ? f->status : 500 };
	snprintf(r->code, sizeof(r->code), "%s", f ? f->code : "internal");
	snprintf(r->field, sizeof(r->field), "%s", field ? field : "");
	snprintf(r->remedy, sizeof(r->remedy), "%s", f ? f->remedy : "");
	snprintf(r->msg, sizeof(r->msg), "%s \"%.200s%s\": %s", doing, what,
		 strlen(what) > 200 ? "..." : "", strerror(errnum));
}

int filework_refuse(struct file_ctx *c, int errnum, const char *field,
		    const char *doing, const char *what)
{
	struct file_result r;

	filework_errno_result(&r, errnum, field, doing, what);
	(void)filework_answer(c, &r);
	return 1;
}

/* ---- from the parent ---- */

static bool read_whole(int sock, void *to, size_t n)
{
	char *p = to;

	while (n > 0) {
		ssize_t r = read(sock, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		p += r;
		n -= (size_t)r;
	}
	return true;
}

ssize_t filework_piece(struct file_ctx *c, void *to, size_t size)
{
	uint32_t n;

	if (!read_whole(c->sock, &n, sizeof(n)) || n > size ||
	    (n > 0 && !read_whole(c->sock, to, n))) {
		c->gone = true;
		return -ECANCELED;
	}
	return (ssize_t)n;
}

void filework_settle(const struct stat *st)
{
	static const struct timespec ms = { 0, 1000000 };
	struct timespec now;

	/* a clock that was set back must not hold us up: 40 ms at most */
	for (int i = 0; i < 40; i++) {
		(void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
		if (now.tv_sec > st->st_ctim.tv_sec ||
		    (now.tv_sec == st->st_ctim.tv_sec &&
		     now.tv_nsec > st->st_ctim.tv_nsec))
			return;
		(void)nanosleep(&ms, NULL);
	}
}

int filework_run(const struct file_job *job, int sock)
{
	struct file_ctx c = { .job = job, .sock = sock };
	static int (*const verbs[])(struct file_ctx *) = {
		[FILE_READ] = filework_read,
		[FILE_WRITE] = filework_write,
		[FILE_DELETE] = filework_delete,
		[FILE_LIST] = list_run,
		[FILE_STAT] = list_stat_run,
		[FILE_MKDIR] = filework_mkdir,
		[FILE_MOVE] = filework_move,
		[FILE_PACK] = archive_pack_run,
		[FILE_UNPACK] = archive_unpack_run,
		[FILE_WATCH] = watch_run,
	};

	c.beat_at_ms = now_ms();
	/* as a program of the sandbox would */
	(void)umask(022);
	return verbs[job->verb](&c);
}
