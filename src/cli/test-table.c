/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include "base/test.h"

static void row(struct table *t, const char *a, const char *b, const char *c)
{
	table_cell(t, a);
	table_cell(t, b);
	table_cell(t, c);
}

TEST(columns_are_as_wide_as_their_widest_cell)
{
	struct table t;
	struct buf b;

	buf_init(&b, 0);
	table_init(&t, 3);
	row(&t, "ID", "NAME", "STATE");
	row(&t, "sb1", "a", "running");
	row(&t, "sb22", "longer", "x");
	table_write(&t, &b);
	T_STR(buf_cstr(&b), "ID    NAME    STATE\n"
			    "sb1   a       running\n"
			    "sb22  longer  x\n");
	table_fini(&t);
	buf_fini(&b);
}

TEST(no_space_at_the_end_of_a_line)
{
	struct table t;
	struct buf b;

	buf_init(&b, 0);
	table_init(&t, 3);
	row(&t, "a", "", "c");
	row(&t, "aa", "b", "");
	table_write(&t, &b);
	T_STR(buf_cstr(&b), "a      c\naa  b\n");
	table_fini(&t);
	buf_fini(&b);
}

TEST(width_counts_characters_not_bytes)
{
	struct table t;
	struct buf b;

	buf_init(&b, 0);
	table_init(&t, 2);
	table_cell(&t, "\xc3\xa4\xc3\xa4");
	table_cell(&t, "x");
	table_cell(&t, "abc");
	table_cell(&t, "y");
	table_write(&t, &b);
	T_STR(buf_cstr(&b), "\xc3\xa4\xc3\xa4   x\nabc  y\n");
	table_fini(&t);
	buf_fini(&b);
}

TEST(a_cell_cannot_paint_the_terminal)
{
	struct table t;
	struct buf b;

	buf_init(&b, 0);
	table_init(&t, 1);
	table_cell(&t, "a\x1b[2J\nb");
	table_write(&t, &b);
	T_STR(buf_cstr(&b), "a?[2J?b\n");
	table_fini(&t);
	buf_fini(&b);
}

TEST(an_unfinished_row_is_padded)
{
	struct table t;
	struct buf b;

	buf_init(&b, 0);
	table_init(&t, 3);
	table_cell(&t, "only");
	table_write(&t, &b);
	T_STR(buf_cstr(&b), "only\n");
	table_fini(&t);
	buf_fini(&b);
}

TEST(ages)
{
	char s[32];

	format_age(-3, s, sizeof(s));
	T_STR(s, "0s");
	format_age(119, s, sizeof(s));
	T_STR(s, "119s");
	format_age(120, s, sizeof(s));
	T_STR(s, "2m");
	format_age(7200, s, sizeof(s));
	T_STR(s, "2h");
	format_age(3 * 86400, s, sizeof(s));
	T_STR(s, "3d");
}

TEST(times_are_read)
{
	T_INT(parse_rfc3339("1970-01-01T00:00:01.250Z"), 1250);
	T_INT(parse_rfc3339("2026-12-01T10:00:00Z"), 1796119200000ll);
	T_INT(parse_rfc3339("2026-12-01T10:00:00.5Z"), 1796119200500ll);
}

TEST(what_is_no_time_is_minus_one)
{
	T_INT(parse_rfc3339(""), -1);
	T_INT(parse_rfc3339("2026-12-01"), -1);
	T_INT(parse_rfc3339("2026-13-01T10:00:00Z"), -1);
	T_INT(parse_rfc3339("2026-12-01T10:00:00+01:00"), -1);
	T_INT(parse_rfc3339("2026-12-01T10:00:00Zx"), -1);
}
