/* SPDX-License-Identifier: Apache-2.0 */

/* exec and attach against a server whose line breaks. */

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "cli/exitcode.h"
#include "cli/test-fake.h"

static char *text(struct buf *b)
{
	return buf_cstr(b);
}

/* Is r the whole of `total` bytes, each on its descriptor? */
static void check_output(const struct fake_run *r, uint64_t from,
			 uint64_t total)
{
	struct buf out = r->out, err = r->err;
	size_t o = 0;
	uint64_t n_err = 0;

	for (uint64_t at = from; at < total; at++) {
		if (fake_is_stderr(at)) {
			n_err++;
			continue;
		}
		T_TRUE(o < buf_len(&out));
		T_INT(buf_data(&out)[o++], fake_byte(at));
	}
	T_INT(buf_len(&out), o);
	T_TRUE(buf_len(&err) >= n_err);
}

static void exec_with(const struct fake_opts *o, struct fake *f,
		      struct fake_run *r)
{
	fake_start(f, o);
	fake_run(f, ARGV(W("exec"), W("box"), W("--"), W("make")), NULL, 0, r);
	fake_stop(f);
}

TEST(output_goes_to_its_descriptors)
{
	struct fake f;
	struct fake_run r;

	exec_with(&(struct fake_opts){ .output = 2500 }, &f, &r);
	T_INT(r.code, 0);
	T_INT(buf_len(&r.out), 1500);
	T_INT(buf_len(&r.err), 1000);
	check_output(&r, 0, 2500);
	T_INT(buf_data(&r.err)[0], fake_byte(1000));
	fake_run_fini(&r);
}

TEST(the_request_says_attach_and_block)
{
	struct fake f;
	struct fake_run r;

	exec_with(&(struct fake_opts){ 0 }, &f, &r);
	T_HAS(fake_note(&f, "body"), "\"start\":\"attach\"");
	T_HAS(fake_note(&f, "body"), "\"overflow\":\"block\"");
	T_TRUE(!strstr(fake_note(&f, "body"), "stdin"));
	fake_run_fini(&r);
}

TEST(a_line_that_keeps_breaking_loses_no_output)
{
	struct fake f;
	struct fake_run r;

	exec_with(&(struct fake_opts){ .output = 200000, .cut_every = 20000 },
		  &f, &r);
	T_INT(r.code, 0);
	check_output(&r, 0, 200000);
	T_TRUE(memmem(buf_data(&r.err), buf_len(&r.err),
		      "connection lost at byte ", 24));
	fake_run_fini(&r);
}

TEST(input_and_output_are_exact_over_a_line_that_breaks)
{
	const size_t n = 300000;
	uint8_t *in = xcalloc(n, 1);
	struct fake f;
	struct fake_run r;

	for (size_t i = 0; i < n; i++)
		in[i] = fake_byte(i * 3);
	fake_start(&f, &(struct fake_opts){ .echo = true, .cut_every = 90001 });
	fake_run(&f, ARGV(W("exec"), W("-i"), W("box"), W("cat")), in, n, &r);
	fake_stop(&f);
	T_INT(r.code, 0);
	T_INT(buf_len(&r.out), n);
	T_TRUE(!memcmp(buf_data(&r.out), in, n));
	T_HAS(text(&r.err), "resuming");
	fake_run_fini(&r);
	free(in);
}

TEST(a_file_as_input)
{
	const char *path = xasprintf("%s/in", test_tmpdir());
	struct fake f;
	char got[64];
	int out[2];
	pid_t pid;
	ssize_t n;

	fake_start(&f, &(struct fake_opts){ .echo = true });
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	T_TRUE(fd >= 0 && write(fd, "from a file", 11) == 11);
	T_TRUE(lseek(fd, 0, SEEK_SET) == 0 && pipe2(out, O_CLOEXEC) == 0);
	pid = fake_cli_take(&f, ARGV(W("exec"), W("-i"), W("box"), W("cat")),
			    fd, out[1], -1);
	T_INT(fake_wait(pid), 0);
	n = read(out[0], got, sizeof(got));
	T_TRUE(n == 11 && !memcmp(got, "from a file", 11));
	fd_close(out[0]);
	fake_stop(&f);
	free((char *)(uintptr_t)path);
}

TEST(no_input_is_an_end_at_once)
{
	struct fake f;
	struct fake_run r;

	fake_start(&f, &(struct fake_opts){ .echo = true });
	fake_run(&f, ARGV(W("exec"), W("-i"), W("box"), W("cat")), NULL, 0, &r);
	fake_stop(&f);
	T_INT(r.code, 0);
	T_INT(buf_len(&r.out), 0);
	fake_run_fini(&r);
}

TEST(exit_codes_are_the_commands_or_documented)
{
	static const struct {
		const char *fact;
		int code;
		const char *words;
	} cases[] = {
		{ "{\"reason\":\"exited\",\"code\":3}", 3, "" },
		{ "{\"reason\":\"signaled\",\"signal\":\"KILL\"}", 137,
		  "KILL" },
		{ "{\"reason\":\"timeout\"}", 124, "timeout" },
		{ "{\"reason\":\"oom\"}", 137, "out of memory" },
		{ "{\"reason\":\"ended\"}", 125, "sandbox ended" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fake f;
		struct fake_run r;

		exec_with(&(struct fake_opts){ .fact = cases[i].fact }, &f, &r);
		T_INT(r.code, cases[i].code);
		T_HAS(text(&r.err), cases[i].words);
		fake_run_fini(&r);
	}
}

static void refused(int status, const char *body, int code, const char *words)
{
	struct fake f;
	struct fake_run r;

	exec_with(&(struct fake_opts){ .refuse = status, .refusal = body }, &f,
		  &r);
	T_INT(r.code, code);
	T_HAS(text(&r.err), words);
	fake_run_fini(&r);
}

TEST(a_command_that_is_not_there_is_127)
{
	refused(400,
		"{\"error\":{\"code\":\"invalid_field\",\"message\":\"mkae: No "
		"such file\",\"cause\":\"guest\",\"field\":\"cmd\"}}",
		127, "mkae");
}

TEST(a_command_that_may_not_run_is_126)
{
	refused(400,
		"{\"error\":{\"code\":\"invalid_field\",\"message\":\"/x: "
		"Permission denied\",\"cause\":\"guest\",\"field\":\"cmd\"}}",
		126, "Permission denied");
}

TEST(an_ended_sandbox_is_125)
{
	refused(410,
		"{\"error\":{\"code\":\"sandbox_ended\",\"message\":\"it "
		"ended: ttl\"}}",
		125, "it ended: ttl");
}

TEST(a_token_that_grew_old_is_made_anew)
{
	struct fake f;
	struct fake_run r;

	exec_with(&(struct fake_opts){ .output = 50000,
				       .cut_every = 30000,
				       .token_once = true },
		  &f, &r);
	T_INT(r.code, 0);
	check_output(&r, 0, 50000);
	fake_run_fini(&r);
}

TEST(a_server_that_stays_away_ends_with_a_remedy)
{
	struct fake f;
	struct fake_run r;

	fake_start(&f, &(struct fake_opts){ .output = 50000,
					    .cut_every = 10000,
					    .die_after = 1 });
	fake_run(&f,
		 ARGV(W("exec"), W("--give-up"), W("1"), W("box"), W("make")),
		 NULL, 0, &r);
	fake_stop(&f);
	T_INT(r.code, CLI_OURS);
	T_TRUE(memmem(buf_data(&r.err), buf_len(&r.err),
		      "caisson attach box " FAKE_EXEC " --from 10000", 63));
	fake_run_fini(&r);
}

TEST(a_writer_that_was_replaced_says_so)
{
	struct fake f;
	struct fake_run r;

	exec_with(
	    &(struct fake_opts){
		.closing = "{\"reason\":\"replaced\",\"retry\":false}" },
	    &f, &r);
	T_INT(r.code, CLI_OURS);
	T_HAS(text(&r.err), "took this command over");
	fake_run_fini(&r);
}

/* Wait until the server heard of a start. */
static void until_started(const struct fake *f)
{
	for (int i = 0; i < 600 && !*fake_note(f, "body"); i++)
		usleep(50000);
	usleep(500000);
}

TEST(the_first_signal_is_the_commands)
{
	struct fake f;
	pid_t pid;

	fake_start(&f, &(struct fake_opts){ .until_signal = true });
	pid = fake_cli_take(&f, ARGV(W("exec"), W("box"), W("sleep")), -1, -1,
			    -1);
	until_started(&f);
	kill(pid, SIGINT);
	T_INT(fake_wait(pid), 130);
	T_STR(fake_note(&f, "heard"), "INT ");
	fake_stop(&f);
}

TEST(the_second_signal_leaves)
{
	struct fake f;
	pid_t pid;

	fake_start(&f, &(struct fake_opts){ .until_signal = true,
					    .ignore_signals = true });
	pid = fake_cli_take(&f, ARGV(W("exec"), W("box"), W("sleep")), -1, -1,
			    -1);
	until_started(&f);
	kill(pid, SIGTERM);
	for (int i = 0; i < 600 && !*fake_note(&f, "heard"); i++)
		usleep(50000);
	kill(pid, SIGINT);
	T_INT(fake_wait(pid), 130);
	T_STR(fake_note(&f, "heard"), "TERM ");
	fake_stop(&f);
}

TEST(a_reader_that_left_is_the_commands_sigpipe)
{
	struct fake f;
	int out[2];
	pid_t pid;

	fake_start(
	    &f, &(struct fake_opts){ .output = 3000000, .until_signal = true });
	T_TRUE(pipe2(out, O_CLOEXEC) == 0);
	pid = fake_cli_take(&f, ARGV(W("exec"), W("box"), W("yes")), -1, out[1],
			    -1);
	fd_close(out[0]);
	T_INT(fake_wait(pid), 141);
	T_STR(fake_note(&f, "heard"), "PIPE ");
	fake_stop(&f);
}

TEST(a_slow_reader_gets_every_byte)
{
	struct fake f;
	int out[2];
	uint64_t at = 0;
	uint8_t b[3000];
	ssize_t n;
	pid_t pid;

	fake_start(&f, &(struct fake_opts){ .output = 2000000 });
	T_TRUE(pipe2(out, O_CLOEXEC) == 0);
	pid = fake_cli_take(&f, ARGV(W("exec"), W("box"), W("make")), -1,
			    out[1], -1);
	usleep(700000);
	while ((n = read(out[0], b, sizeof(b))) > 0) {
		for (ssize_t i = 0; i < n; i++, at++) {
			while (fake_is_stderr(at))
				at++;
			T_INT(b[i], fake_byte(at));
		}
	}
	T_INT(fake_wait(pid), 0);
	T_TRUE(at >= 1999000);
	fd_close(out[0]);
	fake_stop(&f);
}

TEST(json_is_one_object_a_line)
{
	struct fake f;
	struct fake_run r;

	fake_start(&f, &(struct fake_opts){ .output = 3 });
	fake_run(&f, ARGV(W("exec"), W("--json"), W("box"), W("make")), NULL, 0,
		 &r);
	fake_stop(&f);
	T_INT(r.code, 0);
	T_HAS(text(&r.out), "{\"exec\":{\"id\":\"" FAKE_EXEC "\"");
	T_HAS(text(&r.out),
	      "{\"offset\":0,\"stream\":\"stdout\",\"b64\":\"AB8+\"}\n");
	T_HAS(text(&r.out), "{\"exit\":{");
	T_TRUE(!strstr(text(&r.out), "t1"));
	fake_run_fini(&r);
}

TEST(detached_prints_the_id_and_starts_now)
{
	struct fake f;
	struct fake_run r;

	fake_start(&f, &(struct fake_opts){ 0 });
	fake_run(&f, ARGV(W("exec"), W("-d"), W("box"), W("make")), NULL, 0,
		 &r);
	fake_stop(&f);
	T_INT(r.code, 0);
	T_STR(text(&r.out), FAKE_EXEC "\n");
	T_HAS(fake_note(&f, "body"), "\"start\":\"now\"");
	T_HAS(fake_note(&f, "body"), "\"overflow\":\"roll\"");
	fake_run_fini(&r);
}

TEST(attach_goes_on_from_a_byte)
{
	struct fake f;
	struct fake_run r;

	fake_start(&f, &(struct fake_opts){ .output = 5000 });
	fake_run(
	    &f,
	    ARGV(W("attach"), W("--from"), W("2200"), W("box"), W(FAKE_EXEC)),
	    NULL, 0, &r);
	fake_stop(&f);
	T_INT(r.code, 0);
	check_output(&r, 2200, 5000);
	fake_run_fini(&r);
}

TEST(a_terminal_is_refused_where_there_is_none)
{
	struct fake f;
	struct fake_run r;

	fake_start(&f, &(struct fake_opts){ 0 });
	fake_run(&f, ARGV(W("exec"), W("-it"), W("box"), W("sh")), NULL, 0, &r);
	fake_stop(&f);
	T_INT(r.code, CLI_OURS);
	T_HAS(text(&r.err), "-t needs a terminal");
	T_STR(fake_note(&f, "body"), ""); /* nothing was made */
	fake_run_fini(&r);
}

TEST(ps_tells_how_it_ended)
{
	struct fake f;
	struct fake_run r;

	fake_start(&f, &(struct fake_opts){ 0 });
	fake_run(&f, ARGV(W("ps"), W("--wait"), W("box")), NULL, 0, &r);
	fake_stop(&f);
	T_INT(r.code, 3);
	T_HAS(text(&r.out), "exited  exit 3  1 m 01 s  make test");
	fake_run_fini(&r);
}
