/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files and trees between this machine and a sandbox. A download goes into a
 * temporary name beside the target and is renamed when it is whole; one that
 * breaks off is resumed by Range and If-Range. An upload of a file is sent with
 * its digest, which the guest checks before it renames; of a pipe the digest of
 * what was sent is compared with the answer's. Trees travel as one tar, packed
 * and unpacked in a process of their own. Blocking; each returns the exit code
 * after its messages.
 */

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/meter.h"
#include "cli/unpack.h"

#define COPY_GIVE_UP_S 120

struct copy {
	struct cli *cli;
	struct client *client;
	const char *sandbox; /* id */
	const char *owner;   /* of what is made in the guest; NULL */
	const char *mode;    /* the same, octal */
	bool parents;	     /* make missing folders of the guest */
	bool quiet, zstd;
	struct unpack_limits limits;
	int signal_fd;
	/* running */
	struct meter meter;
	const char *what; /* shown beside the bar */
	int signo;	  /* that ended it */
	uint64_t moved;	  /* bytes, for the summary */
	uint64_t started_ms;
};

/* To be called once, before the rest: signals, the meter. */
void copy_init(struct copy *x);
void copy_fini(struct copy *x);
/* A signal came: it is in x->signo. */
bool copy_interrupted(struct copy *x);
/* How far it is; total 0 = nobody knows. */
void copy_progress(struct copy *x, uint64_t done, uint64_t total);
/* Words for a transfer that ended with r (of client_transfer()). */
int copy_failed(struct copy *x, int r, const struct fault *f,
		const struct err *e);
/* Wait before the next try, longer each time. */
void copy_pause(unsigned try);

int copy_file_down(struct copy *x, const char *path, const char *target);
int copy_stream_down(struct copy *x, const char *path, int fd);
int copy_file_up(struct copy *x, const char *file, const char *target);
int copy_stream_up(struct copy *x, int fd, const char *target);
int copy_tree_down(struct copy *x, const char *path, const char *target);
int copy_tree_up(struct copy *x, const char *folder, const char *target);
