/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/storeclient.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/own.h"
#include "base/text.h"
#include "proto/storaged.h"

#define COPY_CHUNK (1u << 20)
#define ANSWER_S   300 /* a commit hashes and syncs gigabytes */

int storeclient_open(struct storeclient *s, const char *run, struct err *e)
{
	const struct timeval patience = { .tv_sec = ANSWER_S };
	owned_str path = xasprintf("%s/storaged.sock", run);
	int flags;

	*s = (struct storeclient){ .fd = -1 };
	s->fd = unix_connect(path, SOCK_SEQPACKET, e);
	if (s->fd < 0)
		return err_wrap(e, "the node's store (is `caisson up` done?)");
	flags = fcntl(s->fd, F_GETFL);
	fcntl(s->fd, F_SETFL, flags & ~O_NONBLOCK);
	setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(s->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return 0;
}

void storeclient_close(struct storeclient *s)
{
	s->fd = fd_close(s->fd);
}

/* One question, one answer; a descriptor that comes with it goes to *ret_fd. */
static int ask(struct storeclient *s, struct st_req *req, struct st_rep *rep,
	       int *ret_fd, struct err *e)
{
	int fds[CHANNEL_FDS_MAX];
	size_t n_fds = CHANNEL_FDS_MAX;
	ssize_t n;
	int r;

	req->hdr.seq = ++s->seq;
	r = channel_send_fd(s->fd, req, sizeof(*req), NULL, 0);
	if (r < 0)
		return err_errno(e, -r, "ask the store");
	n = channel_recv_fd(s->fd, rep, sizeof(*rep), fds, &n_fds);
	if (n < 0)
		return err_errno(e, (int)-n, "the store's answer");
	for (size_t i = n > 0 ? 0 : n_fds; i < n_fds; i++) {
		if (i == 0 && ret_fd)
			*ret_fd = fds[i];
		else
			fd_close(fds[i]);
	}
	if ((size_t)n < sizeof(*rep) || rep->hdr.op != req->hdr.op ||
	    rep->hdr.seq != req->hdr.seq)
		return err_set(e, -EBADMSG, ERR_INTERNAL,
			       "the store's answer is not understood; do the "
			       "versions differ?");
	rep->msg[sizeof(rep->msg) - 1] = '\0';
	if (rep->r < 0)
		return err_set(e, rep->r,
			       rep->kind < ERR_KIND_MAX_
				   ? (enum err_kind)rep->kind
				   : ERR_INTERNAL,
			       "the store: %s", rep->msg);
	return 0;
}

static int copy_run(int from, int to, off_t at, off_t end, struct err *e)
{
	static char chunk[COPY_CHUNK];

	while (at < end) {
		size_t want = (size_t)(end - at) < sizeof(chunk)
				  ? (size_t)(end - at)
				  : sizeof(chunk);
		ssize_t n = pread(from, chunk, want, at), done = 0;

		if (n == 0)
			return err_set(e, -EIO, ERR_CONFLICT,
				       "the file shrinks while it is copied");
		if (n < 0)
			return err_errno(e, errno, "read");
		while (done < n) {
			ssize_t w = pwrite(to, chunk + done, (size_t)(n - done),
					   at + done);

			if (w < 0)
				return err_errno(e, errno, "write");
			done += w;
		}
		at += n;
	}
	return 0;
}

int copy_sparse(int from, int to,
		int (*on_bytes)(void *arg, uint64_t done, uint64_t total),
		void *arg, struct err *e)
{
	struct stat st;
	off_t at = 0, data, hole;

	if (fstat(from, &st) < 0)
		return err_errno(e, errno, "stat");
	if (ftruncate(to, st.st_size) < 0)
		return err_errno(e, errno, "size of the copy");
	while (at < st.st_size) {
		data = lseek(from, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break; /* nothing but a hole to the end */
		if (data < 0)
			return err_errno(e, errno, "find data");
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0)
			return err_errno(e, errno, "find a hole");
		/* in pieces, so that progress is told and a signal is heard */
		for (at = data; at < hole;) {
			off_t end = hole - at > 16 * (off_t)COPY_CHUNK
					? at + 16 * (off_t)COPY_CHUNK
					: hole;

			if (copy_run(from, to, at, end, e) < 0)
				return e ? e->code : -EIO;
			at = end;
			if (on_bytes &&
			    on_bytes(arg, (uint64_t)at, (uint64_t)st.st_size))
				return err_set(e, -ECANCELED, ERR_CONFLICT,
					       "interrupted");
		}
	}
	return 0;
}

static int fill_and_commit(struct storeclient *s, int from, int draft,
			   uint64_t id, char ret_digest[72],
			   int (*on_bytes)(void *, uint64_t, uint64_t),
			   void *arg, struct err *e)
{
	struct st_req req = { .hdr.op = ST_DRAFT_COMMIT, .id = id };
	struct st_rep rep;
	int r;

	r = copy_sparse(from, draft, on_bytes, arg, e);
	if (r == 0)
		r = ask(s, &req, &rep, NULL, e);
	if (r < 0) {
		struct st_req drop = { .hdr.op = ST_DRAFT_DROP, .id = id };

		ask(s, &drop, &rep, NULL, NULL);
		return r;
	}
	rep.digest[ST_DIGEST_MAX - 1] = '\0';
	snprintf(ret_digest, 72, "sha256:%s", rep.digest);
	return 0;
}

int storeclient_import(struct storeclient *s, const char *path,
		       char ret_digest[72],
		       int (*on_bytes)(void *arg, uint64_t done,
				       uint64_t total),
		       void *arg, struct err *e)
{
	struct st_req req = { .hdr.op = ST_DRAFT_NEW };
	struct st_rep rep;
	owned_fd from = open(path, O_RDONLY | O_CLOEXEC);
	owned_fd draft = -1;
	int r;

	if (from < 0)
		return err_errno(e, errno, "%s", path);
	r = ask(s, &req, &rep, &draft, e);
	if (r < 0)
		return err_wrap(e, "%s", path);
	if (draft < 0)
		return err_set(e, -EBADMSG, ERR_INTERNAL,
			       "%s: the store gave no file to write to", path);
	r = fill_and_commit(s, from, draft, rep.id, ret_digest, on_bytes, arg,
			    e);
	return r < 0 ? err_wrap(e, "%s", path) : 0;
}
