/* SPDX-License-Identifier: Apache-2.0 */
#include "net/record.h"

#include <stdlib.h>

#include "base/own.h"
#include "base/test.h"

DEFINE_CLEANUP(struct record, record_free);

/* A whole record as bytes. */
static size_t forge(uint8_t *to, uint64_t session, int type, const void *p,
		    uint16_t n)
{
	uint32_t magic = RECORD_MAGIC, crc;

	memcpy(to, &magic, 4);
	memcpy(to + 4, &session, 8);
	to[12] = (uint8_t)type;
	to[13] = 0;
	memcpy(to + 14, &n, 2);
	memcpy(to + 20, p, n);
	crc = record_crc32c(record_crc32c(0, to, 16), to + 20, n);
	memcpy(to + 16, &crc, 4);
	return RECORD_HEADER + n;
}

/* One life of a host connection: some bytes each way, in random pieces, then
 * both directions are cut at a random byte. Payloads are full of forged
 * records of all sessions known so far. */
struct wire {
	struct buf to_guest, to_host;
};

static void move(struct record *from, struct buf *wire)
{
	struct buf *out = record_out(from);
	size_t n = buf_len(out), part;

	if (n == 0)
		return;
	part = (size_t)random() % n + 1;
	T_INT(buf_put(wire, buf_data(out), part), 0);
	buf_consume(out, part);
}

static void hand_over(struct buf *wire, struct record *to)
{
	size_t n = buf_len(wire), part;

	if (n == 0)
		return;
	part = (size_t)random() % (n < 300 ? n : 300) + 1;
	record_feed(to, buf_data(wire), part);
	buf_consume(wire, part);
}

/* A payload whose every byte is forged; the receiver compares with a copy. */
static struct buf sent_to_guest, sent_to_host;
static size_t n_wrong, n_right;

static void compare(struct buf *sent, const uint8_t *p, size_t n)
{
	if (buf_len(sent) < n || memcmp(buf_data(sent), p, n) != 0) {
		n_wrong++;
		return;
	}
	buf_consume(sent, n);
	n_right++;
}

static void on_guest_data(struct record *r, const uint8_t *p, size_t n)
{
	(void)r;
	compare(&sent_to_guest, p, n);
}

static void on_host_data(struct record *r, const uint8_t *p, size_t n)
{
	(void)r;
	compare(&sent_to_host, p, n);
}

/* Real sessions have this in their upper half, forged ones have not (but for
 * the present one, which an attacker may have learnt somehow). */
#define REAL_TAG 0x7ea11e55u
static uint64_t real_session;

static void on_guest_session(struct record *r, uint64_t session)
{
	(void)r;
	/* not always the last one: the wire holds bytes of dead hosts */
	n_wrong += session >> 32 != REAL_TAG;
	buf_clear(&sent_to_host);
	buf_clear(&sent_to_guest);
}

static const struct record_ops guest_ops = { on_guest_session, on_guest_data,
					     NULL, NULL };
static const struct record_ops host_ops = { NULL, on_host_data, NULL, NULL };

static size_t make_payload(uint8_t *to, uint64_t old_session)
{
	static const int types[] = { RECORD_HELLO, RECORD_HELLO_ACK,
				     RECORD_DATA, RECORD_ACK };
	static const uint8_t zeros[RECORD_MAX];
	const uint64_t body = RECORD_VERSION; /* fits HELLO and ACK */
	size_t n = 0;

	while (n < 200) {
		int type = types[random() % 4];
		uint64_t session = random() % 2 ? real_session : old_session;
		uint16_t len = type == RECORD_ACK ? 8 : 4;

		/* the host's random session is unknown while it matters */
		if (type == RECORD_HELLO_ACK)
			session = old_session;
		else if (type == RECORD_HELLO)
			session = 666;
		if (random() % 8 == 0)
			len = (uint16_t)(random() % 8);
		n += forge(to + n, session, type, &body, len);
		if (random() % 16 == 0) {
			memcpy(to + n, zeros, sizeof(zeros));
			n += sizeof(zeros);
		}
	}
	return n;
}

static void talk(struct record *r, struct buf *sent, uint64_t old_session)
{
	static uint8_t payload[32768];
	size_t n = make_payload(payload, old_session);

	n = record_send(r, payload, n);
	T_INT(buf_put(sent, payload, n), 0);
}

static void cut(struct buf *wire)
{
	size_t keep = buf_len(wire) ? (size_t)random() % buf_len(wire) : 0;

	wire->end = wire->start + keep;
}

TEST(record_20000_cuts_and_splits_nothing_wrong)
{
	OWNED(record_free_p)
	struct record *g = record_new(RECORD_GUEST, &guest_ops, NULL);
	struct wire w;
	uint64_t old_session = 1;
	size_t n_up = 0, n_cuts = 0;

	srandom(20000);
	n_wrong = n_right = 0;
	buf_init(&w.to_guest, 0);
	buf_init(&w.to_host, 0);
	buf_init(&sent_to_guest, 0);
	buf_init(&sent_to_host, 0);
	while (n_cuts < 20000) {
		OWNED(record_free_p)
		struct record *h = record_new(RECORD_HOST, &host_ops, NULL);
		long rounds = random() % 60;

		old_session = real_session;
		real_session = (uint64_t)REAL_TAG << 32 | (n_cuts + 1);
		record_start(h, real_session);
		for (long i = 0; i < rounds; i++) {
			if (record_is_up(h) && random() % 4 == 0)
				talk(h, &sent_to_guest, old_session);
			if (record_is_up(g) && random() % 4 == 0)
				talk(g, &sent_to_host, old_session);
			move(h, &w.to_guest);
			move(g, &w.to_host);
			for (int k = 0; k < 8; k++) {
				hand_over(&w.to_guest, g);
				hand_over(&w.to_host, h);
			}
		}
		n_up += record_is_up(h);
		/* the host dies: what it had written arrives in part, and what
		 * the guest had written goes to the next one */
		cut(&w.to_guest);
		cut(&w.to_host);
		n_cuts += 2;
	}
	T_INT(n_wrong, 0);
	T_TRUE(n_up > 1000); /* the test did test something */
	T_TRUE(n_right > 10000);
	/* and after all that, a calm host comes up */
	OWNED(record_free_p)
	struct record *h = record_new(RECORD_HOST, &host_ops, NULL);
	real_session = (uint64_t)REAL_TAG << 32 | (n_cuts + 1);
	record_start(h, real_session);
	for (int i = 0; i < 100000 && !record_is_up(h); i++) {
		move(h, &w.to_guest);
		move(g, &w.to_host);
		hand_over(&w.to_guest, g);
		hand_over(&w.to_host, h);
	}
	T_TRUE(record_is_up(h));
	buf_fini(&w.to_guest);
	buf_fini(&w.to_host);
	buf_fini(&sent_to_guest);
	buf_fini(&sent_to_host);
}
