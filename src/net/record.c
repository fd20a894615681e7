/* SPDX-License-Identifier: Apache-2.0 */
#include "net/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"

#define HELLO_LEN  4u /* payload of HELLO and HELLO_ACK: version */
#define ACK_LEN	   8u
#define CRC_AT	   16u /* the CRC covers what is before it, and the payload */
#define RESET_NULS (RECORD_MAX + RECORD_HEADER)
#define ACK_EVERY  32768u /* bytes received per ACK: well below the window */
#define IN_MAX	   16384u
#define CRC_POLY   0x82f63b78u /* 0x1edc6f41 reflected */

/*
 * A receiver is either in step, and then takes bytes for records only where a
 * record must begin, or out of step, and then waits for the one thing that
 * cannot be the content of a record:
 *
 * - guest: RESET_NULS zeros, then HELLO. Between two records there is a magic,
 *   so a run of zeros inside a stream is at most a payload and a CRC long.
 * - host: HELLO_ACK with the session that it drew at random a moment ago.
 *
 * So a payload may hold perfect records (somebody's upload of a capture, or an
 * attack) and no cut makes a receiver read them as such. Searching for the next
 * magic would.
 */
enum step {
	STEP_SEARCH, /* out of step */
	STEP_RECORD, /* the next byte begins a record */
	STEP_NULS,   /* guest: zeros where a record should be: a reset, maybe */
};

struct header {
	uint32_t magic;
	uint64_t session;
	uint8_t type, zero;
	uint16_t len;
	uint32_t crc;
};

struct record {
	enum record_role role;
	const struct record_ops *ops;
	void *owner;
	uint64_t session;
	bool is_up;
	enum step step;
	size_t nuls; /* zeros directly before the first byte of `in` */
	struct buf in, out;
	/* payload bytes of this session */
	uint64_t sent, acked, received, ack_sent;
	uint64_t queued;  /* bytes ever put in out, to find records in it */
	uint64_t ack_end; /* value of queued behind the last ACK */
	bool was_short;
	bool in_feed, is_freed;
};

/* CRC-32C, eight bytes a step. No SSE 4.2: in the guest of a software engine
 * an instruction costs about what a table look-up does, and the host is fast
 * enough by far. */

static uint32_t crc_table[8][256];

__attribute__((constructor)) static void crc_init(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ CRC_POLY : c >> 1;
		crc_table[0][i] = c;
	}
	for (int t = 1; t < 8; t++) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t c = crc_table[t - 1][i];

			crc_table[t][i] = c >> 8 ^ crc_table[0][c & 0xff];
		}
	}
}

uint32_t record_crc32c(uint32_t crc, const void *p, size_t n)
{
	const uint8_t *in = p;

	crc = ~crc;
	for (; n >= 8; n -= 8, in += 8) {
		uint64_t v;

		/* written out: as a loop over the bytes it takes half as
		 * long again */
		memcpy(&v, in, sizeof(v)); /* little endian */
		v ^= crc;
		crc = crc_table[7][v & 0xff] ^ crc_table[6][v >> 8 & 0xff] ^
		      crc_table[5][v >> 16 & 0xff] ^
		      crc_table[4][v >> 24 & 0xff] ^
		      crc_table[3][v >> 32 & 0xff] ^
		      crc_table[2][v >> 40 & 0xff] ^
		      crc_table[1][v >> 48 & 0xff] ^ crc_table[0][v >> 56];
	}
	for (; n > 0; n--, in++)
		crc = crc >> 8 ^ crc_table[0][(crc ^ *in) & 0xff];
	return ~crc;
}

static void get_header(const uint8_t *p, struct header *h)
{
	memcpy(&h->magic, p, 4);
	memcpy(&h->session, p + 4, 8);
	h->type = p[12];
	h->zero = p[13];
	memcpy(&h->len, p + 14, 2);
	memcpy(&h->crc, p + CRC_AT, 4);
}

static void put_header(uint8_t *p, uint64_t session, enum record_type type,
		       uint16_t len)
{
	uint32_t magic = RECORD_MAGIC;

	memcpy(p, &magic, 4);
	memcpy(p + 4, &session, 8);
	p[12] = (uint8_t)type;
	p[13] = 0;
	memcpy(p + 14, &len, 2);
}

static uint32_t crc_of(const uint8_t *rec, size_t len)
{
	uint32_t crc = record_crc32c(0, rec, CRC_AT);

	return record_crc32c(crc, rec + RECORD_HEADER, len);
}

/* Everything put in `out` is bounded: by the window, by one ACK and one HELLO
 * at a time. So there is always room. */
static void emit(struct record *r, enum record_type type, const void *p,
		 size_t n)
{
	uint8_t *to = buf_reserve(&r->out, RECORD_HEADER + n);
	uint32_t crc;

	CHECK(to);
	put_header(to, r->session, type, (uint16_t)n);
	memcpy(to + RECORD_HEADER, p, n);
	crc = crc_of(to, n);
	memcpy(to + CRC_AT, &crc, 4);
	buf_commit(&r->out, RECORD_HEADER + n);
	r->queued += RECORD_HEADER + n;
}

static void maybe_ack(struct record *r)
{
	/* a peer that sends and does not read gets one ACK queued, not many */
	uint64_t written = r->queued - buf_len(&r->out);

	if (!r->is_up || r->received - r->ack_sent < ACK_EVERY ||
	    written < r->ack_end)
		return;
	emit(r, RECORD_ACK, &r->received, ACK_LEN);
	r->ack_sent = r->received;
	r->ack_end = r->queued;
}

/* Forget all about the session before. */
static void new_session(struct record *r, uint64_t session)
{
	r->session = session;
	r->is_up = false;
	r->sent = r->acked = r->received = r->ack_sent = 0;
	r->ack_end = 0;
	r->was_short = false;
	buf_clear(&r->out);
}

struct record *record_new(enum record_role role, const struct record_ops *ops,
			  void *owner)
{
	struct record *r = xnew(struct record);

	r->role = role;
	r->ops = ops;
	r->owner = owner;
	buf_init(&r->in, IN_MAX);
	buf_init(&r->out, 0);
	return r;
}

struct record *record_free(struct record *r)
{
	if (!r)
		return NULL;
	if (r->in_feed) { /* from a callback: record_feed() does the rest */
		r->is_freed = true;
		return NULL;
	}
	buf_fini(&r->in);
	buf_fini(&r->out);
	free(r);
	return NULL;
}

void *record_owner(const struct record *r)
{
	return r->owner;
}

bool record_is_up(const struct record *r)
{
	return r->is_up;
}

void record_hello(struct record *r)
{
	const uint32_t version = RECORD_VERSION;
	uint8_t *to;

	CHECK(r->role == RECORD_HOST);
	/* one that was not even written need not be repeated */
	if (r->is_up || !r->session || buf_len(&r->out) > 0)
		return;
	to = buf_reserve(&r->out, RESET_NULS);
	CHECK(to);
	memset(to, 0, RESET_NULS);
	buf_commit(&r->out, RESET_NULS);
	r->queued += RESET_NULS;
	emit(r, RECORD_HELLO, &version, HELLO_LEN);
}

void record_start(struct record *r, uint64_t session)
{
	CHECK(r->role == RECORD_HOST);
	while (!session)
		random_bytes(&session, sizeof(session));
	new_session(r, session);
	r->step = STEP_SEARCH;
	buf_clear(&r->in);
	record_hello(r);
}

size_t record_send(struct record *r, const void *p, size_t n)
{
	const uint8_t *from = p;
	uint64_t room;
	size_t done = 0;

	if (!r->is_up)
		return 0;
	room = RECORD_WINDOW - (r->sent - r->acked);
	if (n > room) {
		n = (size_t)room;
		r->was_short = true;
	}
	while (done < n) {
		size_t part = n - done < RECORD_MAX ? n - done : RECORD_MAX;

		emit(r, RECORD_DATA, from + done, part);
		done += part;
	}
	r->sent += n;
	return n;
}

struct buf *record_out(struct record *r)
{
	maybe_ack(r);
	return &r->out;
}

/* receiving */

static void consume(struct record *r, size_t n)
{
	const uint8_t *p = buf_data(&r->in);
	size_t zeros = 0;

	while (zeros < n && p[n - 1 - zeros] == 0)
		zeros++;
	r->nuls = zeros == n ? r->nuls + n : zeros;
	buf_consume(&r->in, n);
}

/* The stream does not go on as it must: this session is over. */
static void lose(struct record *r)
{
	bool was_up = r->is_up;

	r->step = STEP_SEARCH;
	r->is_up = false;
	if (was_up && r->ops->on_lost)
		r->ops->on_lost(r);
}

static void got_hello(struct record *r, uint64_t session, uint32_t version)
{
	const uint32_t mine = RECORD_VERSION;
	bool is_new = session != r->session || !r->is_up;

	r->step = STEP_RECORD;
	if (is_new)
		new_session(r, session);
	/* the host that asks for a version we do not have learns ours */
	emit(r, RECORD_HELLO_ACK, &mine, HELLO_LEN);
	if (version != mine) {
		r->step = STEP_SEARCH;
		return;
	}
	r->is_up = true;
	if (is_new && r->ops->on_session)
		r->ops->on_session(r, session);
}

static void got_hello_ack(struct record *r, uint32_t version)
{
	if (version != RECORD_VERSION)
		return;
	r->step = STEP_RECORD;
	r->is_up = true;
	if (r->ops->on_session)
		r->ops->on_session(r, r->session);
}

/* Is the beginning of `in` a whole, good record of this type and length? 1 yes,
 * 0 more bytes are needed, -1 no. */
static int match(struct record *r, enum record_type type, size_t len,
		 struct header *h)
{
	const uint8_t *p = buf_data(&r->in);
	static const uint8_t magic[4] = { 'C', 'A', 'S', '1' };
	size_t n = buf_len(&r->in);

	if (memcmp(p, magic, n < 4 ? n : 4) != 0)
		return -1;
	if (n < RECORD_HEADER + len)
		return 0;
	get_header(p, h);
	if (h->type != type || h->zero || h->len != len)
		return -1;
	return h->crc == crc_of(p, len) ? 1 : -1;
}

static uint32_t version_of(struct record *r)
{
	uint32_t v;

	memcpy(&v, buf_data(&r->in) + RECORD_HEADER, sizeof(v));
	return v;
}

/* Consume the zeros at the beginning; how many there were. */
static size_t consume_nuls(struct record *r)
{
	const uint8_t *p = buf_data(&r->in);
	size_t n = buf_len(&r->in), zeros = 0;

	while (zeros < n && p[zeros] == 0)
		zeros++;
	if (zeros)
		consume(r, zeros);
	return zeros;
}

/* Out of step. Returns false when more bytes are needed. */
static bool search_guest(struct record *r)
{
	uint8_t *p = buf_data(&r->in), *zero;
	struct header h;
	uint32_t version;
	int m;

	if (consume_nuls(r))
		return true;
	if (r->nuls < RESET_NULS) {
		zero = memchr(p, 0, buf_len(&r->in));
		consume(r, zero ? (size_t)(zero - p) : buf_len(&r->in));
		return true;
	}
	m = match(r, RECORD_HELLO, HELLO_LEN, &h);
	if (m == 0)
		return false;
	if (m < 0) {
		consume(r, 1);
		return true;
	}
	version = version_of(r);
	consume(r, RECORD_HEADER + HELLO_LEN);
	got_hello(r, h.session, version);
	return true;
}

static bool search_host(struct record *r)
{
	struct header h;
	uint32_t version;
	uint8_t *p = buf_data(&r->in), *at = memchr(p, 'C', buf_len(&r->in));
	int m;

	if (at != p) {
		consume(r, at ? (size_t)(at - p) : buf_len(&r->in));
		return true;
	}
	m = match(r, RECORD_HELLO_ACK, HELLO_LEN, &h);
	if (m == 0)
		return false;
	if (m < 0 || !r->session || h.session != r->session) {
		consume(r, 1);
		return true;
	}
	version = version_of(r);
	consume(r, RECORD_HEADER + HELLO_LEN);
	got_hello_ack(r, version);
	return true;
}

/* Zeros at the place of a record: only a reset may follow. */
static bool skip_nuls(struct record *r)
{
	if (consume_nuls(r))
		return true;
	/* The same HELLO again leaves the session as it is; any other end of
	 * the zeros has lost it. search_guest() tells them apart. */
	if (r->nuls >= RESET_NULS) {
		struct header h;
		int m = match(r, RECORD_HELLO, HELLO_LEN, &h);

		if (m == 0)
			return false;
		if (m > 0 && h.session == r->session)
			return search_guest(r);
	}
	lose(r);
	return true;
}

static bool is_expected(const struct record *r, const struct header *h)
{
	if (h->magic != RECORD_MAGIC || h->zero || h->session != r->session)
		return false;
	switch (h->type) {
	case RECORD_DATA:
		return h->len > 0 && h->len <= RECORD_MAX;
	case RECORD_ACK:
		return h->len == ACK_LEN;
	case RECORD_HELLO_ACK:
		return r->role == RECORD_HOST && h->len == HELLO_LEN;
	case RECORD_HELLO:
		return r->role == RECORD_GUEST && h->len == HELLO_LEN;
	default:
		return false;
	}
}

static void got_ack(struct record *r, const uint8_t *payload)
{
	uint64_t acked;

	memcpy(&acked, payload, sizeof(acked));
	if (acked < r->acked || acked > r->sent) {
		lose(r);
		return;
	}
	r->acked = acked;
	if (!r->was_short || r->sent - r->acked >= RECORD_WINDOW)
		return;
	r->was_short = false;
	if (r->ops->on_room)
		r->ops->on_room(r);
}

/* In step. Returns false when more bytes are needed. */
static bool next_record(struct record *r)
{
	const uint8_t *p = buf_data(&r->in);
	size_t n = buf_len(&r->in);
	struct header h;

	if (p[0] == 0 && r->role == RECORD_GUEST) {
		r->step = STEP_NULS;
		return true;
	}
	if (n < RECORD_HEADER)
		return false;
	get_header(p, &h);
	if (!is_expected(r, &h)) {
		lose(r);
		return true;
	}
	if (n < RECORD_HEADER + h.len)
		return false;
	if (h.crc != crc_of(p, h.len)) {
		lose(r);
		return true;
	}
	consume(r, RECORD_HEADER + h.len);
	p += RECORD_HEADER; /* stays valid until bytes are added */
	if (h.type == RECORD_DATA) {
		r->received += h.len;
		if (r->ops->on_data)
			r->ops->on_data(r, p, h.len);
	} else if (h.type == RECORD_ACK) {
		got_ack(r, p);
	} else if (h.type == RECORD_HELLO) {
		uint32_t version;

		memcpy(&version, p, sizeof(version));
		got_hello(r, h.session, version);
	}
	return true;
}

static bool advance(struct record *r)
{
	switch (r->step) {
	case STEP_RECORD:
		return next_record(r);
	case STEP_NULS:
		return skip_nuls(r);
	case STEP_SEARCH:
	default:
		return r->role == RECORD_GUEST ? search_guest(r)
					       : search_host(r);
	}
}

void record_feed(struct record *r, const void *p, size_t n)
{
	const uint8_t *from = p;

	CHECK(!r->in_feed);
	r->in_feed = true;
	while (n > 0 && !r->is_freed) {
		size_t room = IN_MAX - buf_len(&r->in);
		size_t part = n < room ? n : room;

		/* what is left is less than a record, so there is room */
		CHECK(part > 0 && buf_put(&r->in, from, part) == 0);
		from += part;
		n -= part;
		while (!r->is_freed && buf_len(&r->in) > 0 && advance(r))
			;
	}
	r->in_feed = false;
	if (r->is_freed)
		record_free(r);
	else
		maybe_ack(r);
}
