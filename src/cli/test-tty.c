/* SPDX-License-Identifier: Apache-2.0 */

/* exec -it at a terminal of our own: keys, sizes, and the way back. The guest
 * echoes what it reads, and writes the sizes that it was told. */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "cli/test-fake.h"

struct term {
	struct fake f;
	pid_t pid;
	int master;
	char seen[65536];
	size_t n;
};

/* Read until the words were seen. */
static void until(struct term *t, const char *words)
{
	while (!strstr(t->seen, words)) {
		struct pollfd p = { .fd = t->master, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, 60000) <= 0)
			test_fail(__FILE__, __LINE__, "no \"%s\" in \"%s\"",
				  words, t->seen);
		n = read(t->master, t->seen + t->n, sizeof(t->seen) - 1 - t->n);
		if (n <= 0)
			test_fail(__FILE__, __LINE__, "ended at \"%s\"",
				  t->seen);
		t->n += (size_t)n;
		t->seen[t->n] = '\0';
	}
}

static void forget(struct term *t)
{
	memset(t->seen, 0, t->n);
	t->n = 0;
}

static bool is_raw(const struct term *t)
{
	struct termios a;

	T_TRUE(tcgetattr(t->master, &a) == 0);
	return !(a.c_lflag & (ICANON | ECHO | ISIG));
}

static void type(struct term *t, const char *keys)
{
	T_INT(write_all(t->master, keys, strlen(keys)), 0);
}

static pid_t cli_pid(const struct term *t)
{
	return (pid_t)strtol(fake_note(&t->f, "pid"), NULL, 10);
}

static struct term *open_with(const struct fake_opts *o, char *option)
{
	struct term *t = xnew(struct term);

	fake_start(&t->f, o);
	t->pid = fake_cli_pty(
	    &t->f, ARGV(W("exec"), W("-it"), option, W("box"), W("sh")), 100,
	    30, &t->master);
	until(t, "[{\"cols\":100,\"rows\":30}]");
	forget(t);
	return t;
}

static struct term *open_term(void)
{
	return open_with(
	    &(struct fake_opts){ .echo = true, .ignore_signals = true },
	    W("-v"));
}

/* The terminal is as it was; its exit code. */
static int end(struct term *t)
{
	int code;

	/* its last words would keep it from ending */
	fcntl(t->master, F_SETFL, O_NONBLOCK);
	for (;;) {
		int st;

		while (read(t->master, t->seen + t->n,
			    t->n < 60000 ? 1000 : 0) > 0)
			t->n += strlen(t->seen + t->n);
		if (waitpid(t->pid, &st, WNOHANG) == t->pid) {
			code = WIFSIGNALED(st) ? 1000 + WTERMSIG(st)
					       : WEXITSTATUS(st);
			break;
		}
		usleep(10000);
	}
	T_TRUE(!is_raw(t));
	close(t->master);
	fake_stop(&t->f);
	return code;
}

TEST(size_and_colours_are_those_of_the_terminal_here)
{
	struct term *t = open_term();

	T_HAS(fake_note(&t->f, "body"), "\"pty\":{\"cols\":100,\"rows\":30}");
	T_HAS(fake_note(&t->f, "body"), "\"TERM\":\"xterm-test\"");
	T_HAS(fake_note(&t->f, "body"), "\"stdin\":true");
	type(t, "\x10\x11");
	T_INT(end(t), 0);
	free(t);
}

TEST(the_terminal_is_raw_while_it_lasts)
{
	struct term *t = open_term();

	T_TRUE(is_raw(t));
	type(t, "\x10\x11");
	until(t, "detached; to come back: caisson attach box ex_");
	T_INT(end(t), 0);
	free(t);
}

TEST(control_keys_reach_the_guest)
{
	struct term *t = open_term();

	type(t, "a\x03z\x1a\x1c\x04y");
	until(t, "a\x03z\x1a\x1c\x04y");
	T_STR(fake_note(&t->f, "heard"), ""); /* no signal of ours */
	type(t, "\r~.");
	T_INT(end(t), 0);
	free(t);
}

TEST(a_new_size_is_told)
{
	struct term *t = open_term();
	struct winsize w = { .ws_col = 132, .ws_row = 50 };

	T_TRUE(ioctl(t->master, TIOCSWINSZ, &w) == 0);
	until(t, "[{\"cols\":132,\"rows\":50}]");
	type(t, "\x10\x11");
	T_INT(end(t), 0);
	free(t);
}

TEST(sigterm_gives_the_terminal_back)
{
	struct term *t = open_term();

	kill(cli_pid(t), SIGTERM);
	T_INT(end(t), 128 + SIGTERM);
	T_STR(fake_note(&t->f, "heard"), "");
	T_HAS(t->seen, "the command runs on");
	free(t);
}

TEST(a_fault_of_ours_gives_the_terminal_back)
{
	struct term *t = open_term();

	kill(cli_pid(t), SIGABRT);
	T_INT(end(t), 1000 + SIGABRT);
	free(t);
}

TEST(a_server_that_dies_gives_the_terminal_back)
{
	struct term *t =
	    open_with(&(struct fake_opts){ .echo = true }, W("--give-up=1"));

	kill(t->f.pid, SIGKILL);
	until(t, "resuming");
	until(t, "no connection for 1 s");
	T_INT(end(t), 125);
	free(t);
}

TEST(keys_are_neither_lost_nor_doubled)
{
	struct term *t = open_with(
	    &(struct fake_opts){ .echo = true, .cut_every = 150 }, W("-v"));

	type(t, "0123456789012345678901234567890123456789");
	until(t, "0123456789012345678901234567890123456789");
	until(t, "resuming");
	type(t, "abcdefghij");
	until(t, "abcdefghij");
	type(t, "\x10\x11");
	T_INT(end(t), 0);
	free(t);
}

TEST(the_commands_end_gives_the_terminal_back)
{
	struct term *t = open_with(
	    &(struct fake_opts){ .until_signal = true,
				 .fact = "{\"reason\":\"exited\",\"code\":7}" },
	    W("--timeout=9"));

	T_TRUE(is_raw(t));
	kill(t->f.pid, SIGUSR1);
	T_INT(end(t), 7);
	free(t);
}

TEST(suspend_stops_here_and_comes_back_raw)
{
	struct term *t = open_term();

	/* the shell of the session takes the terminal, and gives it back */
	type(t, "~\x1a");
	until(t, "stopped");
	T_TRUE(!is_raw(t));
	type(t, "\n");
	until(t, "continued");
	for (int i = 0; i < 1200 && !is_raw(t); i++)
		usleep(50000); /* until then keys are echoed here */
	type(t, "back");
	until(t, "back");
	T_TRUE(is_raw(t));
	type(t, "\x10\x11");
	T_INT(end(t), 0);
	free(t);
}

TEST(no_escapes_leaves_the_tilde_alone)
{
	struct term *t =
	    open_with(&(struct fake_opts){ .echo = true }, W("--no-escapes"));

	type(t, "~.x");
	until(t, "~.x");
	type(t, "\x10\x11");
	T_INT(end(t), 0);
	free(t);
}

TEST(own_detach_keys)
{
	struct term *t = open_with(&(struct fake_opts){ .echo = true },
				   W("--detach-keys=ctrl-x,d"));

	type(t, "\x10\x11");
	until(t, "\x10\x11");
	type(t, "\x18"
		"d");
	T_INT(end(t), 0);
	free(t);
}

TEST(a_shell_is_a_login_shell_at_a_terminal)
{
	struct term *t = xnew(struct term);

	fake_start(&t->f, &(struct fake_opts){ .echo = true });
	t->pid =
	    fake_cli_pty(&t->f, ARGV(W("shell"), W("box")), 80, 24, &t->master);
	until(t, "[{\"cols\":80");
	T_HAS(fake_note(&t->f, "body"), "exec bash -l; exec sh -l");
	type(t, "\x10\x11");
	T_INT(end(t), 0);
	free(t);
}
