/* SPDX-License-Identifier: Apache-2.0 */

/* forward: TCP over a WebSocket, half-closes included. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "cli/test-fake.h"

/* Start `forward box 0:PORT`; returns its local port. */
static int start(const struct fake *f, char *spec, pid_t *ret_pid, int *ret_err)
{
	char line[128] = "";
	int out[2], err[2];
	ssize_t n;

	T_TRUE(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
	*ret_pid = fake_cli_take(f, ARGV(W("forward"), W("box"), spec), -1,
				 out[1], err[1]);
	n = read(out[0], line, sizeof(line) - 1);
	T_TRUE(n > 0);
	T_HAS(line, "127.0.0.1:");
	T_HAS(line, " -> box:");
	fd_close(out[0]);
	*ret_err = err[0];
	return (int)strtol(strchr(line, ':') + 1, NULL, 10);
}

static int dial(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval patience = { .tv_sec = 60 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	T_TRUE(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

/* Everything until the end. */
static size_t drain(int fd, uint8_t *p, size_t max)
{
	size_t n = 0;
	ssize_t r;

	while (n < max && (r = read(fd, p + n, max - n)) > 0)
		n += (size_t)r;
	return n;
}

TEST(bytes_go_there_and_back_and_so_do_ends)
{
	static uint8_t in[200000], back[sizeof(in) + 1];
	struct fake f;
	pid_t pid;
	int port, err, fd;

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = fake_byte(i);
	fake_start(&f, &(struct fake_opts){ 0 });
	port = start(&f, W("0:7"), &pid, &err);
	fd = dial(port);
	T_INT(write_all(fd, in, sizeof(in)), 0);
	shutdown(fd, SHUT_WR);
	T_INT(drain(fd, back, sizeof(back)), sizeof(in));
	T_TRUE(!memcmp(in, back, sizeof(in)));
	close(fd);
	kill(pid, SIGINT);
	T_INT(fake_wait(pid), 0);
	fd_close(err);
	fake_stop(&f);
}

TEST(many_connections_at_once)
{
	struct fake f;
	pid_t pid;
	int port, err, fds[20];
	uint8_t back[64];

	fake_start(&f, &(struct fake_opts){ 0 });
	port = start(&f, W("0:7"), &pid, &err);
	for (int i = 0; i < 20; i++)
		fds[i] = dial(port);
	for (int i = 19; i >= 0; i--) {
		char text[16];

		snprintf(text, sizeof(text), "number %d", i);
		T_INT(write_all(fds[i], text, strlen(text)), 0);
		shutdown(fds[i], SHUT_WR);
		T_INT(drain(fds[i], back, sizeof(back)), strlen(text));
		T_TRUE(!memcmp(back, text, strlen(text)));
		close(fds[i]);
	}
	kill(pid, SIGTERM);
	T_INT(fake_wait(pid), 0);
	fd_close(err);
	fake_stop(&f);
}

TEST(a_closed_port_is_said_and_the_forward_stays)
{
	struct fake f;
	char words[512] = "";
	pid_t pid;
	int port, err, fd;
	uint8_t back[8];

	fake_start(&f, &(struct fake_opts){ 0 });
	port = start(&f, W("0:9"), &pid, &err);
	for (int i = 0; i < 2; i++) {
		fd = dial(port);
		T_INT(drain(fd, back, sizeof(back)), 0);
		close(fd);
	}
	T_TRUE(read(err, words, sizeof(words) - 1) > 0);
	T_HAS(words, "port 9: nobody listens");
	kill(pid, SIGINT);
	T_INT(fake_wait(pid), 0);
	fd_close(err);
	fake_stop(&f);
}

TEST(stdio_is_one_connection)
{
	struct fake f;
	struct fake_run r;

	fake_start(&f, &(struct fake_opts){ 0 });
	fake_run(&f, ARGV(W("forward"), W("--stdio"), W("box"), W("7")),
		 "SSH-2.0-x", 9, &r);
	T_INT(r.code, 0);
	T_STR((char *)buf_cstr(&r.out), "SSH-2.0-x");
	fake_run_fini(&r);
	fake_run(&f, ARGV(W("forward"), W("--stdio"), W("box"), W("9")), "x", 1,
		 &r);
	T_INT(r.code, 125);
	T_HAS(buf_cstr(&r.err), "nobody listens");
	fake_run_fini(&r);
	fake_stop(&f);
}

TEST(ssh_config_is_a_host_block)
{
	struct fake f;
	struct fake_run r;

	fake_start(&f, &(struct fake_opts){ 0 });
	fake_run(&f, ARGV(W("ssh-config"), W("box")), NULL, 0, &r);
	fake_stop(&f);
	T_INT(r.code, 0);
	T_HAS(buf_cstr(&r.out), "Host box\n");
	T_HAS(buf_cstr(&r.out), "forward --stdio " FAKE_SANDBOX " 22\n");
	fake_run_fini(&r);
}

TEST(a_port_in_use_names_the_way_out)
{
	struct fake f;
	struct fake_run r;
	char spec[32];

	fake_start(&f, &(struct fake_opts){ 0 });
	snprintf(spec, sizeof(spec), "%d:80", f.port);
	fake_run(&f, ARGV(W("forward"), W("box"), spec), NULL, 0, &r);
	fake_stop(&f);
	T_INT(r.code, 125);
	T_HAS(buf_cstr(&r.err), "0:80");
	fake_run_fini(&r);
}
