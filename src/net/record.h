/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Record layer of the guest channel, below HTTP/2.
 *
 * A virtio-serial port shows neither end a quick reconnect and glues old bytes
 * to new ones. So bytes travel in records, both ways:
 *
 *   magic u32 | session u64 | type u8 | zero u8 | len u16 | crc32c u32 |
 * payload
 *
 * little endian, len <= 4096, the CRC over the first 16 bytes and the payload.
 * A payload goes up only after its CRC matched. A host that (re)connects picks
 * a random session, sends RECORD_MAX + header NULs (so that a cut-off record
 * ends), then HELLO; it drops everything until HELLO_ACK of that session. The
 * guest takes a HELLO of a new session as the end of the old one. A receiver
 * whose stream does not go on as it must is lost until such a beginning: the
 * guest looks for the NULs (no stream of records has so many in a row) with a
 * HELLO behind, the host for its HELLO_ACK. Nobody searches a payload for
 * records, so records inside a payload are never taken for such.
 *
 * ACK carries the number of payload bytes received in this session (u64); a
 * sender keeps at most RECORD_WINDOW bytes unacknowledged, so that the guest
 * kernel's queue stays short. Pure state machine: bytes in, bytes out, no I/O.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define RECORD_MAGIC  0x31534143u /* "CAS1" */
#define RECORD_HEADER 20u
#define RECORD_MAX    4096u
#define RECORD_WINDOW 262144u

enum record_type {
	RECORD_HELLO = 1, /* host -> guest; payload: u32 version */
	RECORD_HELLO_ACK, /* guest -> host; payload: u32 version */
	RECORD_DATA,
	RECORD_ACK, /* payload: u64 bytes received */
	RECORD_TYPE_MAX_,
};
#define RECORD_VERSION 1u

enum record_role { RECORD_HOST, RECORD_GUEST };

struct record;

struct record_ops {
	/* A session is up: host after HELLO_ACK, guest after HELLO. Whatever
	 * ran over the previous session is void. */
	void (*on_session)(struct record *r, uint64_t session);
	/* Payload in order, within the session. */
	void (*on_data)(struct record *r, const uint8_t *p, size_t n);
	/* The window has room again after record_send() was short. */
	void (*on_room)(struct record *r);
	/* The stream broke within a session, which is over: bytes of the peer
	 * are missing or wrong. The host calls record_start(); the guest waits
	 * for its host. May be NULL, as all of these. */
	void (*on_lost)(struct record *r);
};

struct record *record_new(enum record_role role, const struct record_ops *ops,
			  void *owner);
struct record *record_free(struct record *r);
void *record_owner(const struct record *r);

/* Host: begin a new session (random; given for tests if non-zero): drops what
 * was queued, queues NULs and HELLO. Repeat record_hello() while no ACK comes:
 * it queues NULs and the same HELLO again, unless output still waits or the
 * session is up. */
void record_start(struct record *r, uint64_t session);
void record_hello(struct record *r);
bool record_is_up(const struct record *r);

/* Bytes read from the port. Callbacks run from in here and may call all of
 * this but record_feed(), record_free() included. */
void record_feed(struct record *r, const void *p, size_t n);
/* Accepts 0..n payload bytes (0 while no session is up or the window is full).
 */
size_t record_send(struct record *r, const void *p, size_t n);
/* Bytes to write to the port; consume what was written. Ask for it before each
 * write and after each record_feed(), which may have queued an answer. */
struct buf *record_out(struct record *r);

/* CRC-32C (Castagnoli), RFC 3720 B.4; start with 0. */
uint32_t record_crc32c(uint32_t crc, const void *p, size_t n);
