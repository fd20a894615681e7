/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/lines.h"

#include <stdio.h>
#include <string.h>

#include "base/test.h"

#define READY "{\"type\":\"ready\"}\n"

static struct err err;

/* What the text becomes, or "refused". */
static const char *run_n(const char *text, size_t n, size_t step)
{
	static char ret[LINE_OUT_MAX + 1];
	struct lines l;
	struct buf out;
	int r = 0;

	err_clear(&err);
	lines_init(&l);
	buf_init(&out, LINE_OUT_MAX);
	while (n && r >= 0) {
		size_t k = lines_feed(&l, text, n < step ? n : step);

		text += k;
		n -= k;
		r = lines_take(&l, &out, &err);
	}
	snprintf(ret, sizeof(ret), "%s", r < 0 ? "refused" : buf_cstr(&out));
	lines_fini(&l);
	buf_fini(&out);
	return ret;
}

static const char *run(const char *text)
{
	return run_n(text, strlen(text), SIZE_MAX);
}

TEST(events_are_written_anew)
{
	const char *text =
	    READY "{\"path\" : \"/a\", \"type\":\"create\", \"is_dir\":true}\n"
		  "{\"type\":\"rename\",\"path\":\"/a\",\"to_b64\":\"L//+\"}\n";
	const char *to =
	    READY "{\"type\":\"create\",\"path\":\"/a\",\"is_dir\":true}\n"
		  "{\"type\":\"rename\",\"path\":\"/a\",\"to_b64\":\"L//+\"}\n";

	for (size_t step = 1; step < 50; step += 6)
		T_STR(run_n(text, strlen(text), step), to);
}

TEST(unknown_fields_are_left_out)
{
	T_STR(run(READY "{\"type\":\"write\",\"path\":\"/a\",\"x\":{}}\n"),
	      READY "{\"type\":\"write\",\"path\":\"/a\"}\n");
}

TEST(wrong_types_are_refused)
{
	T_STR(run(READY "{\"type\":\"write\",\"path\":1}\n"), "refused");
	T_STR(run(READY "{\"type\":\"write\",\"is_dir\":1}\n"), "refused");
	T_STR(run(READY "{\"type\":\"write\",\"path_b64\":\"*\"}\n"),
	      "refused");
	T_STR(run(READY "{\"type\":\"explode\"}\n"), "refused");
	T_STR(run(READY "{\"type\":null}\n"), "refused");
	T_STR(run(READY "{}\n"), "refused");
}

TEST(what_is_no_object_is_refused)
{
	T_STR(run("[]\n"), "refused");
	T_STR(run("\n"), "refused");
	T_STR(run("{\n"), "refused");
	T_STR(run("{\"type\":\"ready\"}{}\n"), "refused");
	T_STR(run_n("{\"type\":\"ready\"}\0\n", 18, SIZE_MAX), "refused");
}

TEST(ready_is_first_and_once)
{
	T_STR(run("{\"type\":\"alive\"}\n"), "refused");
	T_STR(run(READY READY), "refused");
}

TEST(nothing_comes_after_gone)
{
	T_STR(run(READY "{\"type\":\"gone\"}\n{\"type\":\"alive\"}\n"),
	      "refused");
	T_STR(run(READY "{\"type\":\"gone\"}\n"),
	      READY "{\"type\":\"gone\"}\n");
}

TEST(a_line_without_end_is_refused)
{
	static char big[LINE_MAX_BYTES + 100];

	memset(big, 'a', sizeof(big) - 1);
	T_STR(run(big), "refused");
	T_HAS(err.msg, "too long");
}

TEST(names_are_bounded)
{
	static char line[20000];
	size_t n = (size_t)snprintf(line, sizeof(line),
				    READY "{\"type\":\"write\",\"path\":\"");

	memset(line + n, 'a', 16385);
	memcpy(line + n + 16385, "\"}\n", 4);
	T_STR(run(line), "refused");
	memcpy(line + n + 16384, "\"}\n", 4);
	T_TRUE(strlen(run(line)) > 16384);
}
