/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Client of QEMU's machine protocol (QMP) over a connected unix stream.
 *
 * Commands are answered in the order in which they were sent, so several may be
 * on their way at once: QEMU reads a command only when it has run the one
 * before. A descriptor rides on the first byte of its command (getfd, add-fd).
 *
 * The VMM is hostile once its guest broke out: a line is at most QMP_LINE_MAX
 * bytes, what cannot be a line of the protocol ends the connection, and each
 * command has a deadline. Nothing blocks. A new connection is a new object.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"

#define QMP_LINE_MAX  (1u << 20)
#define QMP_CALLS_MAX 64u

enum qmp_kind { QMP_GREETING, QMP_RETURN, QMP_ERROR, QMP_EVENT };

/* One line of the protocol. Strings are borrowed from obj. */
struct qmp_line {
	enum qmp_kind kind;
	json_t *obj;	  /* the whole line; the receiver's reference */
	json_t *data;	  /* return value, event data or NULL; borrowed */
	const char *name; /* event: its name; error: its class */
	const char *text; /* error: description */
	int major, minor; /* greeting: the VMM's version */
};

/* Parse one line (without its newline). 0, or -EBADMSG with *e. */
int qmp_line_parse(const void *p, size_t n, struct qmp_line *ret,
		   struct err *e);
void qmp_line_fini(struct qmp_line *l);

struct qmp;

struct qmp_ops {
	/* Greeting seen and capabilities negotiated. */
	void (*on_ready)(struct qmp *q);
	void (*on_event)(struct qmp *q, const char *name, json_t *data);
	/* The connection is over; pending calls were failed before. Called
	 * once; free the object here or later. */
	void (*on_close)(struct qmp *q, const struct err *e);
};

struct qmp *qmp_new_take(struct loop *l, int fd, const struct qmp_ops *ops,
			 void *owner);
/* Pending calls are dropped without a word. */
struct qmp *qmp_free(struct qmp *q);
void *qmp_owner(const struct qmp *q);

/*
 * Queue a command; args (may be NULL) is taken over, fd (-1: none) stays the
 * caller's. done may be NULL, is called once and never from within qmp_call();
 * ret is NULL if e is set. It may free the connection. If the answer does not
 * come within timeout_ms, done gets ERR_TIMEOUT and the connection is over: the
 * order of answers is all we have. -EPIPE before on_ready and when the
 * connection is dead, -ENOBUFS if too many wait.
 */
int qmp_call(struct qmp *q, const char *command, json_t *args_take, int fd,
	     uint64_t timeout_ms,
	     void (*done)(void *arg, json_t *ret, const struct err *e),
	     void *arg);
