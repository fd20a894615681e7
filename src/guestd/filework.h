/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The forked half of a file request. It alone touches the root file system; it
 * may block for ever on a dead one, so the parent bounds it and abandons it.
 *
 * Over one socket: the child sends a struct file_result and, for a read, the
 * bytes. For a write the parent first sends the content in pieces, each with a
 * u32 length in front; length 0 means "complete, publish it".
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FILE_PATH_MAX 4096u
#define FILE_SUM_MAX  32u

enum file_verb { FILE_READ, FILE_WRITE, FILE_DELETE };

struct file_job {
	enum file_verb verb;
	char path[FILE_PATH_MAX]; /* absolute, any byte but NUL */
	bool parents;		  /* write: make missing folders */
	int mode;		  /* write: permission bits, -1 = as it was */
	char owner[140];	  /* write: "user[:group]", "" = as it was */
};

struct file_result {
	int32_t status; /* HTTP */
	char code[24];	/* error code of the API, "" on success */
	char msg[300];
	uint64_t size;	  /* read: of the file; write: bytes written */
	uint8_t has_size; /* read: the kernel knows the size beforehand */
	uint8_t created;  /* write: the name was not there before */
	uint8_t sum[FILE_SUM_MAX]; /* write: SHA-256 */
};

/* Runs the job on a blocking socket; the process' exit status. */
int filework_run(const struct file_job *job, int sock);

/* Check and copy a path as it came in a query. 0 or -EINVAL. Pure. */
int filework_path(const char *text, char ret[FILE_PATH_MAX]);
