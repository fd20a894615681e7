/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The forked half of a file call. It alone touches the root file system; it may
 * block for ever on a dead one, so the parent bounds it and abandons it.
 *
 * Over one socket: the child sends a struct file_result, then the bytes of the
 * answer's body, and exits with 0 if that is all of it (else the answer is
 * cut). A result with status 0 says "still at work" and may come any number of
 * times before the real one. Where the request has a body, the parent sends it
 * in pieces, each with a u32 length in front; length 0 means "complete", and an
 * end without it that the client gave up: then the child undoes and leaves.
 *
 * Paths are resolved by the guest's kernel as the guest's root sees them;
 * everything below the folder that a path names is reached by descriptors and
 * without following links. Devices, FIFOs and sockets are never opened.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "guestd/files_head.h"

#define FILE_PATH_MAX  4097u /* with its NUL */
#define FILE_FIELD_MAX 1024u /* longest header field that is looked at */
#define FILE_PIECE_MAX 65536u
#define FILE_OWNER_MAX 140u
/* A worker that says nothing for so long is stuck, unless it asked for more. */
#define FILE_STUCK_MS 30000u
/* What the monitor waits for: of a file, and of a whole tree. */
#define FILE_SYNC_MS 80000u
#define FILE_TREE_MS 800000u
/* So that nothing of ours is taken for the user's, nor the reverse. */
#define FILE_TEMP_PREFIX ".caisson-tmp-"

enum file_verb {
	FILE_READ,
	FILE_WRITE,
	FILE_DELETE,
	FILE_LIST,
	FILE_STAT,
	FILE_MKDIR,
	FILE_MOVE,
	FILE_PACK,
	FILE_UNPACK,
	FILE_WATCH,
};

struct file_job {
	enum file_verb verb;
	char path[FILE_PATH_MAX]; /* absolute, any byte but NUL */
	char to[FILE_PATH_MAX];	  /* move */
	bool parents;		  /* write, mkdir: make missing folders */
	bool recursive;		  /* delete, watch */
	bool replace;		  /* move */
	bool nofollow;		  /* stat */
	bool zstd;		  /* pack, unpack */
	int mode;		  /* write, mkdir: permission bits, -1 = none */
	unsigned depth, limit;	  /* list */
	char after[FILE_PATH_MAX];	   /* list: the last path that was told,
					    * relative to the folder; "" = none */
	char owner[FILE_OWNER_MAX];	   /* "user[:group]", "" = not told */
	char default_user[FILE_OWNER_MAX]; /* owner of new things; "" = us */
	int64_t length; /* of the request's body, -1 = unknown */

	char if_match[FILE_FIELD_MAX], if_none_match[FILE_FIELD_MAX];
	char if_range[FILE_FIELD_MAX];
	struct file_range range;
	bool no_sum; /* write: the host hashes, see files_job.c */
	bool has_digest;
	uint8_t digest[32];
};

struct file_result {
	int32_t status; /* HTTP, or 0: at work */
	/* at work: how long it may be silent now; 0 = FILE_STUCK_MS */
	uint32_t silent_ms;
	char code[24]; /* error code of the API, "" on success */
	char field[24];
	char msg[400];
	char remedy[160];
	char type[40];	/* of the body; "" = there is none */
	int64_t length; /* of the body, -1 = unknown */
	uint8_t has_range, accept_ranges;
	uint64_t range_from, size; /* with has_range; n is length */
	char etag[FILE_ETAG_MAX], date[FILE_DATE_MAX];
	/* archives: what was done before a refusal */
	uint8_t counted;
	uint64_t entries, bytes;
};

/* Runs the job on a blocking socket; the process' exit status. */
int filework_run(const struct file_job *job, int sock);

/* Check and copy a path as it came in a query. 0 or -EINVAL. Pure. */
int filework_path(const char *text, char ret[FILE_PATH_MAX]);

/* ---- for the verbs (filework_*.c, list.c, archive_*.c, watch.c) ---- */

struct file_ctx {
	const struct file_job *job;
	int sock;
	uint64_t beat_at_ms; /* private: when the parent heard of us last */
	bool gone;	     /* the parent does not listen any more */
	bool quiet;	     /* nobody needs to hear of us */
};

int filework_read(struct file_ctx *c);
int filework_write(struct file_ctx *c);
int filework_delete(struct file_ctx *c);
int filework_mkdir(struct file_ctx *c);
int filework_move(struct file_ctx *c);

/* Tell the answer's head; < 0 if nobody listens. */
int filework_answer(struct file_ctx *c, const struct file_result *r);
/* Answer with one JSON text. Takes v over (a json_t). */
int filework_json_take(struct file_ctx *c, int status, void *v);
/* Answer an errno; what names the thing, doing the act. Returns the exit
 * status. */
int filework_refuse(struct file_ctx *c, int errnum, const char *field,
		    const char *doing, const char *what);
/* The same with words of one's own. */
int filework_error(struct file_ctx *c, int status, const char *code,
		   const char *field, const char *remedy, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
/* The errno's answer without sending it. */
void filework_errno_result(struct file_result *r, int errnum, const char *field,
			   const char *doing, const char *what);

/* Say "at work" now and then; call it in loops. < 0: nobody listens. */
int filework_beat(struct file_ctx *c);
/* Before something silent that may take long, such as fsync. */
void filework_long(struct file_ctx *c, unsigned ms);
/* The next piece of the request's body: bytes, 0 = complete, -ECANCELED. */
ssize_t filework_piece(struct file_ctx *c, void *to, size_t size);

/* Wait (milliseconds) until a later write must get another time stamp than
 * *st has, so that the tag of *st is good. */
void filework_settle(const struct stat *st);

/* Who shall own new things. */
struct file_owner {
	bool told; /* by the request, so it holds for replaced things, too */
	uid_t uid;
	gid_t gid;
};
int filework_owner(const struct file_job *job, struct file_owner *ret,
		   struct err *e);

/*
 * The folder that holds the last name of a path, and that name. With follow,
 * links at the end are followed (40 at most, dangling ones too). -EISDIR if the
 * path has no last name to make or replace (`/`, `x/`, `..`).
 */
struct file_place {
	int dir; /* to close */
	char name[FILE_PATH_MAX];
};
int filework_place(const char *path, bool follow, struct file_place *ret);
void filework_place_fini(struct file_place *p);
/* Make the folders above the last name of a path. 0 or -errno. */
int filework_parents(const char *path, const struct file_owner *o);
/* A random name of ours. */
void filework_temp_name(char ret[40]);
/* Remove what a crash left of ours in a folder (a bounded look). */
void filework_clean(int dir);
/* Open for reading, if it is a folder or a regular file: -ENXIO otherwise. */
int filework_open(int dir, const char *name, bool follow, struct stat *ret);
/* Remove a tree; `where` is the failing thing's name then. -errno. Bounded
 * memory and descriptors for any depth; follows nothing. */
int filework_remove_tree(struct file_ctx *c, int dir, const char *name,
			 char ret_where[256]);
/* Copy one thing, with everything below it, metadata kept. */
int filework_copy_tree(struct file_ctx *c, int from_dir, const char *from,
		       int to_dir, const char *to, unsigned depth);
/* fsync a folder, so that a new name survives a crash. */
void filework_sync_dir(int dir);
