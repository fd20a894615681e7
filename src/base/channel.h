/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Typed messages with descriptors over SOCK_SEQPACKET (unix). A message is a
 * fixed struct that begins with struct channel_hdr; size and descriptor count
 * are checked against the receiver's table before the message is looked at, and
 * it is copied, then used.
 *
 * Non-blocking. Output that the socket cannot take is queued up to a limit; a
 * peer that lets it run over is cut off.
 */

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"

#define CHANNEL_MSG_MAX 65536
#define CHANNEL_FDS_MAX 16

struct channel_hdr {
	uint32_t op; /* of the protocol's enum */
	uint32_t
	    seq; /* chosen by the asker, repeated in the answer; 0 = event */
};

struct channel_op {
	uint32_t size_min, size_max; /* whole message with header, bytes */
	uint8_t n_fds_min, n_fds_max;
};

struct channel;

struct channel_ops {
	/*
	 * A well-shaped message. msg is aligned for any type and valid during
	 * the call. fds are owned by the channel and closed after the call
	 * unless taken with take_fd(&fds[i]).
	 */
	void (*on_msg)(struct channel *c, void *msg, size_t n, int *fds,
		       size_t n_fds);
	/* The channel is dead. e is never NULL: e->code is 0 if the peer just
	 * closed its end, and else *e tells what broke. Called once, never from
	 * within channel_send(); free the channel here or later. */
	void (*on_close)(struct channel *c, const struct err *e);
};

/* Takes fd over. table has n_ops entries, indexed by op; an entry with
 * size_max 0 is not allowed from this peer. owner is the caller's. */
struct channel *channel_new_take(struct loop *l, int fd,
				 const struct channel_op *table, size_t n_ops,
				 const struct channel_ops *ops, void *owner);
struct channel *channel_free(struct channel *c);
void *channel_owner(const struct channel *c);
int channel_fd(const struct channel *c);

/* Is the message well-shaped by the table? 0, or -EBADMSG with *e. What a
 * channel asks before on_msg; pure. */
int channel_check(const struct channel_op *table, size_t n_ops, const void *msg,
		  size_t n, size_t n_fds, struct err *e);

/* Send one message; descriptors are duplicated, the caller keeps his. 0, or
 * -EPIPE if the channel is dead, -ENOBUFS if the peer does not read (the
 * channel then dies by itself). */
int channel_send(struct channel *c, const void *msg, size_t n, const int *fds,
		 size_t n_fds);

/* Blocking forms for simple programs and tests, also for a non-blocking fd; 0 /
 * -errno, -ETIMEDOUT after 60 s. *n_fds is in and out; fds and n_fds may be
 * NULL. recv: message size, 0 at end of file; -EMSGSIZE if the message or its
 * descriptors do not fit (they are lost, no descriptor is left open). */
int channel_send_fd(int fd, const void *msg, size_t n, const int *fds,
		    size_t n_fds);
ssize_t channel_recv_fd(int fd, void *msg, size_t max, int *fds, size_t *n_fds);

/* Listen on / connect to a pathname of type SOCK_SEQPACKET or SOCK_STREAM.
 * listen: removes a stale socket first, sets mode (e.g. 0660). Returns a
 * CLOEXEC non-blocking fd, or a negative errno with *e set. */
int unix_listen(const char *path, int type, unsigned mode, struct err *e);
int unix_connect(const char *path, int type, struct err *e);
struct ucred;
int unix_peer(int fd, struct ucred *ret); /* 0 / -errno */
