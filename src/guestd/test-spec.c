/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/spec.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/test.h"

static struct exec_spec spec;
static struct spec_error se;
static struct err err;

static int parse(const char *text)
{
	err_clear(&err);
	return spec_read(text, strlen(text), &spec, &se, &err);
}

static void refused(const char *text, const char *code, const char *field)
{
	T_TRUE(parse(text) < 0);
	T_STR(se.code, code);
	T_STR(se.field, field);
	T_TRUE(err.msg[0] != '\0');
	T_TRUE(spec.argv == NULL);
}

#define ID "\"id\":\"ex_abcdefgh12\""

TEST(least_spec)
{
	T_INT(parse("{" ID ",\"cmd\":[\"true\"]}"), 0);
	T_STR(spec.id, "ex_abcdefgh12");
	T_INT(spec.argc, 1);
	T_STR(spec.argv[0], "true");
	T_TRUE(spec.argv[1] == NULL && spec.cwd == NULL && spec.user == NULL);
	T_TRUE(!spec.stdin_open && !spec.block);
	T_INT(spec.timeout_ms, 0);
	T_INT(spec.keep_bytes, EXEC_KEEP_DEFAULT);
	spec_fini(&spec);
}

TEST(full_spec)
{
	T_INT(parse("{" ID ",\"cmd\":[\"a\",\"b c\",\"\"],\"env\":{\"A\":\"1\","
		    "\"B\":\"x=y\"},\"cwd\":\"/w\",\"user\":\"u\",\"stdin\":"
		    "true,\"timeout_s\":7,\"start\":\"now\",\"keep_bytes\":"
		    "4096,\"overflow\":\"block\"}"),
	      0);
	T_INT(spec.argc, 3);
	T_STR(spec.argv[2], "");
	T_INT(spec.n_env, 2);
	T_STR(spec.cwd, "/w");
	T_STR(spec.user, "u");
	T_TRUE(spec.stdin_open && spec.block);
	T_INT(spec.timeout_ms, 7000);
	T_INT(spec.keep_bytes, 4096);
	spec_fini(&spec);
}

TEST(shell_becomes_sh_c)
{
	T_INT(parse("{" ID ",\"shell\":\"echo $X\"}"), 0);
	T_INT(spec.argc, 3);
	T_STR(spec.argv[0], "/bin/sh");
	T_STR(spec.argv[1], "-c");
	T_STR(spec.argv[2], "echo $X");
	spec_fini(&spec);
}

TEST(null_timeout_is_none)
{
	T_INT(parse("{" ID ",\"cmd\":[\"a\"],\"timeout_s\":null}"), 0);
	T_INT(spec.timeout_ms, 0);
	spec_fini(&spec);
}

TEST(no_command)
{
	refused("{" ID "}", "invalid_field", "cmd");
}

TEST(cmd_and_shell)
{
	refused("{" ID ",\"cmd\":[\"a\"],\"shell\":\"b\"}", "invalid_field",
		"cmd");
}

TEST(empty_command)
{
	refused("{" ID ",\"cmd\":[]}", "invalid_field", "cmd");
	refused("{" ID ",\"cmd\":[\"\"]}", "invalid_field", "cmd");
}

TEST(command_of_wrong_type)
{
	T_TRUE(parse("{" ID ",\"cmd\":\"ls\"}") < 0);
	T_HAS(err.msg, "cmd");
	T_TRUE(parse("{" ID ",\"cmd\":[1]}") < 0);
	T_HAS(err.msg, "cmd");
}

TEST(missing_id)
{
	refused("{\"cmd\":[\"a\"]}", "invalid_field", "id");
}

TEST(ids_that_are_none)
{
	refused("{\"id\":\"ab_cdefghij\",\"cmd\":[\"a\"]}", "invalid_field",
		"id");
	refused("{\"id\":\"ex_../../x\",\"cmd\":[\"a\"]}", "invalid_field",
		"id");
	refused("{\"id\":\"ex_\",\"cmd\":[\"a\"]}", "invalid_field", "id");
	refused("{\"id\":\"ex_UPPERCASE\",\"cmd\":[\"a\"]}", "invalid_field",
		"id");
}

TEST(relative_cwd)
{
	refused("{" ID ",\"cmd\":[\"a\"],\"cwd\":\"w\"}", "invalid_field",
		"cwd");
}

TEST(environment_names)
{
	refused("{" ID ",\"cmd\":[\"a\"],\"env\":{\"A=B\":\"1\"}}",
		"invalid_field", "env");
	refused("{" ID ",\"cmd\":[\"a\"],\"env\":{\"\":\"1\"}}",
		"invalid_field", "env");
}

TEST(timeout_out_of_range)
{
	T_TRUE(parse("{" ID ",\"cmd\":[\"a\"],\"timeout_s\":0}") < 0);
	T_HAS(err.msg, "timeout_s");
	T_TRUE(parse("{" ID ",\"cmd\":[\"a\"],\"timeout_s\":99999999}") < 0);
	T_TRUE(parse("{" ID ",\"cmd\":[\"a\"],\"timeout_s\":1.5}") < 0);
}

TEST(keep_bytes_out_of_range)
{
	T_TRUE(parse("{" ID ",\"cmd\":[\"a\"],\"keep_bytes\":1}") < 0);
	T_TRUE(parse("{" ID ",\"cmd\":[\"a\"],\"keep_bytes\":99999999999}") <
	       0);
}

TEST(unknown_field_is_named)
{
	refused("{" ID ",\"cmd\":[\"a\"],\"comand\":1}", "unknown_field",
		"comand");
}

TEST(unknown_overflow)
{
	T_TRUE(parse("{" ID ",\"cmd\":[\"a\"],\"overflow\":\"burn\"}") < 0);
	T_HAS(err.msg, "overflow");
}

TEST(start_is_by_attach_unless_told)
{
	T_INT(parse("{" ID ",\"cmd\":[\"a\"]}"), 0);
	T_TRUE(!spec.start_now);
	spec_fini(&spec);
	T_INT(parse("{" ID ",\"cmd\":[\"a\"],\"start\":\"attach\"}"), 0);
	T_TRUE(!spec.start_now);
	spec_fini(&spec);
	T_INT(parse("{" ID ",\"cmd\":[\"a\"],\"start\":\"now\"}"), 0);
	T_TRUE(spec.start_now);
	spec_fini(&spec);
	refused("{" ID ",\"cmd\":[\"a\"],\"start\":\"later\"}", "invalid_field",
		"start");
}

TEST(pty_has_a_size_and_an_input)
{
	T_INT(parse("{" ID ",\"cmd\":[\"a\"],\"pty\":{\"cols\":80,\"rows\":24}"
		    "}"),
	      0);
	T_TRUE(spec.has_pty && spec.stdin_open);
	T_INT(spec.size.cols, 80);
	T_INT(spec.size.rows, 24);
	spec_fini(&spec);
	T_INT(parse("{" ID ",\"cmd\":[\"a\"],\"pty\":null}"), 0);
	T_TRUE(!spec.has_pty && !spec.stdin_open);
	spec_fini(&spec);
}

TEST(pty_sizes_that_are_none)
{
	refused("{" ID ",\"cmd\":[\"a\"],\"pty\":{}}", "invalid_field",
		"pty.cols");
	refused("{" ID ",\"cmd\":[\"a\"],\"pty\":{\"cols\":80}}",
		"invalid_field", "pty.rows");
	refused("{" ID ",\"cmd\":[\"a\"],\"pty\":{\"cols\":0,\"rows\":24}}",
		"invalid_field", "pty.cols");
	refused("{" ID ",\"cmd\":[\"a\"],\"pty\":{\"cols\":80,\"rows\":65536}}",
		"invalid_field", "pty.rows");
	refused("{" ID ",\"cmd\":[\"a\"],\"pty\":{\"cols\":80,\"rows\":24,"
		"\"x\":1}}",
		"unknown_field", "pty.x");
	refused("{" ID ",\"cmd\":[\"a\"],\"pty\":true}", "invalid_field",
		"pty");
}

TEST(signal_bodies)
{
	static const char text[] = "{\"name\":\"INT\",\"scope\":\"leader\"}";
	struct exec_kill k = { 0 };

	T_INT(spec_read_kill(text, sizeof(text) - 1, &k, &se, &err), 0);
	T_INT(k.signo, SIGINT);
	T_TRUE(!k.tree);
	T_INT(spec_read_kill("{\"name\":\"KILL\"}", 15, &k, &se, &err), 0);
	T_TRUE(k.tree);
	T_INT(spec_read_kill("{}", 2, &k, &se, &err), -EINVAL);
	T_STR(se.field, "name");
	T_INT(spec_read_kill("{\"name\":\"X\"}", 12, &k, &se, &err), -EINVAL);
}

TEST(not_an_object)
{
	T_TRUE(parse("[]") < 0);
	T_TRUE(parse("") < 0);
	T_TRUE(parse("{") < 0);
	T_TRUE(parse("{" ID ",\"cmd\":[\"a\"]} x") < 0);
}

TEST(nul_in_a_word)
{
	T_TRUE(parse("{" ID ",\"cmd\":[\"a\\u0000b\"]}") < 0);
}

TEST(signals_by_both_names)
{
	T_INT(signal_number("TERM"), SIGTERM);
	T_INT(signal_number("SIGTERM"), SIGTERM);
	T_INT(signal_number("KILL"), SIGKILL);
	T_INT(signal_number("USR1"), SIGUSR1);
	T_INT(signal_number("term"), -1);
	T_INT(signal_number("9"), -1);
	T_INT(signal_number(""), -1);
	T_INT(signal_number("SIG"), -1);
}

TEST(signal_names)
{
	char name[16];

	signal_name(SIGSEGV, name, sizeof(name));
	T_STR(name, "SIGSEGV");
	signal_name(SIGRTMIN + 2, name, sizeof(name));
	T_STR(name, "SIGRTMIN+2");
}
