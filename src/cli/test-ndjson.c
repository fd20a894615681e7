/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ndjson.h"

#include "base/test.h"

struct seen {
	char out[256], err[256];
	size_t n_out, n_err;
	int gaps, exits, started, other, stop_after;
	uint64_t gap_from, gap_to;
	int64_t code;
};

static int on_frame(void *arg, const struct ndjson_frame *f)
{
	struct seen *s = arg;

	switch (f->type) {
	case NDJSON_OUTPUT:
		if (f->stream == 2) {
			memcpy(s->err + s->n_err, f->p, f->n);
			s->n_err += f->n;
		} else {
			memcpy(s->out + s->n_out, f->p, f->n);
			s->n_out += f->n;
		}
		break;
	case NDJSON_STARTED:
		s->started++;
		break;
	case NDJSON_EXIT:
		s->exits++;
		s->code = json_integer_value(json_object_get(f->fact, "code"));
		break;
	case NDJSON_GAP:
		s->gaps++;
		s->gap_from = f->from;
		s->gap_to = f->to;
		break;
	case NDJSON_OTHER:
		s->other++;
		break;
	}
	return s->stop_after && --s->stop_after == 0 ? 7 : 0;
}

static int feed(struct ndjson *d, const char *text, struct err *e)
{
	return ndjson_feed(d, text, strlen(text), e);
}

#define HELLO "{\"o\":0,\"s\":1,\"b64\":\"aGVsbG8=\"}\n" /* hello */
#define OOPS  "{\"o\":5,\"s\":2,\"b64\":\"b29wcw==\"}\n" /* oops */

TEST(output_goes_to_its_stream)
{
	struct seen s = { 0 };
	struct ndjson d;
	struct err e = { 0 };

	ndjson_init(&d, 0, on_frame, &s);
	T_INT(feed(&d, HELLO OOPS, &e), 0);
	T_STR(s.out, "hello");
	T_STR(s.err, "oops");
	T_INT(d.next, 9);
	ndjson_fini(&d);
}

TEST(any_split_of_the_bytes_gives_the_same)
{
	static const char text[] = HELLO OOPS
	    "{\"o\":9,\"exit\":{\"reason\":\"exited\",\"code\":3}}\n";

	for (size_t cut = 0; cut < sizeof(text) - 1; cut++) {
		struct seen s = { 0 };
		struct ndjson d;
		struct err e = { 0 };

		ndjson_init(&d, 0, on_frame, &s);
		T_INT(ndjson_feed(&d, text, cut, &e), 0);
		T_INT(ndjson_feed(&d, text + cut, sizeof(text) - 1 - cut, &e),
		      0);
		T_STR(s.out, "hello");
		T_INT(s.code, 3);
		ndjson_fini(&d);
	}
}

TEST(what_we_have_already_is_dropped)
{
	struct seen s = { 0 };
	struct ndjson d;
	struct err e = { 0 };

	ndjson_init(&d, 3, on_frame, &s);
	T_INT(feed(&d, HELLO, &e), 0);
	T_STR(s.out, "lo");
	T_INT(feed(&d, HELLO, &e), 0);
	T_STR(s.out, "lo");
	T_INT(s.gaps, 0);
	ndjson_fini(&d);
}

TEST(a_jump_is_a_gap_even_if_nobody_says_so)
{
	struct seen s = { 0 };
	struct ndjson d;
	struct err e = { 0 };

	ndjson_init(&d, 0, on_frame, &s);
	T_INT(feed(&d, OOPS, &e), 0);
	T_INT(s.gaps, 1);
	T_INT(s.gap_from, 0);
	T_INT(s.gap_to, 5);
	T_STR(s.err, "oops");
	ndjson_fini(&d);
}

TEST(a_told_gap_moves_on)
{
	struct seen s = { 0 };
	struct ndjson d;
	struct err e = { 0 };

	ndjson_init(&d, 0, on_frame, &s);
	T_INT(feed(&d, "{\"o\":0,\"gap\":{\"from\":0,\"to\":5}}\n" OOPS, &e),
	      0);
	T_INT(s.gaps, 1);
	T_INT(d.next, 9);
	ndjson_fini(&d);
}

TEST(a_gap_that_lies_behind_us_is_nothing)
{
	struct seen s = { 0 };
	struct ndjson d;
	struct err e = { 0 };

	ndjson_init(&d, 7, on_frame, &s);
	T_INT(feed(&d, "{\"o\":0,\"gap\":{\"from\":0,\"to\":5}}\n", &e), 0);
	T_INT(s.gaps, 0);
	T_INT(d.next, 7);
	ndjson_fini(&d);
}

TEST(after_the_exit_nothing_counts)
{
	struct seen s = { 0 };
	struct ndjson d;
	struct err e = { 0 };

	ndjson_init(&d, 0, on_frame, &s);
	T_INT(feed(&d, "{\"o\":0,\"exit\":{\"code\":0}}\n" HELLO, &e), 0);
	T_TRUE(d.over);
	T_INT(s.n_out, 0);
	ndjson_fini(&d);
}

TEST(unknown_frames_and_fields_do_not_matter)
{
	struct seen s = { 0 };
	struct ndjson d;
	struct err e = { 0 };

	ndjson_init(&d, 0, on_frame, &s);
	T_INT(feed(&d,
		   "{\"o\":0,\"alive\":{}}\n{\"o\":0,\"novel\":1}\n\n"
		   "{\"o\":0,\"started\":{\"pid\":4}}\n",
		   &e),
	      0);
	T_INT(s.other, 2);
	T_INT(s.started, 1);
	ndjson_fini(&d);
}

TEST(an_unfinished_line_is_void_on_a_new_connection)
{
	struct seen s = { 0 };
	struct ndjson d;
	struct err e = { 0 };

	ndjson_init(&d, 0, on_frame, &s);
	T_INT(feed(&d, "{\"o\":0,\"s\":1,\"b64\":\"aGV", &e), 0);
	ndjson_restart(&d);
	T_INT(feed(&d, HELLO, &e), 0);
	T_STR(s.out, "hello");
	ndjson_fini(&d);
}

TEST(lines_that_are_no_frames_are_refused)
{
	static const char *const bad[] = {
		"hello\n",
		"[]\n",
		"{\"o\":0,\"s\":4,\"b64\":\"aGVsbG8=\"}\n",
		"{\"o\":-1,\"s\":1,\"b64\":\"aGVsbG8=\"}\n",
		"{\"o\":0,\"s\":1,\"b64\":\"aGVsbG8\"}\n",
		"{\"s\":1,\"b64\":\"aGVsbG8=\"}\n",
		"{\"o\":0,\"b64\":\"aGVsbG8=\"}\n",
		"{\"o\":0,\"exit\":3}\n",
		"{\"o\":0,\"gap\":{\"to\":-3}}\n",
		"{\"o\":9223372036854775807,\"s\":1,\"b64\":\"aGVsbG8=\"}\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct seen s = { 0 };
		struct ndjson d;
		struct err e = { 0 };

		ndjson_init(&d, 0, on_frame, &s);
		T_INT(feed(&d, bad[i], &e), -EBADMSG);
		T_TRUE(e.msg[0]);
		ndjson_fini(&d);
	}
}

TEST(a_line_without_end_does_not_grow_without_bound)
{
	struct seen s = { 0 };
	struct ndjson d;
	struct err e = { 0 };
	char block[4096];
	int r = 0;

	memset(block, 'x', sizeof(block));
	ndjson_init(&d, 0, on_frame, &s);
	for (int i = 0; i < 100 && r == 0; i++)
		r = ndjson_feed(&d, block, sizeof(block), &e);
	T_INT(r, -EBADMSG);
	T_HAS(e.msg, "too long");
	ndjson_fini(&d);
}

TEST(the_receiver_can_stop_it)
{
	struct seen s = { .stop_after = 1 };
	struct ndjson d;
	struct err e = { 0 };

	ndjson_init(&d, 0, on_frame, &s);
	T_INT(feed(&d, HELLO OOPS, &e), 7);
	T_INT(s.n_err, 0);
	ndjson_fini(&d);
}

TEST(a_consoles_lines_name_no_stream)
{
	struct seen l = { 0 };
	struct ndjson d;
	struct err e = { 0 };
	const char *line = "{\"o\":0,\"b64\":\"aGk=\"}\n";

	ndjson_init(&d, 0, on_frame, &l);
	d.unnamed = true;
	T_INT(feed(&d, line, &e), 0);
	T_INT(d.next, 2);
	ndjson_fini(&d);
}
