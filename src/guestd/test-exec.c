/* SPDX-License-Identifier: Apache-2.0 */

/* Execs of a guestd that runs as an ordinary process. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "guestd/test-frames.h"

static struct rig r;
static struct frames f;

static void over(void)
{
	frames_fini(&f);
	rig_fini(&r);
}

static void run(const char *fields)
{
	guest_up(&r);
	guest_run(&r, fields, &f);
}

TEST(exit_code_zero)
{
	run("\"cmd\":[\"true\"]");
	T_STR(exit_str(&f, "reason"), "exited");
	T_INT(exit_int(&f, "code"), 0);
	T_INT(exit_int(&f, "signal"), -1);
	T_INT(f.at, 0);
	over();
}

TEST(every_exit_code_is_its_own)
{
	static const int codes[] = { 1, 2, 126, 127, 128, 137, 255 };
	char fields[64];

	guest_up(&r);
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		snprintf(fields, sizeof(fields), "\"shell\":\"exit %d\"",
			 codes[i]);
		guest_run(&r, fields, &f);
		T_STR(exit_str(&f, "reason"), "exited");
		T_INT(exit_int(&f, "code"), codes[i]);
		frames_fini(&f);
	}
	over();
}

TEST(signal_is_no_code)
{
	run("\"shell\":\"kill -9 $$\"");
	T_STR(exit_str(&f, "reason"), "signaled");
	T_STR(exit_str(&f, "signal"), "SIGKILL");
	T_INT(exit_int(&f, "code"), -1);
	over();
}

TEST(both_outputs_are_told_apart)
{
	run("\"shell\":\"echo one; echo two >&2\"");
	T_STR(buf_cstr(&f.out), "one\n");
	T_STR(buf_cstr(&f.err), "two\n");
	over();
}

TEST(output_counts_are_in_the_exit_fact)
{
	const json_t *bytes;

	run("\"shell\":\"echo one; echo three >&2\"");
	bytes = json_object_get(f.exit, "bytes");
	T_INT(json_integer_value(json_object_get(bytes, "stdout")), 4);
	T_INT(json_integer_value(json_object_get(bytes, "stderr")), 6);
	T_INT(exit_int(&f, "dropped_bytes"), 0);
	T_TRUE(exit_int(&f, "wall_ms") >= 0);
	T_TRUE(exit_int(&f, "max_rss_bytes") > 0);
	over();
}

TEST(words_are_passed_as_they_are)
{
	run("\"cmd\":[\"printf\",\"%s|\",\"a b\",\"$HOME\",\"\",\"*\"]");
	T_STR(buf_cstr(&f.out), "a b|$HOME||*|");
	over();
}

TEST(environment_is_ours_plus_the_usual)
{
	run("\"shell\":\"echo $A:$LANG:${CAISSON_GUESTD:-unset}:$HOME\","
	    "\"env\":{\"A\":\"x\",\"LANG\":\"de\",\"HOME\":\"/h\"}");
	T_STR(buf_cstr(&f.out), "x:de:unset:/h\n");
	over();
}

TEST(path_of_the_request_is_searched)
{
	run("\"cmd\":[\"sh\",\"-c\",\"echo $PATH\"],\"env\":{\"PATH\":"
	    "\"/bin\"}");
	T_STR(buf_cstr(&f.out), "/bin\n");
	over();
}

TEST(working_directory)
{
	run("\"shell\":\"pwd\",\"cwd\":\"/usr\"");
	T_STR(buf_cstr(&f.out), "/usr\n");
	over();
}

static void refused(const char *fields, int status, const char *code,
		    const char *has)
{
	owned_str body = NULL;
	struct rig_reply p;

	guest_up(&r);
	body =
	    xasprintf("{\"id\":\"ex_abcdefgh\",\"start\":\"now\",%s}", fields);
	T_INT(rig_call(&r, &p, "POST", "/v1/execs", body), status);
	T_STR(error_code(&p), code);
	T_HAS(buf_cstr(&p.body), has);
	T_HAS(buf_cstr(&p.body), "\"cause\":\"guest\"");
	rig_reply_fini(&p);
	/* and nothing is left of it */
	T_INT(rig_call(&r, &p, "GET", "/v1/execs/ex_abcdefgh", NULL), 404);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(unknown_program_never_ran)
{
	refused("\"cmd\":[\"no-such-program-x\"]", 404, "not_found",
		"no-such-program-x");
}

TEST(unknown_program_by_path)
{
	refused("\"cmd\":[\"/no/such/program\"]", 404, "not_found",
		"\"field\":\"cmd\"");
}

TEST(program_that_may_not_be_run)
{
	refused("\"cmd\":[\"/etc/passwd\"]", 403, "policy_denied",
		"Permission denied");
}

TEST(working_directory_that_is_not_there)
{
	refused("\"cmd\":[\"true\"],\"cwd\":\"/no/such\"", 400, "invalid_field",
		"\"field\":\"cwd\"");
}

TEST(unknown_user)
{
	refused("\"cmd\":[\"true\"],\"user\":\"nobody-here\"", 400,
		"invalid_field", "nobody-here");
}

TEST(unknown_field)
{
	refused("\"cmd\":[\"true\"],\"foo\":1", 400, "unknown_field", "foo");
}

TEST(binary_output_is_untouched)
{
	run("\"cmd\":[\"sh\",\"-c\",\"i=0; while [ $i -lt 256 ]; do printf "
	    "\\\"\\\\\\\\$(printf %03o $i)\\\"; i=$((i+1)); done\"]");
	T_INT(buf_len(&f.out), 256);
	for (size_t i = 0; i < 256; i++)
		T_INT(buf_data(&f.out)[i], i);
	over();
}

TEST(output_again_from_any_offset)
{
	char id[40];

	guest_up(&r);
	T_INT(guest_exec(&r, "\"shell\":\"echo 0123456789; echo more\"", id),
	      201);
	for (uint64_t at = 0; at <= 16; at++) {
		guest_output(&r, id, at, &f);
		T_INT(buf_len(&f.out), 16 - at);
		T_STR(buf_cstr(&f.out), &"0123456789\nmore\n"[at]);
		frames_fini(&f);
	}
	rig_fini(&r);
}

TEST(offset_beyond_the_end)
{
	char id[40], path[96];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r, "\"cmd\":[\"true\"]", id), 201);
	snprintf(path, sizeof(path), "/v1/execs/%s/output?from=5", id);
	T_INT(rig_call(&r, &p, "GET", path, NULL), 416);
	T_STR(error_code(&p), "offset_gone");
	rig_reply_fini(&p);
	snprintf(path, sizeof(path), "/v1/execs/%s/output?from=x", id);
	T_INT(rig_call(&r, &p, "GET", path, NULL), 400);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(without_follow_the_answer_ends)
{
	char id[40], path[96];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r, "\"cmd\":[\"sleep\",\"100\"]", id), 201);
	snprintf(path, sizeof(path), "/v1/execs/%s/output?from=0", id);
	T_INT(rig_call(&r, &p, "GET", path, NULL), 200);
	frames_init(&f, 0);
	frames_feed(&f, &p.body, true);
	T_INT(f.n_started, 1);
	T_INT(f.n_exit, 0);
	rig_reply_fini(&p);
	over();
}

TEST(timeout_kills_the_tree)
{
	run("\"shell\":\"sleep 300 & sleep 300\",\"timeout_s\":1");
	T_STR(exit_str(&f, "reason"), "timeout");
	T_INT(exit_int(&f, "code"), -1);
	T_STR(exit_str(&f, "signal"), "SIGTERM");
	over();
}

TEST(timeout_kills_who_ignores_it)
{
	run("\"shell\":\"trap '' TERM; while :; do sleep 0.1; done\","
	    "\"timeout_s\":1");
	T_STR(exit_str(&f, "reason"), "timeout");
	T_STR(exit_str(&f, "signal"), "SIGKILL");
	T_TRUE(exit_int(&f, "wall_ms") >= 3000);
	over();
}

TEST(timeout_that_the_program_obeys_keeps_its_code)
{
	run("\"shell\":\"trap 'exit 7' TERM; while :; do sleep 0.1; done\","
	    "\"timeout_s\":1");
	T_STR(exit_str(&f, "reason"), "timeout");
	T_INT(exit_int(&f, "code"), 7);
	over();
}

/* The leader goes at once; its child, which does not, is ended all the same. */
TEST(timeout_outlives_the_leader)
{
	char text[32];
	pid_t pid;

	run("\"shell\":\"(trap '' TERM; exec sleep 300) & echo $!; sleep "
	    "300\",\"timeout_s\":1");
	T_STR(exit_str(&f, "reason"), "timeout");
	T_STR(exit_str(&f, "signal"), "SIGTERM");
	T_TRUE(json_object_get(f.exit, "left_behind") == NULL);
	snprintf(text, sizeof(text), "%s", buf_cstr(&f.out));
	pid = (pid_t)strtol(text, NULL, 10);
	T_TRUE(pid > 0 && kill(pid, 0) < 0);
	over();
}

TEST(timeout_that_is_not_reached)
{
	run("\"shell\":\"exit 3\",\"timeout_s\":600");
	T_STR(exit_str(&f, "reason"), "exited");
	T_INT(exit_int(&f, "code"), 3);
	over();
}

static int signal_call(const char *id, const char *body)
{
	struct rig_reply p;
	char path[96];
	int status;

	snprintf(path, sizeof(path), "/v1/execs/%s/signal", id);
	status = rig_call(&r, &p, "POST", path, body);
	rig_reply_fini(&p);
	return status;
}

TEST(signal_reaches_the_tree)
{
	char id[40];

	guest_up(&r);
	T_INT(guest_exec(&r, "\"shell\":\"sleep 300 & sleep 300\"", id), 201);
	T_INT(signal_call(id, "{\"name\":\"TERM\",\"scope\":\"tree\"}"), 204);
	guest_output(&r, id, 0, &f);
	T_STR(exit_str(&f, "signal"), "SIGTERM");
	T_INT(signal_call(id, "{\"name\":\"TERM\"}"), 409);
	over();
}

TEST(signal_to_the_leader_alone)
{
	char id[40];

	guest_up(&r);
	T_INT(guest_exec(&r,
			 "\"shell\":\"trap 'echo got; exit 5' USR1; echo "
			 "ready; while :; do sleep 0.05; done\"",
			 id),
	      201);
	for (int i = 0; i < 200; i++) {
		struct rig_reply p;
		char path[96];
		bool ready;

		snprintf(path, sizeof(path), "/v1/execs/%s", id);
		T_INT(rig_call(&r, &p, "GET", path, NULL), 200);
		ready = strstr(buf_cstr(&p.body), "\"end\":6}") != NULL;
		rig_reply_fini(&p);
		if (ready)
			break;
		rig_run(&r, 20, NULL);
	}
	T_INT(signal_call(id, "{\"name\":\"SIGUSR1\",\"scope\":\"leader\"}"),
	      204);
	guest_output(&r, id, 0, &f);
	T_STR(buf_cstr(&f.out), "ready\ngot\n");
	T_INT(exit_int(&f, "code"), 5);
	over();
}

TEST(signals_that_are_none)
{
	char id[40];

	guest_up(&r);
	T_INT(guest_exec(&r, "\"cmd\":[\"sleep\",\"100\"]", id), 201);
	T_INT(signal_call(id, "{\"name\":\"FOO\"}"), 400);
	T_INT(signal_call(id, "{}"), 400);
	T_INT(signal_call(id, "{\"name\":\"TERM\",\"scope\":\"all\"}"), 400);
	T_INT(signal_call("ex_unknownunknown", "{\"name\":\"TERM\"}"), 404);
	rig_fini(&r);
}

TEST(child_in_the_background_does_not_hold_the_exec)
{
	uint64_t from = now_mono_us();

	run("\"shell\":\"sleep 30 & echo hi\"");
	T_STR(buf_cstr(&f.out), "hi\n");
	T_INT(exit_int(&f, "code"), 0);
	T_TRUE(now_mono_us() - from < 25000000);
	over();
}

TEST(record_tells_state_and_command)
{
	char id[40], path[96];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r, "\"cmd\":[\"sleep\",\"100\"]", id), 201);
	snprintf(path, sizeof(path), "/v1/execs/%s", id);
	T_INT(rig_call(&r, &p, "GET", path, NULL), 200);
	T_HAS(buf_cstr(&p.body), "\"state\":\"running\"");
	T_HAS(buf_cstr(&p.body), "[\"sleep\",\"100\"]");
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "DELETE", path, NULL), 409);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(record_is_listed_and_forgotten)
{
	char id[40], path[96];
	struct rig_reply p;

	guest_up(&r);
	T_INT(guest_exec(&r, "\"cmd\":[\"true\"]", id), 201);
	guest_output(&r, id, 0, &f);
	T_INT(rig_call(&r, &p, "GET", "/v1/execs", NULL), 200);
	T_HAS(buf_cstr(&p.body), id);
	rig_reply_fini(&p);
	snprintf(path, sizeof(path), "/v1/execs/%s", id);
	T_INT(rig_call(&r, &p, "DELETE", path, NULL), 204);
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "GET", path, NULL), 404);
	rig_reply_fini(&p);
	over();
}

TEST(same_id_twice)
{
	struct rig_reply p;
	const char *body = "{\"id\":\"ex_abcdefgh\",\"cmd\":[\"true\"]}";

	guest_up(&r);
	T_INT(rig_call(&r, &p, "POST", "/v1/execs", body), 201);
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "POST", "/v1/execs", body), 409);
	T_STR(error_code(&p), "name_taken");
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(leader_has_its_own_session)
{
	run("\"shell\":\"read a b c d e x y z < /proc/self/stat; set -- $(cat "
	    "/proc/$$/stat); [ $6 = $$ ] && echo own\"");
	T_STR(buf_cstr(&f.out), "own\n");
	over();
}

TEST(program_gets_no_descriptor_but_three)
{
	run("\"cmd\":[\"ls\",\"/proc/self/fd\"]");
	/* the fourth is ls reading the directory */
	T_STR(buf_cstr(&f.out), "0\n1\n2\n3\n");
	over();
}

TEST(program_has_default_signals)
{
	run("\"cmd\":[\"grep\",\"-E\",\"^Sig(Blk|Ign)\",\"/proc/self/"
	    "status\"]");
	T_STR(buf_cstr(&f.out), "SigBlk:\t0000000000000000\n"
				"SigIgn:\t0000000000000000\n");
	over();
}
