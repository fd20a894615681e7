/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/execlog.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "proto/data.h"

/* All bytes of both kinds from offset on, as one text. */
static size_t read_all(struct execlog *l, uint64_t at, char *ret, size_t max)
{
	struct execlog_piece p;
	size_t n = 0;

	while (n < max && execlog_read(l, at, max - n, &p)) {
		memcpy(ret + n, p.p, p.n);
		n += p.n;
		at += p.n;
	}
	return n;
}

static void put(struct execlog *l, uint8_t kind, const char *text)
{
	T_INT(execlog_put(l, kind, text, strlen(text)), 0);
}

TEST(empty_log_has_nothing_to_read)
{
	struct execlog l;
	struct execlog_piece p;

	execlog_init(&l, 8192, NULL);
	T_TRUE(!execlog_read(&l, 0, 10, &p));
	T_INT(l.end, 0);
	execlog_fini(&l);
}

TEST(bytes_come_back_in_order_of_arrival)
{
	struct execlog l;
	char text[32] = "";

	execlog_init(&l, 8192, NULL);
	put(&l, EXEC_STDOUT, "one ");
	put(&l, EXEC_STDERR, "two ");
	put(&l, EXEC_STDOUT, "three");
	T_INT(read_all(&l, 0, text, sizeof(text) - 1), 13);
	T_STR(text, "one two three");
	execlog_fini(&l);
}

TEST(a_piece_is_of_one_kind)
{
	struct execlog l;
	struct execlog_piece p;

	execlog_init(&l, 8192, NULL);
	put(&l, EXEC_STDOUT, "ab");
	put(&l, EXEC_STDERR, "cde");
	T_TRUE(execlog_read(&l, 0, 100, &p));
	T_INT(p.n, 2);
	T_INT(p.kind, EXEC_STDOUT);
	T_TRUE(execlog_read(&l, 2, 100, &p));
	T_INT(p.n, 3);
	T_INT(p.kind, EXEC_STDERR);
	T_INT(p.offset, 2);
	execlog_fini(&l);
}

TEST(puts_of_one_kind_join_into_one_piece)
{
	struct execlog l;
	struct execlog_piece p;

	execlog_init(&l, 8192, NULL);
	put(&l, EXEC_STDOUT, "ab");
	put(&l, EXEC_STDOUT, "cd");
	T_TRUE(execlog_read(&l, 0, 100, &p));
	T_INT(p.n, 4);
	execlog_fini(&l);
}

TEST(reading_from_the_middle)
{
	struct execlog l;
	char text[32] = "";

	execlog_init(&l, 8192, NULL);
	put(&l, EXEC_STDOUT, "0123");
	put(&l, EXEC_STDERR, "4567");
	for (uint64_t at = 0; at <= 8; at++) {
		T_INT(read_all(&l, at, text, sizeof(text)), 8 - at);
		T_TRUE(at == 8 || text[0] == (char)('0' + at));
	}
	execlog_fini(&l);
}

TEST(kinds_are_counted)
{
	struct execlog l;

	execlog_init(&l, 8192, NULL);
	put(&l, EXEC_STDOUT, "abc");
	put(&l, EXEC_STDERR, "de");
	T_INT(l.n_kind[0], 3);
	T_INT(l.n_kind[1], 2);
	execlog_fini(&l);
}

TEST(rolling_log_keeps_at_most_what_it_was_told)
{
	struct execlog l;
	static char text[1000];

	execlog_init(&l, 8192, NULL);
	for (int i = 0; i < 100; i++) {
		memset(text, 'a' + i % 26, sizeof(text));
		T_INT(execlog_put(&l, EXEC_STDOUT, text, sizeof(text)), 0);
		T_TRUE(l.end - l.begin <= 8192);
	}
	T_INT(l.end, 100000);
	T_TRUE(l.end - l.begin >= 8192 - 2 * l.chunk_bytes);
	T_INT(l.dropped_bytes, l.begin);
	execlog_fini(&l);
}

TEST(kept_bytes_are_the_newest)
{
	struct execlog l;
	static char back[16384];
	size_t n;

	execlog_init(&l, 4096, NULL);
	for (int i = 0; i < 20000; i++) {
		char c = (char)(i % 251);

		T_INT(execlog_put(&l, i % 3 ? EXEC_STDOUT : EXEC_STDERR, &c, 1),
		      0);
	}
	n = read_all(&l, l.begin, back, sizeof(back));
	T_INT(n, l.end - l.begin);
	for (size_t i = 0; i < n; i++)
		T_INT((unsigned char)back[i], (l.begin + i) % 251);
	execlog_fini(&l);
}

TEST(taken_bytes_do_not_count_as_dropped)
{
	struct execlog l;
	static char text[10000];

	execlog_init(&l, 4096, NULL);
	T_INT(execlog_put(&l, EXEC_STDOUT, text, 3000), 0);
	execlog_mark_taken(&l, 3000);
	T_INT(execlog_put(&l, EXEC_STDOUT, text, 10000), 0);
	T_INT(l.dropped_bytes, l.begin - 3000);
	execlog_fini(&l);
}

TEST(floor_keeps_what_a_reader_needs)
{
	struct execlog l;
	static char text[4096];

	execlog_init(&l, 4096, NULL);
	execlog_set_floor(&l, 0);
	for (int i = 0; i < 8; i++)
		T_INT(execlog_put(&l, EXEC_STDOUT, text, sizeof(text)), 0);
	T_INT(l.begin, 0);
	T_INT(execlog_room(&l), 0);
	execlog_set_floor(&l, 30000);
	T_TRUE(l.begin > 20000 && l.begin <= 30000);
	T_INT(l.dropped_bytes, l.begin);
	execlog_fini(&l);
}

TEST(room_shrinks_with_unread_bytes_and_comes_back)
{
	struct execlog l;
	static char text[1000];

	execlog_init(&l, 4096, NULL);
	T_INT(execlog_room(&l), SIZE_MAX);
	execlog_set_floor(&l, 0);
	T_INT(execlog_room(&l), 4096);
	T_INT(execlog_put(&l, EXEC_STDOUT, text, 1000), 0);
	T_INT(execlog_room(&l), 3096);
	execlog_set_floor(&l, 1000);
	T_INT(execlog_room(&l), 4096);
	execlog_fini(&l);
}

TEST(slack_below_the_floor_is_kept)
{
	struct execlog l;
	static char text[4096];

	execlog_init(&l, 4096, NULL);
	l.slack = 8192;
	execlog_set_floor(&l, 0);
	for (int i = 0; i < 8; i++)
		T_INT(execlog_put(&l, EXEC_STDOUT, text, sizeof(text)), 0);
	execlog_set_floor(&l, 32768);
	T_TRUE(l.begin <= 32768 - 8192 && l.begin > 16384);
	T_INT(execlog_room(&l), 4096);
	execlog_fini(&l);
}

TEST(memory_is_accounted_and_given_back)
{
	struct execlog a, b;
	size_t total = 0;
	static char text[50000];

	execlog_init(&a, 1u << 20, &total);
	execlog_init(&b, 1u << 20, &total);
	T_INT(execlog_put(&a, EXEC_STDOUT, text, sizeof(text)), 0);
	T_TRUE(total >= sizeof(text) && total < 3 * sizeof(text));
	T_INT(execlog_put(&b, EXEC_STDERR, text, sizeof(text)), 0);
	T_TRUE(total >= 2 * sizeof(text));
	execlog_drop_all(&a);
	T_INT(a.begin, a.end);
	execlog_fini(&b);
	T_INT(total, 0);
	execlog_fini(&a);
}

TEST(small_output_takes_little_memory)
{
	struct execlog l;
	size_t total = 0;

	execlog_init(&l, 8u << 20, &total);
	put(&l, EXEC_STDOUT, "hi\n");
	T_TRUE(total < 8192);
	execlog_fini(&l);
}

TEST(log_goes_on_after_everything_was_dropped)
{
	struct execlog l;
	char text[8] = "";

	execlog_init(&l, 8192, NULL);
	put(&l, EXEC_STDOUT, "gone");
	execlog_drop_all(&l);
	put(&l, EXEC_STDOUT, "here");
	T_INT(l.begin, 4);
	T_INT(read_all(&l, 4, text, sizeof(text)), 4);
	T_STR(text, "here");
	execlog_fini(&l);
}

TEST(a_dropped_chunk_is_not_searched_again)
{
	struct execlog l;
	char text[8] = "";

	execlog_init(&l, 8192, NULL);
	put(&l, EXEC_STDOUT, "gone");
	T_INT(read_all(&l, 0, text, sizeof(text)), 4);
	T_TRUE(l.memo_chunk);
	execlog_drop_all(&l);
	/* the next chunk may well lie at the same address */
	T_TRUE(!l.memo_chunk);
	put(&l, EXEC_STDOUT, "here");
	T_INT(read_all(&l, 4, text, sizeof(text)), 4);
	T_STR(text, "here");
	execlog_fini(&l);
}

TEST(reserve_without_commit_changes_nothing)
{
	struct execlog l;
	struct execlog_piece p;
	size_t n = 0;

	execlog_init(&l, 8192, NULL);
	T_TRUE(execlog_reserve(&l, EXEC_STDERR, &n) != NULL);
	T_TRUE(n > 0);
	T_TRUE(!execlog_read(&l, 0, 10, &p));
	put(&l, EXEC_STDOUT, "x");
	T_TRUE(execlog_read(&l, 0, 10, &p));
	T_INT(p.kind, EXEC_STDOUT);
	execlog_fini(&l);
}

TEST(piece_is_no_longer_than_asked)
{
	struct execlog l;
	struct execlog_piece p;

	execlog_init(&l, 8192, NULL);
	put(&l, EXEC_STDOUT, "abcdef");
	T_TRUE(execlog_read(&l, 1, 2, &p));
	T_INT(p.n, 2);
	T_INT(p.p[0], 'b');
	execlog_fini(&l);
}

TEST(shrinking_keeps_what_a_reader_needs)
{
	struct execlog l;
	size_t total = 0;
	char text[1024] = { 0 };

	execlog_init(&l, 65536, &total);
	execlog_set_floor(&l, 0);
	l.slack = 65536;
	for (int i = 0; i < 32; i++)
		T_INT(execlog_put(&l, EXEC_STDOUT, text, sizeof(text)), 0);
	execlog_shrink(&l);
	T_INT(l.begin, 0);
	T_INT(execlog_unread(&l), 32768);
	execlog_mark_taken(&l, 20000);
	execlog_set_floor(&l, 20000);
	T_INT(l.begin, 0);
	execlog_shrink(&l);
	T_TRUE(l.begin > 0 && l.begin <= 20000);
	T_INT(execlog_unread(&l), 12768);
	T_INT(l.dropped_bytes, 0);
	execlog_fini(&l);
	T_INT(total, 0);
}

TEST(terminal_bytes_are_counted_apart)
{
	struct execlog l;
	size_t total = 0;

	execlog_init(&l, 65536, &total);
	T_INT(execlog_put(&l, EXEC_PTY, "abc", 3), 0);
	T_INT(l.n_kind[EXEC_PTY - EXEC_STDOUT], 3);
	T_INT(l.n_kind[0] + l.n_kind[1], 0);
	execlog_fini(&l);
}
