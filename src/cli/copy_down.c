/* SPDX-License-Identifier: Apache-2.0 */

/* A file from a sandbox. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/copy.h"
#include "cli/copyspec.h"
#include "cli/jget.h"
#include "cli/names.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "net/json.h"

#define SILENCE_S 45u

struct down {
	struct copy *copy;
	int fd;
	bool seekable; /* may begin anew */
	uint64_t at;   /* bytes that are written */
	uint64_t total;
	bool total_known;
	char etag[160];
	/* of the answer that comes now */
	bool begun, partial;
	uint64_t from, length;
	bool length_known;
	int bad; /* -errno of writing; -ESTALE: it is another file by now */
	uint64_t progress_ms;
};

static void on_header(void *arg, const char *name, const char *value)
{
	struct down *d = arg;
	uint64_t from, all;

	if (!strcmp(name, "etag")) {
		snprintf(d->etag, sizeof(d->etag), "%s", value);
	} else if (!strcmp(name, "content-length")) {
		d->length_known =
		    text_int(value, 0, INT64_MAX, (int64_t *)&d->length);
	} else if (!strcmp(name, "content-range") &&
		   copy_range(value, &from, &all)) {
		d->partial = true;
		d->from = from;
		d->length = all - from;
		d->length_known = true;
	}
}

/* The first bytes of an answer: where do they belong? */
static int begin(struct down *d)
{
	d->begun = true;
	if (!d->partial)
		d->from = 0;
	if (d->from != d->at) {
		if (d->from != 0 || !d->seekable)
			return -ESTALE;
		fprintf(stderr, "caisson: the file has changed: from its start "
				"again\n");
		if (ftruncate(d->fd, 0) < 0 || lseek(d->fd, 0, SEEK_SET) < 0)
			return -errno;
		d->at = 0;
	}
	d->total_known = d->length_known;
	d->total = d->from + d->length;
	return 0;
}

static int on_bytes(void *arg, const void *p, size_t n)
{
	struct down *d = arg;

	if (!d->begun)
		d->bad = begin(d);
	if (!d->bad)
		d->bad = write_all(d->fd, p, n);
	if (d->bad)
		return 1;
	d->at += n;
	d->progress_ms = now_mono_us() / 1000;
	copy_progress(d->copy, d->at, d->total_known ? d->total : 0);
	return 0;
}

static int attempt(struct down *d, const char *url, struct fault *f,
		   struct err *e)
{
	char range[48], when[192];
	const char *headers[3] = { NULL };
	struct client_transfer t = { .side = CLIENT_DATA,
				     .method = "GET",
				     .path = url,
				     .accept = "application/octet-stream, "
					       "application/json",
				     .on_bytes = on_bytes,
				     .on_header = on_header,
				     .arg = d,
				     .silence_s = SILENCE_S };
	int r;

	if (d->at > 0 && *d->etag) {
		snprintf(range, sizeof(range), "Range: bytes=%" PRIu64 "-",
			 d->at);
		snprintf(when, sizeof(when), "If-Range: %s", d->etag);
		headers[0] = range;
		headers[1] = when;
		t.headers = headers;
	}
	d->begun = d->partial = d->length_known = false;
	d->length = 0;
	r = client_transfer(d->copy->client, &t, NULL, NULL, f, e);
	if (r == CLIENT_OK && !d->begun) /* an empty file */
		d->bad = begin(d);
	if (r == CLIENT_OK && d->total_known && d->at != d->total)
		return err_set(e, -EPIPE, ERR_UNAVAILABLE,
			       "the file ended early");
	return r;
}

static bool passing(const struct fault *f)
{
	return f->status == 429 || f->status == 502 || f->status == 503 ||
	       f->status == 504;
}

/* 0, or the exit code after a message. */
static int download(struct down *d, const char *path)
{
	struct copy *x = d->copy;
	owned_str url = remote_path(x->sandbox, "files", path);
	struct fault f = { 0 };
	struct err e = { 0 };
	bool lost = false;
	int r;

	for (unsigned try = 0;; try++) {
		uint64_t before = d->at;

		r = attempt(d, url, &f, &e);
		if (r == CLIENT_OK && !d->bad)
			return 0;
		if (d->bad == -ESTALE || d->bad == -EPIPE)
			return cli_usage(
			    d->bad == -EPIPE
				? "nobody reads the output any more"
				: "the file changed while it was read; what "
				  "was written of it is of no use");
		if (d->bad)
			return cli_usage("cannot write here: %s",
					 strerror(-d->bad));
		if (x->signo || (r == CLIENT_FAULT && (!lost || !passing(&f))))
			return copy_failed(x, r, &f, &e);
		if (d->at == 0 && !d->begun && !lost)
			return copy_failed(x, r, &f, &e);
		if (now_mono_us() / 1000 - d->progress_ms >
		    UINT64_C(1000) * COPY_GIVE_UP_S)
			return copy_failed(x, r, &f, &e);
		if (!lost || d->at != before) {
			try = 0;
			fprintf(stderr,
				"caisson: connection lost at byte %" PRIu64
				", resuming …\n",
				d->at);
		}
		lost = true;
		copy_pause(try);
	}
}

int copy_stream_down(struct copy *x, const char *path, int fd)
{
	struct down d = { .copy = x,
			  .fd = fd,
			  .progress_ms = now_mono_us() / 1000 };

	return download(&d, path);
}

/* Beside the target, so that it can be renamed. */
static char *temporary(const char *target)
{
	const char *slash = strrchr(target, '/');
	char id[13];

	random_id(id, 12);
	return xasprintf("%.*s.caisson-%s",
			 slash ? (int)(slash - target + 1) : 0, target, id);
}

static int keep(struct down *d, const json_t *entry, const char *temp,
		const char *target)
{
	const char *octal = jget_str(entry, "mode", "0644");
	int64_t at_ms = parse_rfc3339(jget_str(entry, "mtime", ""));
	struct timespec times[2] = { { 0, UTIME_OMIT }, { 0, UTIME_OMIT } };

	if (at_ms >= 0)
		times[1] =
		    (struct timespec){ at_ms / 1000, at_ms % 1000 * 1000000 };
	(void)futimens(d->fd, times);
	if (fchmod(d->fd, (mode_t)(strtoul(octal, NULL, 8) & 0777)) < 0 ||
	    rename(temp, target) < 0)
		return cli_usage("%s: %s", target, strerror(errno));
	return CLI_OK;
}

int copy_file_down(struct copy *x, const char *path, const char *target)
{
	struct down d = { .copy = x,
			  .fd = -1,
			  .seekable = true,
			  .progress_ms = now_mono_us() / 1000 };
	owned_str real = realpath(target, NULL);
	owned_str temp = NULL;
	owned_json entry = NULL;
	struct stat st;
	int ret = CLI_OK;

	if (stat(target, &st) == 0 && !S_ISREG(st.st_mode)) {
		owned_fd fd = open(target, O_WRONLY | O_CLOEXEC | O_NOCTTY);

		if (fd < 0)
			return cli_usage("%s: %s", target, strerror(errno));
		return copy_stream_down(x, path, fd);
	}
	/* its mode; the file itself may be a link */
	if (remote_stat(x->cli, x->client, x->sandbox, path, true, &entry,
			&ret) < 0)
		return ret;
	temp = temporary(real ? real : target);
	d.fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (d.fd < 0)
		return cli_usage("%s: %s", target, strerror(errno));
	ret = download(&d, path);
	if (ret == CLI_OK)
		ret = keep(&d, entry, temp, real ? real : target);
	if (ret != CLI_OK)
		unlink(temp);
	fd_close(d.fd);
	return ret;
}
