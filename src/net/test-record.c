/* SPDX-License-Identifier: Apache-2.0 */
#include "net/record.h"

#include <stdlib.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

#define RESET_NULS (RECORD_MAX + RECORD_HEADER)

/* What one end saw; also its owner. */
struct end {
	struct record *r;
	struct buf got;
	uint64_t session;
	int n_sessions, n_room, n_lost;
	size_t lie; /* bytes that did not continue the expected sequence */
	uint64_t expect_base, expect; /* see fill() */
	bool check, free_on_data, restart_on_lost, greet;
};

/* Byte number i of the stream of a session. */
static uint8_t stream_byte(uint64_t session, uint64_t i)
{
	uint64_t x = (session + i / 8) * 0x9e3779b97f4a7c15u;

	x ^= x >> 29;
	return (uint8_t)(x >> i % 8 * 8);
}

static void on_session(struct record *r, uint64_t session)
{
	struct end *e = record_owner(r);

	e->n_sessions++;
	e->session = session;
	e->expect = 0;
	buf_clear(&e->got);
	if (e->greet)
		T_INT(record_send(r, "greeting", 8), 8);
}

static void on_data(struct record *r, const uint8_t *p, size_t n)
{
	struct end *e = record_owner(r);

	if (e->check) {
		for (size_t i = 0; i < n; i++)
			e->lie += p[i] != stream_byte(e->session, e->expect++);
	} else {
		T_INT(buf_put(&e->got, p, n), 0);
	}
	if (e->free_on_data)
		record_free(r);
}

static void on_room(struct record *r)
{
	((struct end *)record_owner(r))->n_room++;
}

static void on_lost(struct record *r)
{
	struct end *e = record_owner(r);

	e->n_lost++;
	if (e->restart_on_lost)
		record_start(r, 0);
}

static const struct record_ops ops = { on_session, on_data, on_room, on_lost };

static void end_init(struct end *e, enum record_role role)
{
	*e = (struct end){ 0 };
	buf_init(&e->got, 0);
	e->r = record_new(role, &ops, e);
	T_TRUE(record_owner(e->r) == e);
}

static void end_fini(struct end *e)
{
	record_free(e->r);
	buf_fini(&e->got);
}

/* Carry everything from a to b; returns how many bytes. */
static size_t carry(struct end *a, struct end *b)
{
	struct buf *out = record_out(a->r);
	size_t n = buf_len(out);
	uint8_t *copy;

	if (n == 0)
		return 0;
	copy = malloc(n);
	memcpy(copy, buf_data(out), n);
	buf_consume(out, n);
	record_feed(b->r, copy, n);
	free(copy);
	return n;
}

static void settle(struct end *a, struct end *b)
{
	while (carry(a, b) + carry(b, a))
		;
}

static struct end host, guest;

static void pair_up(void)
{
	end_init(&host, RECORD_HOST);
	end_init(&guest, RECORD_GUEST);
	record_start(host.r, 0);
	settle(&host, &guest);
	T_TRUE(record_is_up(host.r) && record_is_up(guest.r));
	T_INT(host.n_sessions, 1);
	T_INT(guest.n_sessions, 1);
	T_TRUE(host.session == guest.session && host.session != 0);
}

static void pair_down(void)
{
	end_fini(&host);
	end_fini(&guest);
}

TEST(record_crc32c_known_values)
{
	uint8_t b[32];

	/* RFC 3720, B.4 */
	memset(b, 0, 32);
	T_TRUE(record_crc32c(0, b, 32) == 0x8a9136aa);
	memset(b, 0xff, 32);
	T_TRUE(record_crc32c(0, b, 32) == 0x62a8ab43);
	for (unsigned i = 0; i < 32; i++)
		b[i] = (uint8_t)i;
	T_TRUE(record_crc32c(0, b, 32) == 0x46dd794e);
	T_TRUE(record_crc32c(0, "123456789", 9) == 0xe3069283);
	T_TRUE(record_crc32c(0, "", 0) == 0);
}

TEST(record_crc32c_may_be_continued_anywhere)
{
	uint8_t b[100];

	random_bytes(b, sizeof(b));
	for (size_t cut = 0; cut <= sizeof(b); cut++) {
		uint32_t crc = record_crc32c(0, b, cut);

		T_TRUE(record_crc32c(crc, b + cut, sizeof(b) - cut) ==
		       record_crc32c(0, b, sizeof(b)));
	}
}

TEST(record_bytes_on_the_wire)
{
	static const uint8_t want[16] = { 'C', 'A', 'S', '1', 8, 7, 6, 5,
					  4,   3,   2,	 1,   1, 0, 4, 0 };
	const uint8_t version[4] = { 1, 0, 0, 0 };
	struct buf *out;
	uint32_t crc;

	end_init(&host, RECORD_HOST);
	record_start(host.r, 0x0102030405060708);
	out = record_out(host.r);
	T_INT(buf_len(out), RESET_NULS + RECORD_HEADER + 4);
	for (size_t i = 0; i < RESET_NULS; i++)
		T_INT(buf_data(out)[i], 0);
	uint8_t *h = buf_data(out) + RESET_NULS;
	T_TRUE(memcmp(h, want, 16) == 0);
	memcpy(&crc, h + 16, 4);
	T_TRUE(crc == record_crc32c(record_crc32c(0, want, 16), version, 4));
	T_TRUE(memcmp(h + 20, version, 4) == 0);
	end_fini(&host);
}

TEST(record_session_comes_up_and_carries_both_ways)
{
	pair_up();
	T_INT(record_send(host.r, "to guest", 8), 8);
	T_INT(record_send(guest.r, "to host", 7), 7);
	settle(&host, &guest);
	T_STR(buf_cstr(&guest.got), "to guest");
	T_STR(buf_cstr(&host.got), "to host");
	pair_down();
}

TEST(record_random_sessions_differ)
{
	uint64_t first;

	pair_up();
	first = host.session;
	record_start(host.r, 0);
	settle(&host, &guest);
	T_TRUE(host.session != first);
	T_INT(guest.n_sessions, 2);
	pair_down();
}

TEST(record_nothing_is_sent_before_the_session)
{
	end_init(&host, RECORD_HOST);
	end_init(&guest, RECORD_GUEST);
	T_INT(record_send(host.r, "x", 1), 0);
	T_INT(record_send(guest.r, "x", 1), 0);
	record_start(host.r, 0);
	T_INT(record_send(host.r, "x", 1), 0);
	carry(&host, &guest);
	T_INT(record_send(guest.r, "x", 1), 1);
	T_TRUE(!record_is_up(host.r));
	pair_down();
}

TEST(record_one_byte_at_a_time)
{
	struct buf *out;

	end_init(&host, RECORD_HOST);
	end_init(&guest, RECORD_GUEST);
	record_start(host.r, 0);
	for (int i = 0; i < 3; i++) {
		struct end *from = i % 2 ? &guest : &host;
		struct end *to = i % 2 ? &host : &guest;

		out = record_out(from->r);
		while (buf_len(out)) {
			uint8_t c = buf_data(out)[0];

			buf_consume(out, 1);
			record_feed(to->r, &c, 1);
		}
		if (i == 1)
			T_INT(record_send(host.r, "bytewise", 8), 8);
	}
	T_STR(buf_cstr(&guest.got), "bytewise");
	pair_down();
}

TEST(record_long_content_is_split_and_joined)
{
	static uint8_t big[100000];

	pair_up();
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = stream_byte(1, i);
	T_INT(record_send(host.r, big, sizeof(big)), sizeof(big));
	settle(&host, &guest);
	T_INT(buf_len(&guest.got), sizeof(big));
	T_TRUE(memcmp(buf_data(&guest.got), big, sizeof(big)) == 0);
	pair_down();
}

TEST(record_window_stops_the_sender)
{
	static uint8_t big[2 * RECORD_WINDOW];

	pair_up();
	T_INT(record_send(guest.r, big, 1000), 1000);
	T_INT(record_send(guest.r, big, sizeof(big)), RECORD_WINDOW - 1000);
	T_INT(record_send(guest.r, big, 1), 0);
	T_INT(guest.n_room, 0);
	carry(&guest, &host);
	T_INT(record_send(guest.r, big, 1), 0); /* no ACK yet */
	carry(&host, &guest);
	T_INT(guest.n_room, 1);
	T_TRUE(record_send(guest.r, big, sizeof(big)) > 0);
	pair_down();
}

TEST(record_room_is_told_only_after_a_short_send)
{
	static uint8_t big[RECORD_WINDOW];

	pair_up();
	T_INT(record_send(guest.r, big, RECORD_WINDOW), RECORD_WINDOW);
	settle(&host, &guest);
	T_INT(guest.n_room, 0);
	pair_down();
}

TEST(record_endless_transfer_flows)
{
	static uint8_t part[10000];
	uint64_t done = 0;

	pair_up();
	host.check = true;
	while (done < 20u << 20) {
		size_t n;

		for (size_t i = 0; i < sizeof(part); i++)
			part[i] = stream_byte(guest.session, done + i);
		n = record_send(guest.r, part, sizeof(part));
		done += n;
		if (n < sizeof(part))
			settle(&guest, &host);
	}
	settle(&guest, &host);
	T_INT(host.expect, done);
	T_INT(host.lie, 0);
	pair_down();
}

TEST(record_acks_to_a_peer_that_does_not_read_do_not_pile_up)
{
	static uint8_t big[65536];
	uint64_t session, acked;

	/* a guest that ignores the window and never takes the ACKs */
	pair_up();
	session = guest.session;
	for (int i = 0; i < 1000; i++) {
		struct buf *out = record_out(guest.r);

		T_TRUE(record_send(guest.r, big, sizeof(big)) > 0 || i > 2);
		if (buf_len(out))
			carry(&guest, &host);
		/* pretend that an ACK came */
		uint8_t ack[28] = { 'C', 'A', 'S', '1' };
		memcpy(ack + 4, &session, 8);
		ack[12] = RECORD_ACK;
		ack[14] = 8;
		acked = (uint64_t)(i + 1) * sizeof(big);
		memcpy(ack + 20, &acked, 8);
		uint32_t crc = record_crc32c(0, ack, 16);
		crc = record_crc32c(crc, ack + 20, 8);
		memcpy(ack + 16, &crc, 4);
		record_feed(guest.r, ack, sizeof(ack));
	}
	T_INT(guest.n_lost, 0);
	T_INT(buf_len(&host.got), 1000 * sizeof(big));
	T_INT(buf_len(record_out(host.r)), RECORD_HEADER + 8);
	pair_down();
}

TEST(record_reconnect_voids_the_old_session)
{
	pair_up();
	T_INT(record_send(host.r, "old", 3), 3);
	T_INT(record_send(guest.r, "leftover of the old session", 27), 27);
	record_start(host.r, 0); /* what was queued is gone */
	settle(&host, &guest);
	T_INT(guest.n_sessions, 2);
	T_INT(host.n_sessions, 2);
	T_INT(buf_len(&guest.got), 0);
	T_INT(buf_len(&host.got), 0);
	T_INT(record_send(host.r, "new", 3), 3);
	settle(&host, &guest);
	T_STR(buf_cstr(&guest.got), "new");
	pair_down();
}

TEST(record_host_drops_what_was_in_flight)
{
	pair_up();
	T_INT(record_send(guest.r, "of another life", 15), 15);
	/* a new host process: the guest's bytes arrive at it */
	struct end second;
	end_init(&second, RECORD_HOST);
	record_start(second.r, 0);
	carry(&guest, &second);
	T_INT(buf_len(&second.got), 0);
	settle(&second, &guest);
	T_TRUE(record_is_up(second.r));
	T_INT(buf_len(&second.got), 0);
	end_fini(&second);
	pair_down();
}

TEST(record_new_session_after_a_cut_at_every_byte)
{
	static const char text[] = "twenty-five bytes of data";

	for (size_t cut = 0; cut < RECORD_HEADER + sizeof(text); cut++) {
		uint8_t part[128];

		pair_up();
		T_INT(record_send(host.r, text, sizeof(text)), sizeof(text));
		memcpy(part, buf_data(record_out(host.r)), cut);
		record_feed(guest.r, part, cut);
		record_start(host.r, 0);
		settle(&host, &guest);
		T_INT(guest.n_sessions, 2);
		T_TRUE(record_is_up(host.r) && record_is_up(guest.r));
		T_INT(record_send(host.r, "ok", 2), 2);
		settle(&host, &guest);
		T_STR(buf_cstr(&guest.got), "ok");
		pair_down();
	}
}

TEST(record_cut_within_zeros_is_found_too)
{
	static uint8_t zeros[RECORD_MAX];

	/* NULs of the reset complete the record: it is accepted, as it is what
	 * was sent, and still the HELLO behind is found */
	for (size_t missing = 0; missing < 4096; missing += 97) {
		static uint8_t part[RECORD_MAX + RECORD_HEADER];
		size_t n = sizeof(part) - missing;

		pair_up();
		T_INT(record_send(host.r, zeros, sizeof(zeros)), sizeof(zeros));
		memcpy(part, buf_data(record_out(host.r)), sizeof(part));
		record_feed(guest.r, part, n);
		record_start(host.r, 0);
		settle(&host, &guest);
		T_INT(guest.n_sessions, 2);
		T_TRUE(record_is_up(host.r));
		pair_down();
	}
}

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

TEST(record_forged_records_in_a_payload_are_payload)
{
	const uint32_t version = RECORD_VERSION;
	uint8_t payload[256];
	size_t n;

	pair_up();
	n = forge(payload, guest.session, RECORD_DATA, "evil", 4);
	n += forge(payload + n, 666, RECORD_HELLO, &version, 4);
	n += forge(payload + n, 666, RECORD_DATA, "worse", 5);
	T_INT(record_send(host.r, payload, n), n);
	settle(&host, &guest);
	T_INT(guest.n_sessions, 1);
	T_INT(buf_len(&guest.got), n);
	/* nor when the record around them is cut off */
	buf_clear(&guest.got);
	T_INT(record_send(host.r, payload, n), n);
	T_INT(record_send(host.r, payload, n), n);
	record_feed(guest.r, buf_data(record_out(host.r)),
		    RECORD_HEADER + n - 1);
	record_start(host.r, 0);
	settle(&host, &guest);
	T_INT(guest.n_sessions, 2);
	T_TRUE(guest.session == host.session);
	T_INT(buf_len(&guest.got), 0);
	pair_down();
}

TEST(record_hello_needs_the_zeros_before)
{
	const uint32_t version = RECORD_VERSION;
	static uint8_t b[RESET_NULS + 64];
	size_t n = RESET_NULS - 1;

	end_init(&guest, RECORD_GUEST);
	n += forge(b + n, 5, RECORD_HELLO, &version, 4);
	record_feed(guest.r, "x", 1);
	record_feed(guest.r, b, n); /* one zero short */
	T_INT(guest.n_sessions, 0);
	record_feed(guest.r, "x", 1);
	memset(b, 0, sizeof(b));
	n = RESET_NULS;
	n += forge(b + n, 5, RECORD_HELLO, &version, 4);
	record_feed(guest.r, b, n);
	T_INT(guest.n_sessions, 1);
	end_fini(&guest);
}

TEST(record_repeated_hello_changes_nothing)
{
	pair_up();
	/* the host repeated it while the answer was on its way */
	struct end second;
	end_init(&second, RECORD_HOST);
	record_start(second.r, host.session);
	T_INT(record_send(guest.r, "before", 6), 6);
	carry(&second, &guest);
	T_INT(record_send(guest.r, " after", 6), 6);
	T_INT(guest.n_sessions, 1);
	T_INT(guest.n_lost, 0);
	settle(&guest, &host);
	T_STR(buf_cstr(&host.got), "before after");
	T_INT(host.n_sessions, 1);
	T_INT(host.n_lost, 0);
	end_fini(&second);
	pair_down();
}

TEST(record_hello_is_repeated_only_when_it_can_help)
{
	struct buf *out;
	size_t n;

	end_init(&host, RECORD_HOST);
	end_init(&guest, RECORD_GUEST);
	record_hello(host.r); /* no session yet */
	T_INT(buf_len(record_out(host.r)), 0);
	record_start(host.r, 0);
	out = record_out(host.r);
	n = buf_len(out);
	record_hello(host.r); /* the first one still waits */
	T_INT(buf_len(out), n);
	buf_consume(out, n); /* written, and lost: nobody had the port open */
	record_hello(host.r);
	T_INT(buf_len(out), n);
	settle(&host, &guest);
	T_TRUE(record_is_up(host.r));
	record_hello(host.r);
	T_INT(buf_len(record_out(host.r)), 0);
	pair_down();
}

TEST(record_guest_may_speak_in_on_session)
{
	end_init(&host, RECORD_HOST);
	end_init(&guest, RECORD_GUEST);
	guest.greet = host.greet = true;
	record_start(host.r, 0);
	settle(&host, &guest);
	T_STR(buf_cstr(&host.got), "greeting");
	T_STR(buf_cstr(&guest.got), "greeting");
	pair_down();
}

TEST(record_other_version_is_no_session)
{
	const uint32_t version = 2;
	static uint8_t b[RESET_NULS + 64];
	size_t n = RESET_NULS;

	end_init(&guest, RECORD_GUEST);
	memset(b, 0, sizeof(b));
	n += forge(b + n, 5, RECORD_HELLO, &version, 4);
	record_feed(guest.r, b, n);
	T_TRUE(!record_is_up(guest.r));
	T_INT(guest.n_sessions, 0);
	/* but the host learns ours */
	T_INT(buf_len(record_out(guest.r)), RECORD_HEADER + 4);
	end_fini(&guest);
	end_init(&host, RECORD_HOST);
	record_start(host.r, 5);
	n = forge(b, 5, RECORD_HELLO_ACK, &version, 4);
	record_feed(host.r, b, n);
	T_TRUE(!record_is_up(host.r));
	end_fini(&host);
}

TEST(record_hello_ack_of_another_session_is_ignored)
{
	const uint32_t version = RECORD_VERSION;
	uint8_t b[64];
	size_t n;

	end_init(&host, RECORD_HOST);
	n = forge(b, 0, RECORD_HELLO_ACK, &version, 4);
	record_feed(host.r, b, n); /* not even started */
	T_TRUE(!record_is_up(host.r));
	record_start(host.r, 5);
	n = forge(b, 6, RECORD_HELLO_ACK, &version, 4);
	record_feed(host.r, b, n);
	T_TRUE(!record_is_up(host.r));
	n = forge(b, 5, RECORD_HELLO_ACK, &version, 4);
	record_feed(host.r, b, n);
	T_TRUE(record_is_up(host.r));
	end_fini(&host);
}

/* Feed bytes to a host that is up; was the session lost? */
static bool loses(const uint8_t *b, size_t n)
{
	bool lost;

	pair_up();
	record_feed(host.r, b, n);
	lost = host.n_lost == 1 && !record_is_up(host.r);
	T_INT(buf_len(&host.got), 0);
	T_INT(record_send(host.r, "x", 1), lost ? 0 : 1);
	pair_down();
	return lost;
}

TEST(record_garbage_ends_the_session)
{
	T_TRUE(loses((const uint8_t *)"this is no record at all", 24));
	T_TRUE(loses((const uint8_t *)"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
		     20));
	T_TRUE(!loses((const uint8_t *)"CAS", 3)); /* may go on */
}

TEST(record_bad_fields_end_the_session)
{
	uint64_t acked = 1;
	uint8_t b[64];
	size_t n;

	for (int what = 0; what < 7; what++) {
		pair_up();
		n = forge(b, host.session, RECORD_DATA, "data", 4);
		if (what == 0)
			b[n - 1] ^= 1; /* payload does not match the CRC */
		else if (what == 1)
			b[13] = 1; /* zero is not zero */
		else if (what == 2)
			n = forge(b, host.session + 1, RECORD_DATA, "data", 4);
		else if (what == 3)
			n = forge(b, host.session, RECORD_HELLO, "data", 4);
		else if (what == 4)
			n = forge(b, host.session, 99, "data", 4);
		else if (what == 5)
			n = forge(b, host.session, RECORD_DATA, "", 0);
		else /* ACK of what was never sent */
			n = forge(b, host.session, RECORD_ACK, &acked, 8);
		record_feed(host.r, b, n);
		T_INT(host.n_lost, 1);
		T_INT(buf_len(&host.got), 0);
		pair_down();
	}
}

TEST(record_length_over_the_maximum_ends_the_session)
{
	uint8_t b[64];

	pair_up();
	forge(b, host.session, RECORD_DATA, "data", 4);
	b[14] = 1; /* 4097: refused before it is waited for */
	b[15] = 16;
	record_feed(host.r, b, RECORD_HEADER);
	T_INT(host.n_lost, 1);
	pair_down();
}

TEST(record_host_may_restart_from_on_lost)
{
	pair_up();
	host.restart_on_lost = true;
	record_feed(host.r, "garbage garbage garbage", 23);
	T_INT(host.n_lost, 1);
	settle(&host, &guest);
	T_TRUE(record_is_up(host.r) && record_is_up(guest.r));
	T_INT(host.n_sessions, 2);
	T_INT(record_send(guest.r, "again", 5), 5);
	settle(&host, &guest);
	T_STR(buf_cstr(&host.got), "again");
	pair_down();
}

TEST(record_may_be_freed_from_a_callback)
{
	pair_up();
	T_INT(record_send(host.r, "a", 1), 1);
	T_INT(record_send(host.r, "b", 1), 1);
	guest.free_on_data = true;
	carry(&host, &guest);
	T_STR(buf_cstr(&guest.got), "a");
	guest.r = NULL;
	pair_down();
}
