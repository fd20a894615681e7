/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox.h"

#include "base/own.h"
#include "base/test.h"
#include "cli/jget.h"
#include "net/json.h"

#define A "sbaaaa0000000000000001"
#define B "sbaabb0000000000000002"
#define C "sbcccc0000000000000003"

static json_t *parse(const char *text)
{
	json_t *v = NULL;
	struct err e = { 0 };

	T_INT(json_parse(text, strlen(text), &v, &e), 0);
	return v;
}

static json_t *three(void)
{
	return parse("[{\"id\":\"" A "\",\"name\":\"box\",\"state\":\"ended\"},"
		     "{\"id\":\"" B
		     "\",\"name\":\"box\",\"state\":\"running\"},"
		     "{\"id\":\"" C "\",\"name\":\"sbaa\","
		     "\"state\":\"running\"}]");
}

static int pick(const char *word, const char **id)
{
	static json_t *items;
	const char *both[2];

	json_decref(items);
	items = three();
	return sandbox_pick(items, word, id, both);
}

TEST(an_exact_id_is_itself)
{
	const char *id;

	T_INT(pick(A, &id), PICK_OK);
	T_STR(id, A);
}

TEST(a_name_means_the_one_that_lives)
{
	const char *id;

	T_INT(pick("box", &id), PICK_OK);
	T_STR(id, B);
}

TEST(a_name_wins_over_a_prefix)
{
	const char *id;

	T_INT(pick("sbaa", &id), PICK_OK);
	T_STR(id, C);
}

TEST(a_unique_prefix_is_enough)
{
	const char *id;

	T_INT(pick("sbaab", &id), PICK_OK);
	T_STR(id, B);
}

TEST(an_ambiguous_prefix_names_two)
{
	owned_json items = three();
	const char *id, *both[2];

	json_array_remove(items, 2);
	T_INT(sandbox_pick(items, "sbaa", &id, both), PICK_MANY);
	T_STR(both[0], A);
	T_STR(both[1], B);
}

TEST(too_short_a_prefix_means_nothing)
{
	const char *id;

	T_INT(pick("sb", &id), PICK_NONE);
	T_INT(pick("", &id), PICK_NONE);
	T_INT(pick("zzz", &id), PICK_NONE);
}

TEST(ids_have_their_shape)
{
	T_TRUE(sandbox_id_valid(A));
	T_TRUE(!sandbox_id_valid("sbaaaa000000000000000"));
	T_TRUE(!sandbox_id_valid("sbaaaa00000000000000/1"));
	T_TRUE(!sandbox_id_valid("xxaaaa0000000000000001"));
}

TEST(pairs_become_an_object)
{
	const char *v[] = { "a=1", "b=x=y", "a=2", "e=" };
	struct arg_list l = { v, 4 };
	struct err e = { 0 };
	owned_json o = pairs_json(&l, "label", &e);

	T_STR(jget_str(o, "a", NULL), "2");
	T_STR(jget_str(o, "b", NULL), "x=y");
	T_STR(jget_str(o, "e", NULL), "");
}

TEST(words_that_are_no_pairs_are_named)
{
	const char *v[] = { "novalue" };
	struct arg_list l = { v, 1 };
	struct err e = { 0 };

	T_TRUE(!pairs_json(&l, "label", &e));
	T_HAS(e.msg, "--label novalue");
	v[0] = "=x";
	T_TRUE(!pairs_json(&l, "env", &e));
}

TEST(a_create_says_only_what_was_given)
{
	struct create_opts o = { 0 };
	struct err e = { 0 };
	owned_json b = create_body(&o, &e);
	owned_str text = json_text(b);

	T_STR(text, "{\"template\":\"base\"}");
}

TEST(a_create_carries_what_was_given)
{
	const char *v[] = { "team=web" };
	struct create_opts o = { .template_ref = "tiny",
				 .name = "box",
				 .labels = { v, 1 },
				 .memory_mib = 128,
				 .ttl_s = 60 };
	struct err e = { 0 };
	owned_json b = create_body(&o, &e);

	T_STR(jget_str(b, "template", ""), "tiny");
	T_STR(jget_str(b, "labels.team", ""), "web");
	T_INT(jget_int(b, "resources.memory_mib", 0), 128);
	T_INT(jget_int(b, "lifetime.ttl_s", 0), 60);
	T_TRUE(!jget(b, "resources.vcpus"));
}

TEST(an_exec_that_is_followed_drops_nothing)
{
	char a[] = "echo", b[] = "-n";
	char *cmd[] = { a, b, NULL };
	struct exec_opts o = { .timeout_s = 9 };
	struct err e = { 0 };
	owned_json v = exec_body(&o, cmd, false, &e);
	owned_json d = exec_body(&o, cmd, true, &e);

	T_STR(jget_str(v, "overflow", ""), "block");
	T_STR(jget_str(d, "overflow", ""), "roll");
	T_STR(jget_str(v, "start", ""), "attach");
	T_STR(jget_str(d, "start", ""), "now");
	T_INT(json_array_size(jget(v, "cmd")), 2);
	T_INT(jget_int(v, "timeout_s", 0), 9);
}

TEST(a_word_that_is_no_text_is_refused)
{
	char a[] = "echo", b[] = "\xff\xfe";
	char *cmd[] = { a, b, NULL };
	struct exec_opts o = { 0 };
	struct err e = { 0 };

	T_TRUE(!exec_body(&o, cmd, false, &e));
	T_HAS(e.msg, "UTF-8");
}

TEST(a_path_segment_is_escaped)
{
	owned_str s = client_escape("a/b ?\xc3\xa4@~");

	T_STR(s, "a%2Fb%20%3F%C3%A4@~");
}

TEST(fields_are_read_along_a_path)
{
	owned_json v = parse("{\"a\":{\"b\":\"x\",\"n\":3},\"c\":[]}");

	T_STR(jget_str(v, "a.b", "d"), "x");
	T_INT(jget_int(v, "a.n", 9), 3);
	T_STR(jget_str(v, "a.n", "d"), "d");
	T_STR(jget_str(v, "a.b.c", "d"), "d");
	T_STR(jget_str(v, "c.b", "d"), "d");
	T_STR(jget_str(NULL, "a", "d"), "d");
}
