/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exitcode.h"

#include <signal.h>

#include "base/own.h"
#include "base/test.h"
#include "cli/client.h"
#include "net/json.h"

static int of(const char *text, char *note, size_t n)
{
	owned_json v = NULL;
	struct err e = { 0 };

	T_INT(json_parse(text, strlen(text), &v, &e), 0);
	return exit_of_fact(v, note, n);
}

TEST(the_commands_code_passes_through)
{
	char note[128];

	T_INT(of("{\"reason\":\"exited\",\"code\":0}", note, 128), 0);
	T_STR(note, "");
	T_INT(of("{\"reason\":\"exited\",\"code\":7}", note, 128), 7);
	T_INT(of("{\"reason\":\"exited\",\"code\":255}", note, 128), 255);
}

TEST(a_signal_is_128_more_with_a_note)
{
	char note[128];

	T_INT(of("{\"reason\":\"signaled\",\"signal\":9}", note, 128), 137);
	T_HAS(note, "signal 9");
	T_INT(of("{\"reason\":\"signaled\",\"signal\":\"SIGTERM\"}", note, 128),
	      143);
	T_HAS(note, "SIGTERM");
	T_INT(of("{\"reason\":\"signaled\",\"signal\":\"INT\"}", note, 128),
	      130);
}

TEST(a_signal_nobody_knows_is_ours)
{
	char note[128];

	T_INT(of("{\"reason\":\"signaled\",\"signal\":\"SIGX\"}", note, 128),
	      CLI_OURS);
	T_INT(of("{\"reason\":\"signaled\"}", note, 128), CLI_OURS);
	T_INT(of("{\"reason\":\"signaled\",\"signal\":900}", note, 128),
	      CLI_OURS);
}

TEST(a_timeout_is_124)
{
	char note[128];

	T_INT(of("{\"reason\":\"timeout\",\"code\":null}", note, 128), 124);
	T_HAS(note, "timeout");
}

TEST(out_of_memory_says_so)
{
	char note[128];

	T_INT(of("{\"reason\":\"oom\"}", note, 128), 137);
	T_HAS(note, "memory");
}

TEST(no_code_is_never_a_success)
{
	char note[128];

	T_INT(of("{\"reason\":\"exited\",\"code\":null}", note, 128), CLI_OURS);
	T_INT(of("{\"reason\":\"unknown\"}", note, 128), CLI_OURS);
	T_INT(of("{\"reason\":\"ended\"}", note, 128), CLI_OURS);
	T_INT(of("{}", note, 128), CLI_OURS);
	T_TRUE(*note);
}

TEST(signal_names_and_numbers)
{
	T_INT(signal_number("KILL"), SIGKILL);
	T_INT(signal_number("SIGHUP"), SIGHUP);
	T_INT(signal_number("15"), SIGTERM);
	T_INT(signal_number("0"), 0);
	T_INT(signal_number("65"), 0);
	T_INT(signal_number(""), 0);
	T_INT(signal_number("9x"), 0);
}

static int fault_exit(int status, const char *code, const char *cause)
{
	struct fault f = { .status = status };

	snprintf(f.code, sizeof(f.code), "%s", code);
	snprintf(f.cause, sizeof(f.cause), "%s", cause);
	return exit_of_fault(&f);
}

TEST(refusals_are_126)
{
	T_INT(fault_exit(401, "unauthenticated", "request"), CLI_REFUSED);
	T_INT(fault_exit(403, "role_required", "policy"), CLI_REFUSED);
	T_INT(fault_exit(429, "quota_reached", "quota"), CLI_REFUSED);
	T_INT(fault_exit(409, "isolation_unavailable", "node"), CLI_REFUSED);
}

TEST(not_found_is_127_and_the_rest_125)
{
	T_INT(fault_exit(404, "not_found", "request"), CLI_NOT_FOUND);
	T_INT(fault_exit(503, "capacity", "capacity"), CLI_OURS);
	T_INT(fault_exit(400, "unknown_field", "request"), CLI_OURS);
	T_INT(fault_exit(504, "", ""), CLI_TIMEOUT);
}

TEST(a_command_that_cannot_run_ends_as_in_a_shell)
{
	struct fault f = { .status = 400,
			   .code = "invalid_field",
			   .cause = "guest",
			   .field = "cmd",
			   .message = "there is no program \"x\" in PATH" };

	T_INT(exit_of_fault(&f), CLI_NOT_FOUND);
	snprintf(f.message, sizeof(f.message),
		 "cannot run \"/etc/passwd\": Permission denied");
	T_INT(exit_of_fault(&f), CLI_REFUSED);
	snprintf(f.field, sizeof(f.field), "cwd");
	T_INT(exit_of_fault(&f), CLI_OURS);
}

TEST(our_own_errors_by_kind)
{
	struct err e = { .kind = ERR_NOT_FOUND };

	T_INT(exit_of_err(&e), CLI_NOT_FOUND);
	e.kind = ERR_TIMEOUT;
	T_INT(exit_of_err(&e), CLI_TIMEOUT);
	e.kind = ERR_DENIED;
	T_INT(exit_of_err(&e), CLI_REFUSED);
	e.kind = ERR_UNAVAILABLE;
	T_INT(exit_of_err(&e), CLI_OURS);
}

TEST(a_fault_is_read_from_the_body)
{
	static const char body[] =
	    "{\"error\":{\"code\":\"name_taken\",\"message\":\"taken\","
	    "\"cause\":\"request\",\"remedy\":\"another name\",\"novel\":1}}";
	struct fault f;

	fault_parse(409, body, sizeof(body) - 1, &f);
	T_INT(f.status, 409);
	T_STR(f.code, "name_taken");
	T_STR(f.remedy, "another name");
}

TEST(a_fault_without_words_gets_some)
{
	struct fault f;

	fault_parse(502, "<html>", 6, &f);
	T_STR(f.code, "http_502");
	T_HAS(f.message, "502");
	fault_parse(500, "", 0, &f);
	T_HAS(f.message, "500");
}

TEST(a_fault_cannot_paint_the_terminal)
{
	static const char body[] =
	    "{\"error\":{\"message\":\"a\\u001b[31mb\\nc\"}}";
	struct fault f;

	fault_parse(400, body, sizeof(body) - 1, &f);
	T_STR(f.message, "a?[31mb?c");
}
