/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/check.h"
#include "net/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SESSION 0x1122334455667788u

/* What came out of one feeding, as a transcript. */
static void note(struct record *r, char what, const void *p, size_t n)
{
	struct buf *b = record_owner(r);

	/* data may come in other portions, not in other bytes */
	if (what != 'd')
		CHECK(buf_put(b, &what, 1) == 0);
	CHECK(buf_put(b, p, n) == 0);
}

static void on_session(struct record *r, uint64_t session)
{
	note(r, 's', &session, sizeof(session));
	(void)record_send(r, "hello", 5);
}

static void on_data(struct record *r, const uint8_t *p, size_t n)
{
	CHECK(record_is_up(r) && n > 0 && n <= RECORD_MAX);
	note(r, 'd', p, n);
}

static void on_room(struct record *r)
{
	note(r, 'r', NULL, 0);
}

static void on_lost(struct record *r)
{
	CHECK(!record_is_up(r));
	note(r, 'l', NULL, 0);
}

static void run(enum record_role role, const uint8_t *p, size_t n, size_t step,
		struct buf *ret)
{
	static const struct record_ops ops = { on_session, on_data, on_room,
					       on_lost };
	struct record *r = record_new(role, &ops, ret);

	if (role == RECORD_HOST)
		record_start(r, SESSION);
	for (size_t i = 0; i < n; i += step)
		record_feed(r, p + i, n - i < step ? n - i : step);
	/* a peer cannot make us hold more than this */
	CHECK(buf_len(record_out(r)) <= (1u << 20) + 2 * n);
	record_free(r);
}

/* The first byte chooses the role; the first bit after it whether the peer's
 * beginning (zeros and HELLO, or HELLO_ACK) is put before. The verdict does not
 * depend on how the bytes were cut into reads. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint32_t version = RECORD_VERSION;
	const uint64_t session = SESSION;
	enum record_role role;
	struct buf in, whole, parts;
	uint8_t h[RECORD_HEADER + 4] = { 'C', 'A', 'S', '1' };
	uint32_t crc;

	if (size == 0)
		return 0;
	role = data[0] & 1 ? RECORD_HOST : RECORD_GUEST;
	buf_init(&in, 0);
	buf_init(&whole, 0);
	buf_init(&parts, 0);
	if (data[0] & 2) {
		for (size_t i = 0; i < RECORD_MAX + RECORD_HEADER; i++)
			CHECK(buf_put(&in, "", 1) == 0);
		memcpy(h + 4, &session, 8);
		h[12] = role == RECORD_HOST ? RECORD_HELLO_ACK : RECORD_HELLO;
		h[14] = 4;
		memcpy(h + 20, &version, 4);
		crc = record_crc32c(record_crc32c(0, h, 16), h + 20, 4);
		memcpy(h + 16, &crc, 4);
		CHECK(buf_put(&in, h, sizeof(h)) == 0);
	}
	CHECK(buf_put(&in, data + 1, size - 1) == 0);
	if (buf_len(&in) > 0) {
		run(role, buf_data(&in), buf_len(&in), buf_len(&in), &whole);
		run(role, buf_data(&in), buf_len(&in), 1 + (data[0] >> 2),
		    &parts);
	}
	CHECK(buf_len(&whole) == buf_len(&parts));
	CHECK(buf_len(&whole) == 0 ||
	      memcmp(buf_data(&whole), buf_data(&parts), buf_len(&whole)) == 0);
	buf_fini(&in);
	buf_fini(&whole);
	buf_fini(&parts);
	return 0;
}
