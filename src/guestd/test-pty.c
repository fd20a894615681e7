/* SPDX-License-Identifier: Apache-2.0 */

/* Terminals, as a program and its shell see them. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "guestd/test-frames.h"

#define PTY ",\"pty\":{\"cols\":97,\"rows\":31}"

static struct rig r;
static struct session s;
static char id[40];
static uint64_t typed;

static void open_pty(const char *fields)
{
	owned_str text = xasprintf("%s" PTY ",\"start\":\"attach\"", fields);

	typed = 0;
	guest_up(&r);
	T_INT(guest_exec(&r, text, id), 201);
	session_open(&r, &s, id, "", 0);
}

static void type(const char *text)
{
	session_input(&s, typed, text);
	typed += strlen(text);
}

static void over(void)
{
	session_close(&s);
	rig_fini(&r);
}

TEST(all_three_are_one_terminal)
{
	open_pty("\"shell\":\"test -t 0 && test -t 1 && test -t 2 && echo yes; "
		 "echo err >&2\"");
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "yes\r\nerr\r\n");
	T_INT(json_integer_value(
		  json_object_get(json_object_get(s.f.exit, "bytes"), "pty")),
	      10);
	T_INT(json_integer_value(json_object_get(
		  json_object_get(s.f.exit, "bytes"), "stdout")),
	      0);
	over();
}

TEST(size_is_there_from_the_start)
{
	open_pty("\"cmd\":[\"stty\",\"size\"]");
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "31 97\r\n");
	over();
}

TEST(it_is_the_controlling_terminal)
{
	open_pty("\"shell\":\"echo mine > /dev/tty\"");
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "mine\r\n");
	over();
}

TEST(term_is_set_unless_told)
{
	open_pty("\"shell\":\"echo $TERM\"");
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "xterm-256color\r\n");
	over();
	open_pty("\"shell\":\"echo $TERM\",\"env\":{\"TERM\":\"vt100\"}");
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "vt100\r\n");
	over();
}

TEST(without_a_terminal_there_is_no_term)
{
	struct frames f;

	guest_up(&r);
	guest_run(&r, "\"shell\":\"echo ${TERM:-none}\"", &f);
	T_STR(buf_cstr(&f.out), "none\n");
	frames_fini(&f);
	rig_fini(&r);
}

TEST(resize_sends_sigwinch)
{
	open_pty("\"shell\":\"trap 'stty size; exit 4' WINCH; echo up; while "
		 ":; do sleep 0.05; done\"");
	session_expect(&s, "up\r\n");
	session_send(&s, EXEC_SIZE, 0, "{\"cols\":120,\"rows\":40}", 22);
	session_finish(&s);
	T_HAS(buf_cstr(&s.f.out), "40 120\r\n");
	T_INT(exit_int(&s.f, "code"), 4);
	over();
}

TEST(resize_by_request)
{
	struct rig_reply p;
	char path[96];

	open_pty("\"shell\":\"trap 'stty size; exit 4' WINCH; echo up; while "
		 ":; do sleep 0.05; done\"");
	session_expect(&s, "up\r\n");
	snprintf(path, sizeof(path), "/v1/execs/%s/size", id);
	T_INT(rig_call(&r, &p, "POST", path, "{\"cols\":0,\"rows\":1}"), 400);
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "POST", path, "{\"cols\":5,\"rows\":6}"), 204);
	rig_reply_fini(&p);
	session_finish(&s);
	T_HAS(buf_cstr(&s.f.out), "6 5\r\n");
	T_INT(rig_call(&r, &p, "POST", path, "{\"cols\":5,\"rows\":6}"), 409);
	rig_reply_fini(&p);
	over();
}

TEST(input_is_echoed_and_read_by_lines)
{
	open_pty("\"shell\":\"read a; echo got:$a\"");
	session_run(&s, 100, true);
	type("wor\177ld\r");
	session_finish(&s);
	T_HAS(buf_cstr(&s.f.out), "got:wold\r\n");
	over();
}

TEST(control_c_interrupts)
{
	open_pty("\"shell\":\"echo up; exec sleep 100\"");
	session_expect(&s, "up\r\n");
	type("\3");
	session_finish(&s);
	T_STR(exit_str(&s.f, "reason"), "signaled");
	T_STR(exit_str(&s.f, "signal"), "SIGINT");
	over();
}

TEST(control_backslash_quits)
{
	open_pty("\"shell\":\"ulimit -c 0; echo up; exec sleep 100\"");
	session_expect(&s, "up\r\n");
	type("\34");
	session_finish(&s);
	T_STR(exit_str(&s.f, "signal"), "SIGQUIT");
	over();
}

TEST(control_d_is_the_end_of_file)
{
	open_pty("\"shell\":\"cat; echo eof\"");
	session_run(&s, 100, true);
	type("line\r");
	session_expect(&s, "line\r\nline\r\n");
	type("\4");
	session_finish(&s);
	T_HAS(buf_cstr(&s.f.out), "eof\r\n");
	T_INT(exit_int(&s.f, "code"), 0);
	over();
}

TEST(end_of_input_is_the_end_of_file)
{
	open_pty("\"shell\":\"cat; echo eof\"");
	type("line\r");
	session_send(&s, EXEC_STDIN_END, typed, NULL, 0);
	session_finish(&s);
	T_HAS(buf_cstr(&s.f.out), "eof\r\n");
	over();
}

/* The first end-of-file character only hands the begun line over. */
TEST(end_of_input_in_a_line)
{
	open_pty("\"shell\":\"stty -echo; echo up; cat; echo :eof\"");
	session_expect(&s, "up\r\n");
	type("half");
	session_send(&s, EXEC_STDIN_END, typed, NULL, 0);
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "up\r\nhalf:eof\r\n");
	over();
}

/* A shell with job control stops a job, goes on, and takes it back. */
TEST(control_z_stops_a_job)
{
	open_pty("\"cmd\":[\"bash\",\"--norc\",\"-i\"],\"env\":{\"PS1\":\"$ "
		 "\"}");
	session_expect(&s, "$ ");
	type("sleep 100\r");
	session_run(&s, 500, true);
	type("\32");
	session_expect(&s, "Stopped");
	type("jobs; echo jo''bs\r");
	session_expect(&s, "jobs\r\n");
	type("fg\r");
	session_run(&s, 300, true);
	type("\3");
	session_run(&s, 300, true);
	type("exit 6\r");
	session_finish(&s);
	T_INT(exit_int(&s.f, "code"), 6);
	over();
}

TEST(another_client_goes_on_where_the_first_left)
{
	open_pty("\"shell\":\"read a; echo one:$a; read b; echo two:$b\"");
	session_run(&s, 100, true);
	type("x\r");
	session_expect(&s, "one:x\r\n");
	session_close(&s);
	session_open(&r, &s, id, "", 0);
	session_run(&s, 100, true);
	T_INT(s.f.stdin_offset, 2);
	type("y\r");
	session_finish(&s);
	T_HAS(buf_cstr(&s.f.out), "one:x\r\n");
	T_HAS(buf_cstr(&s.f.out), "two:y\r\n");
	over();
}

TEST(much_output_of_a_terminal_is_complete)
{
	open_pty("\"cmd\":[\"seq\",\"1\",\"100000\"],\"keep_bytes\":65536");
	session_finish(&s);
	/* a carriage return a line more */
	T_INT(s.f.at, 588895 + 100000);
	T_INT(s.f.n_gap, 0);
	T_TRUE(!strcmp(buf_cstr(&s.f.out) + s.f.at - 8, "100000\r\n"));
	over();
}

TEST(program_ends_with_its_session)
{
	open_pty("\"shell\":\"sleep 300 & echo hi\"");
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "hi\r\n");
	T_INT(exit_int(&s.f, "code"), 0);
	over();
}

TEST(terminal_belongs_to_the_user)
{
	if (geteuid() != 0)
		return; /* only root becomes somebody else */
	open_pty("\"shell\":\"id -un; stat -c %U $(tty); echo again > $(tty)\","
		 "\"user\":\"nobody\"");
	session_finish(&s);
	T_STR(buf_cstr(&s.f.out), "nobody\r\nnobody\r\nagain\r\n");
	over();
}
