/* SPDX-License-Identifier: Apache-2.0 */

/* Trees, packed and unpacked in a process of their own: what reads a hostile
 * archive has a bound on its memory and no connection. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/copy.h"
#include "cli/pack.h"
#include "cli/remote.h"
#include "cli/sigs.h"

#define SILENCE_DOWN_S 60u
#define SILENCE_UP_S   300u /* the guest unpacks and syncs */

/* Shared with the other process. */
struct report {
	struct unpack_count unpacked;
	struct pack_count packed;
};

struct transit {
	struct copy *copy;
	pid_t pid;
	int fd; /* our end of the pipe */
	struct report *report;
	uint64_t bytes;
	int code; /* of the process, once it ended */
};

/* Fork; the child has *ret_fd, its end of the pipe. True in the child. */
static bool part(struct transit *t, bool child_reads, int *ret_fd)
{
	int p[2];

	t->report = mmap(NULL, sizeof(*t->report), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(t->report != MAP_FAILED && pipe2(p, O_CLOEXEC) == 0);
	fflush(NULL);
	t->pid = fork();
	CHECK(t->pid >= 0);
	t->fd = p[child_reads];
	*ret_fd = p[!child_reads];
	if (t->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		unblock_signals();
		fd_close(t->fd);
		return true;
	}
	fd_close(*ret_fd);
	return false;
}

/* The process's end; true if it did its work. */
static bool join(struct transit *t)
{
	int st;

	t->fd = fd_close(t->fd);
	if (t->pid > 0) {
		while (waitpid(t->pid, &st, 0) < 0 && errno == EINTR)
			;
		t->code = WIFEXITED(st) ? WEXITSTATUS(st) : 255;
		t->pid = 0;
	}
	return t->code == 0;
}

static int on_bytes(void *arg, const void *p, size_t n)
{
	struct transit *t = arg;

	t->bytes += n;
	copy_progress(t->copy, t->bytes, 0);
	return write_all(t->fd, p, n) < 0; /* it gave up, and said why */
}

static ssize_t on_read(void *arg, void *p, size_t n)
{
	struct transit *t = arg;
	struct pollfd fds[2] = { { .fd = t->fd, .events = POLLIN },
				 { .fd = t->copy->signal_fd,
				   .events = POLLIN } };
	ssize_t r;

	poll(fds, 2, -1);
	if (fds[1].revents && copy_interrupted(t->copy))
		return -1;
	do
		r = read(t->fd, p, n);
	while (r < 0 && errno == EINTR);
	/* an end that is none of the archive must not look like one */
	if (r < 0 || (r == 0 && !join(t)))
		return -1;
	t->bytes += (size_t)r;
	copy_progress(t->copy, t->bytes, 0);
	return r;
}

static char *archive_url(struct copy *x, const char *path, bool to_guest)
{
	owned_str base = remote_path(x->sandbox, "archive", path);
	owned_str owner = client_escape(x->owner ? x->owner : "");

	return xasprintf("%s%s%s%s", base, x->zstd ? "&format=tar.zst" : "",
			 to_guest && x->owner ? "&owner=" : "",
			 to_guest ? owner : "");
}

static int down_summary(struct transit *t)
{
	const struct unpack_count *n = &t->report->unpacked;

	if (t->code == 0 && n->refused == 0) {
		if (t->copy->cli->verbose || n->left_out)
			fprintf(stderr,
				"caisson: %" PRIu64 " entries, %" PRIu64
				" bytes, %" PRIu64 " left out\n",
				n->entries, n->bytes, n->left_out);
		return CLI_OK;
	}
	return cli_usage(
	    "%" PRIu64 " entries were made, %" PRIu64 " were refused%s",
	    n->entries, n->refused, t->code ? "; the copy is not whole" : "");
}

int copy_tree_down(struct copy *x, const char *path, const char *target)
{
	struct transit t = { .copy = x };
	owned_str url = archive_url(x, path, false);
	const struct client_transfer ct = {
		.side = CLIENT_DATA,
		.method = "GET",
		.path = url,
		.accept = "application/x-tar, application/zstd, */*;q=0.1",
		.on_bytes = on_bytes,
		.arg = &t,
		.silence_s = SILENCE_DOWN_S,
	};
	struct fault f = { 0 };
	struct err e = { 0 };
	owned_fd top = -1;
	int r, in, ret;
	bool whole;

	if (mkdir(target, 0755) < 0 && errno != EEXIST)
		return cli_usage("%s: %s", target, strerror(errno));
	top = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return cli_usage("%s: %s", target, strerror(errno));
	if (part(&t, true, &in))
		_exit(unpack_run(in, top, &x->limits, &t.report->unpacked) < 0);
	r = client_transfer(x->client, &ct, NULL, NULL, &f, &e);
	whole = join(&t);
	meter_end(&x->meter);
	if (r == CLIENT_OK || (!whole && !x->signo && r != CLIENT_FAULT)) {
		ret = down_summary(&t);
	} else {
		ret = copy_failed(x, r, &f, &e);
		if (t.report->unpacked.entries)
			fprintf(stderr,
				"caisson: %" PRIu64 " entries had arrived and "
				"stay in %s\n",
				t.report->unpacked.entries, target);
	}
	munmap(t.report, sizeof(*t.report));
	return ret;
}

int copy_tree_up(struct copy *x, const char *folder, const char *target)
{
	struct transit t = { .copy = x };
	owned_str url = archive_url(x, target, true);
	owned_fd top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct client_transfer ct = {
		.side = CLIENT_DATA,
		.method = "PUT",
		.path = url,
		.on_read = on_read,
		.body_bytes = -1,
		.arg = &t,
		.silence_s = SILENCE_UP_S,
	};
	json_t *answer = NULL;
	struct fault f = { 0 };
	struct err e = { 0 };
	int r, out, ret = CLI_OK;

	if (top < 0)
		return cli_usage("%s: %s", folder, strerror(errno));
	if (part(&t, false, &out))
		_exit(pack_run(top, out, x->zstd, &t.report->packed) < 0);
	r = client_transfer(x->client, &ct, &answer, NULL, &f, &e);
	join(&t); /* a writer without a reader ends */
	meter_end(&x->meter);
	if (r != CLIENT_OK && r != CLIENT_FAULT && !x->signo && t.code)
		ret = cli_usage("%s could not be packed; %s may hold a part of "
				"it",
				folder, target);
	else if (r != CLIENT_OK)
		ret = copy_failed(x, r, &f, &e);
	else if (x->cli->verbose || t.report->packed.left_out)
		fprintf(stderr,
			"caisson: %" PRIu64 " entries, %" PRIu64
			" bytes, %" PRIu64 " left out\n",
			t.report->packed.entries, t.report->packed.bytes,
			t.report->packed.left_out);
	json_decref(answer);
	munmap(t.report, sizeof(*t.report));
	return ret;
}
