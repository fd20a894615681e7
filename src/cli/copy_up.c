/* SPDX-License-Identifier: Apache-2.0 */

/* A file into a sandbox. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/copy.h"
#include "cli/jget.h"
#include "cli/remote.h"
#include "net/json.h"
#include "tls/digest.h"

#define SILENCE_S 120u /* the guest syncs before it answers */
#define TRIES	  5u
#define PIECE	  65536u

struct up {
	struct copy *copy;
	int fd;
	uint64_t sent, total;  /* total 0: a pipe */
	struct digest *digest; /* of a pipe, on the way */
	int bad;
};

static ssize_t on_read(void *arg, void *p, size_t n)
{
	struct up *u = arg;
	struct pollfd fds[2] = { { .fd = u->fd, .events = POLLIN },
				 { .fd = u->copy->signal_fd,
				   .events = POLLIN } };
	ssize_t r;

	/* what blocks must not hide Ctrl-C */
	poll(fds, 2, -1);
	if (fds[1].revents && copy_interrupted(u->copy))
		return -1;
	do
		r = read(u->fd, p, n > PIECE ? PIECE : n);
	while (r < 0 && errno == EINTR);
	if (r < 0) {
		u->bad = -errno;
		return -1;
	}
	if (r == 0 && u->total && u->sent < u->total) {
		u->bad = -ESTALE;
		return -1;
	}
	if (u->digest)
		digest_update(u->digest, p, (size_t)r);
	u->sent += (size_t)r;
	copy_progress(u->copy, u->sent, u->total);
	return r;
}

static char *url_of(struct copy *x, const char *target, const char *mode)
{
	owned_str base = remote_path(x->sandbox, "files", target);
	owned_str owner = client_escape(x->owner ? x->owner : "");

	return xasprintf("%s%s%s%s%s%s", base, mode ? "&mode=" : "",
			 mode ? mode : "", x->owner ? "&owner=" : "", owner,
			 x->parents ? "&parents=1" : "");
}

static int send_body(struct up *u, const char *url, const char *digest,
		     json_t **ret, struct fault *f, struct err *e)
{
	const char *headers[] = { digest, NULL };
	const struct client_transfer t = {
		.side = CLIENT_DATA,
		.method = "PUT",
		.path = url,
		.headers = digest ? headers : NULL,
		.on_read = on_read,
		.body_bytes = digest ? (int64_t)u->total : -1,
		.arg = u,
		.silence_s = digest ? SILENCE_S : 0,
	};
	int r;

	u->sent = 0;
	u->bad = 0;
	r = client_transfer(u->copy->client, &t, ret, NULL, f, e);
	if (u->bad)
		return err_set(e, u->bad, ERR_CONFLICT,
			       "cannot read the source: %s",
			       u->bad == -ESTALE ? "it became shorter meanwhile"
						 : strerror(-u->bad));
	return r;
}

int copy_stream_up(struct copy *x, int fd, const char *target)
{
	struct up u = { .copy = x, .fd = fd, .digest = digest_new() };
	owned_str url = url_of(x, target, x->mode);
	owned_json answer = NULL;
	uint8_t sum[DIGEST_BYTES];
	char hex[DIGEST_HEX];
	struct fault f = { 0 };
	struct err e = { 0 };
	int r = send_body(&u, url, NULL, &answer, &f, &e);

	digest_final(u.digest, sum);
	digest_free(u.digest);
	text_hex(sum, sizeof(sum), hex);
	if (r != CLIENT_OK)
		return copy_failed(x, r, &f, &e);
	if (strcmp(jget_str(answer, "sha256", hex), hex) != 0)
		return cli_usage("%s holds other bytes than were sent (SHA-256 "
				 "%s); remove it",
				 target, hex);
	return CLI_OK;
}

/* "Content-Digest: sha-256=:…:" of the whole file; NULL with *e. */
static char *digest_header(struct up *u, struct err *e)
{
	struct digest *d = digest_new();
	uint8_t sum[DIGEST_BYTES], piece[PIECE];
	char text[DIGEST_BYTES * 2];
	ssize_t n;

	u->total = 0;
	while ((n = read(u->fd, piece, sizeof(piece))) > 0) {
		digest_update(d, piece, (size_t)n);
		u->total += (size_t)n;
	}
	digest_final(d, sum);
	digest_free(d);
	if (n < 0) {
		err_errno(e, errno, "cannot read the source");
		return NULL;
	}
	text_base64(sum, sizeof(sum), text);
	return xasprintf("Content-Digest: sha-256=:%s:", text);
}

static int upload(struct up *u, const char *url)
{
	struct copy *x = u->copy;
	struct fault f = { 0 };
	struct err e = { 0 };
	owned_str digest = digest_header(u, &e);

	if (!digest)
		return cli_fail(x->cli, &e);
	for (unsigned try = 1;; try++) {
		json_t *answer = NULL;
		int r;

		if (lseek(u->fd, 0, SEEK_SET) < 0)
			return cli_usage("cannot read the source again: %s",
					 strerror(errno));
		r = send_body(u, url, digest, &answer, &f, &e);
		json_decref(answer);
		if (r == CLIENT_OK)
			return CLI_OK;
		/* a whole replacement: sending it again changes nothing */
		if (r == CLIENT_FAULT || u->bad || x->signo || u->sent == 0 ||
		    try == TRIES)
			return copy_failed(x, r, &f, &e);
		fprintf(stderr, "caisson: connection lost, sending again …\n");
		copy_pause(try);
	}
}

int copy_file_up(struct copy *x, const char *file, const char *target)
{
	struct up u = { .copy = x };
	owned_str url = NULL;
	owned_fd fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	char mode[8];

	if (fd < 0 || fstat(fd, &st) < 0)
		return cli_usage("%s: %s", file, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return copy_stream_up(x, fd, target);
	snprintf(mode, sizeof(mode), "%04o", (unsigned)(st.st_mode & 0777));
	url = url_of(x, target, x->mode ? x->mode : mode);
	u.fd = fd;
	return upload(&u, url);
}
