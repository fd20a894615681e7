/* SPDX-License-Identifier: Apache-2.0 */
#include "base/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/test.h"

DEFINE_CLEANUP(struct loop, loop_free);
DEFINE_CLEANUP(struct channel, channel_free);

enum { OP_NONE, OP_PING, OP_BLOB, OP_FDS, OP_MAX_ };

struct ping {
	struct channel_hdr hdr;
	uint64_t value;
};

static const struct channel_op table[OP_MAX_] = {
	[OP_PING] = { sizeof(struct ping), sizeof(struct ping), 0, 0 },
	[OP_BLOB] = { 8, CHANNEL_MSG_MAX, 0, 0 },
	[OP_FDS] = { 8, 8, 1, 3 },
};

/* What the tested end saw. */
static struct seen {
	int n_msgs, n_closed;
	struct channel_hdr hdr;
	uint64_t value;
	size_t n, n_fds;
	int kept_fd, first_fd;
	struct err why;
	bool free_in_msg, free_in_close, keep_fd;
} seen;

static void on_msg(struct channel *c, void *msg, size_t n, int *fds,
		   size_t n_fds)
{
	seen.n_msgs++;
	seen.hdr = *(struct channel_hdr *)msg;
	seen.n = n;
	seen.n_fds = n_fds;
	if (seen.hdr.op == OP_PING)
		seen.value = ((struct ping *)msg)->value;
	if (n_fds) {
		seen.first_fd = fds[0];
		if (seen.keep_fd)
			seen.kept_fd = take_fd(&fds[0]);
	}
	if (seen.free_in_msg)
		channel_free(c);
	/* both stay readable, as the contract says */
	T_TRUE(((struct channel_hdr *)msg)->op < OP_MAX_);
}

static void on_close(struct channel *c, const struct err *e)
{
	seen.n_closed++;
	seen.why = *e;
	if (seen.free_in_close)
		channel_free(c);
}

static const struct channel_ops ops = { on_msg, on_close };

/* A channel under test and the raw socket of its peer. */
struct pair {
	struct loop *l;
	struct channel *c;
	int peer;
};

static void pair_open(struct pair *p)
{
	int fds[2];

	memset(&seen, 0, sizeof(seen));
	T_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
			 0, fds),
	      0);
	p->l = loop_new();
	p->c = channel_new_take(p->l, fds[0], table, OP_MAX_, &ops, p);
	p->peer = fds[1];
	T_TRUE(channel_owner(p->c) == p);
	T_INT(channel_fd(p->c), fds[0]);
}

static void pair_close(struct pair *p)
{
	channel_free(p->c);
	fd_close(p->peer);
	loop_free(p->l);
}

static void say(struct pair *p, uint32_t op, size_t n, size_t n_fds)
{
	static union {
		struct channel_hdr hdr;
		char bytes[CHANNEL_MSG_MAX];
	} m;
	int fds[CHANNEL_FDS_MAX];

	m.hdr = (struct channel_hdr){ op, 9 };
	for (size_t i = 0; i < n_fds; i++)
		fds[i] = p->peer;
	T_INT(channel_send_fd(p->peer, &m, n, fds, n_fds), 0);
}

static void turn(struct pair *p)
{
	for (int i = 0; i < 5; i++)
		loop_once(p->l, 0);
}

TEST(channel_delivers_a_message)
{
	struct ping m = { { OP_PING, 77 }, 12345 };
	struct pair p;

	pair_open(&p);
	T_INT(channel_send_fd(p.peer, &m, sizeof(m), NULL, 0), 0);
	turn(&p);
	T_INT(seen.n_msgs, 1);
	T_INT(seen.hdr.seq, 77);
	T_INT(seen.value, 12345);
	T_INT(seen.n_closed, 0);
	pair_close(&p);
}

TEST(channel_sends_a_message)
{
	struct ping m = { { OP_PING, 5 }, 1 }, got = { 0 };
	struct pair p;

	pair_open(&p);
	T_INT(channel_send(p.c, &m, sizeof(m), NULL, 0), 0);
	T_INT(channel_recv_fd(p.peer, &got, sizeof(got), NULL, NULL),
	      sizeof(got));
	T_INT(got.hdr.seq, 5);
	pair_close(&p);
}

TEST(channel_wrong_size_closes_with_a_reason)
{
	struct pair p;

	pair_open(&p);
	say(&p, OP_PING, sizeof(struct ping) - 1, 0);
	turn(&p);
	T_INT(seen.n_msgs, 0);
	T_INT(seen.n_closed, 1);
	T_INT(seen.why.code, -EBADMSG);
	T_STR(seen.why.msg, "operation 1: 15 bytes, expected 16 to 16");
	/* the peer sees the end */
	char c;
	T_INT(read(p.peer, &c, 1), 0);
	pair_close(&p);
}

TEST(channel_unknown_operation_closes)
{
	struct pair p;

	pair_open(&p);
	say(&p, OP_NONE, 8, 0); /* in the table's range, but not allowed */
	turn(&p);
	T_STR(seen.why.msg, "operation 0 is not allowed here");
	pair_close(&p);
	pair_open(&p);
	say(&p, 0xffffffff, 8, 0);
	turn(&p);
	T_INT(seen.n_closed, 1);
	T_INT(seen.n_msgs, 0);
	pair_close(&p);
}

TEST(channel_message_shorter_than_a_header_closes)
{
	struct pair p;

	pair_open(&p);
	say(&p, OP_PING, 7, 0);
	turn(&p);
	T_INT(seen.n_closed, 1);
	T_HAS(seen.why.msg, "shorter than its header");
	pair_close(&p);
}

TEST(channel_too_long_message_closes)
{
	static const struct channel_op small[] = { { 8, 16, 0, 0 } };
	struct channel_hdr m[4] = { { 0, 1 } };
	struct pair p;

	pair_open(&p);
	channel_free(p.c);
	fd_close(p.peer);
	int fds[2];
	T_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	p.peer = fds[1];
	p.c = channel_new_take(p.l, fds[0], small, 1, &ops, &p);
	T_INT(channel_send_fd(p.peer, m, sizeof(m), NULL, 0), 0);
	turn(&p);
	T_INT(seen.n_msgs, 0);
	T_INT(seen.n_closed, 1);
	T_HAS(seen.why.msg, "too large");
	pair_close(&p);
}

/* Lowest free descriptor: tells whether one leaked. */
static int next_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

TEST(channel_wrong_number_of_descriptors_closes_and_leaks_none)
{
	struct pair p;

	for (size_t n = 0; n <= CHANNEL_FDS_MAX; n += 4) { /* 0, 4, ... */
		pair_open(&p);
		int before = next_fd();
		say(&p, OP_FDS, 8, n);
		turn(&p);
		T_INT(seen.n_msgs, 0);
		T_INT(seen.n_closed, 1);
		T_HAS(seen.why.msg, "descriptors, expected 1 to 3");
		/* the channel's own one is closed and free again */
		T_TRUE(next_fd() <= before);
		pair_close(&p);
	}
}

TEST(channel_more_descriptors_than_it_can_take_closes)
{
	union {
		struct cmsghdr align;
		char b[CMSG_SPACE(sizeof(int) * 32)];
	} ctl = { 0 };
	struct channel_hdr m = { OP_FDS, 1 };
	struct iovec iov = { &m, sizeof(m) };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &ctl,
			    .msg_controllen = sizeof(ctl) };
	struct pair p;
	int many[32];

	pair_open(&p);
	for (int i = 0; i < 32; i++)
		many[i] = p.peer;
	ctl.align.cmsg_level = SOL_SOCKET;
	ctl.align.cmsg_type = SCM_RIGHTS;
	ctl.align.cmsg_len = CMSG_LEN(sizeof(many));
	memcpy(CMSG_DATA(&ctl.align), many, sizeof(many));
	int before = next_fd();
	T_INT(sendmsg(p.peer, &h, 0), sizeof(m));
	turn(&p);
	T_INT(seen.n_msgs, 0);
	T_INT(seen.n_closed, 1);
	T_HAS(seen.why.msg, "too many descriptors");
	T_TRUE(next_fd() <= before);
	pair_close(&p);
}

TEST(channel_descriptors_are_closed_unless_taken)
{
	struct pair p;

	pair_open(&p);
	say(&p, OP_FDS, 8, 2);
	turn(&p);
	T_INT(seen.n_msgs, 1);
	T_INT(seen.n_fds, 2);
	T_TRUE(fcntl(seen.first_fd, F_GETFD) < 0);
	seen.keep_fd = true;
	say(&p, OP_FDS, 8, 1);
	turn(&p);
	T_INT(seen.n_msgs, 2);
	T_INT(fcntl(seen.kept_fd, F_GETFD), FD_CLOEXEC);
	close(seen.kept_fd);
	pair_close(&p);
}

TEST(channel_end_of_file_is_no_error)
{
	struct pair p;

	pair_open(&p);
	say(&p, OP_BLOB, 100, 0);
	p.peer = fd_close(p.peer);
	turn(&p);
	T_INT(seen.n_msgs, 1); /* what was sent before is delivered */
	T_INT(seen.n_closed, 1);
	T_INT(seen.why.code, 0);
	T_HAS(seen.why.msg, "closed");
	struct ping m = { { OP_PING, 5 }, 1 };
	T_INT(channel_send(p.c, &m, sizeof(m), NULL, 0), -EPIPE);
	pair_close(&p);
}

TEST(channel_peer_that_dies_with_unread_input_is_heard_out)
{
	struct ping m = { { OP_PING, 5 }, 1 };
	struct pair p;

	/* it answers, then dies without reading what we sent */
	pair_open(&p);
	T_INT(channel_send(p.c, &m, sizeof(m), NULL, 0), 0);
	say(&p, OP_BLOB, 100, 0);
	p.peer = fd_close(p.peer);
	T_INT(channel_send(p.c, &m, sizeof(m), NULL, 0), -EPIPE);
	T_INT(seen.n_closed, 0); /* never from within channel_send */
	turn(&p);
	T_INT(seen.n_msgs, 1);
	T_INT(seen.n_closed, 1);
	T_INT(seen.why.code, 0);
	pair_close(&p);
}

TEST(channel_may_be_freed_in_on_msg)
{
	struct pair p;

	pair_open(&p);
	seen.free_in_msg = true;
	say(&p, OP_FDS, 8, 2);
	say(&p, OP_FDS, 8, 2);
	turn(&p);
	T_INT(seen.n_msgs, 1);
	T_INT(seen.n_closed, 0);
	T_TRUE(fcntl(seen.first_fd, F_GETFD) < 0);
	p.c = NULL;
	pair_close(&p);
}

TEST(channel_may_be_freed_in_on_close)
{
	struct pair p;

	pair_open(&p);
	seen.free_in_close = true;
	p.peer = fd_close(p.peer);
	turn(&p);
	T_INT(seen.n_closed, 1);
	p.c = NULL;
	pair_close(&p);
}

TEST(channel_freed_before_on_close_is_not_called)
{
	struct pair p;

	pair_open(&p);
	say(&p, OP_PING, 3, 0);
	loop_once(p.l, 0); /* dies; on_close is deferred to this round's end */
	T_INT(seen.n_closed, 1);
	pair_close(&p);
	pair_open(&p);
	say(&p, OP_PING, 3, 0);
	p.c = channel_free(p.c);
	turn(&p);
	T_INT(seen.n_closed, 0);
	pair_close(&p);
}

static char blob[60000];

static int fill(struct pair *p, int max)
{
	struct channel_hdr h = { OP_BLOB, 0 };
	int n = 0;

	for (; n < max; n++) {
		h.seq = (uint32_t)n;
		memcpy(blob, &h, sizeof(h));
		if (channel_send(p->c, blob, sizeof(blob), NULL, 0) < 0)
			break;
	}
	return n;
}

TEST(channel_queues_what_the_socket_does_not_take_in_order)
{
	static char got[CHANNEL_MSG_MAX];
	struct channel_hdr h;
	struct pair p;

	pair_open(&p);
	T_INT(fill(&p, 15), 15);
	for (uint32_t i = 0; i < 15; i++) {
		turn(&p); /* lets the queue flow */
		T_INT(channel_recv_fd(p.peer, got, sizeof(got), NULL, NULL),
		      sizeof(blob));
		memcpy(&h, got, sizeof(h));
		T_INT(h.seq, i);
	}
	T_INT(seen.n_closed, 0);
	pair_close(&p);
}

TEST(channel_peer_that_does_not_read_is_cut_off)
{
	struct pair p;
	int n;

	pair_open(&p);
	n = fill(&p, 1000);
	T_TRUE(n >= 16 && n < 100); /* a socket buffer and 1 MiB */
	T_INT(seen.n_closed, 0);
	turn(&p);
	T_INT(seen.n_closed, 1);
	T_INT(seen.why.code, -ENOBUFS);
	T_HAS(seen.why.msg, "does not read");
	T_INT(channel_send(p.c, blob, 8, NULL, 0), -EPIPE);
	pair_close(&p);
}

TEST(channel_queued_descriptors_are_duplicates)
{
	static char got[CHANNEL_MSG_MAX];
	struct channel_hdr h = { OP_FDS, 99 };
	size_t n_fds = 1;
	struct pair p;
	int fd, back = -1, n;

	pair_open(&p);
	n = fill(&p, 12);
	T_INT(n, 12);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	T_INT(channel_send(p.c, &h, sizeof(h), &fd, 1), 0);
	close(fd); /* the caller's: gone before it could be sent */
	for (int i = 0; i < n; i++) {
		T_INT(channel_recv_fd(p.peer, got, sizeof(got), NULL, NULL),
		      sizeof(blob));
		turn(&p);
	}
	T_INT(channel_recv_fd(p.peer, got, sizeof(got), &back, &n_fds), 8);
	T_INT(n_fds, 1);
	T_TRUE(fcntl(back, F_GETFD) >= 0);
	close(back);
	pair_close(&p);
}

TEST(channel_chatterbox_gets_its_turn_only)
{
	struct pair p;

	pair_open(&p);
	for (int i = 0; i < 100; i++)
		say(&p, OP_BLOB, 8, 0);
	loop_once(p.l, 0);
	T_TRUE(seen.n_msgs < 100);
	for (int i = 0; i < 10; i++)
		loop_once(p.l, 0);
	T_INT(seen.n_msgs, 100);
	pair_close(&p);
}

TEST(channel_recv_fd_loses_nothing_silently)
{
	char small[8];
	int fds[2] = { -1, -1 };
	size_t n_fds = 1;
	struct pair p;

	pair_open(&p);
	T_INT(channel_send(p.c, blob, 9, NULL, 0), 0);
	T_INT(channel_recv_fd(p.peer, small, 8, NULL, NULL), -EMSGSIZE);
	fds[0] = fds[1] = p.peer;
	T_INT(channel_send(p.c, blob, 8, fds, 2), 0);
	int before = next_fd();
	T_INT(channel_recv_fd(p.peer, small, 8, fds, &n_fds), -EMSGSIZE);
	T_INT(n_fds, 0);
	T_INT(next_fd(), before);
	p.c = channel_free(p.c);
	T_INT(channel_recv_fd(p.peer, small, 8, NULL, NULL), 0);
	pair_close(&p);
}

TEST(unix_listen_and_connect)
{
	owned_str path = xasprintf("%s/s", test_tmpdir());
	struct err e = { 0 };
	struct ucred who;
	struct stat st;

	/* twice: a stale name is no obstacle */
	for (int i = 0; i < 2; i++) {
		owned_fd l = unix_listen(path, SOCK_SEQPACKET, 0660, &e);
		T_TRUE(l >= 0);
		T_INT(stat(path, &st), 0);
		T_INT(st.st_mode & 07777, 0660);
		owned_fd c = unix_connect(path, SOCK_SEQPACKET, &e);
		T_TRUE(c >= 0);
		owned_fd s = accept4(l, NULL, NULL, SOCK_CLOEXEC);
		T_TRUE(s >= 0);
		T_INT(unix_peer(s, &who), 0);
		T_INT(who.pid, getpid());
		T_INT(who.uid, geteuid());
		T_INT(fcntl(l, F_GETFD), FD_CLOEXEC);
		T_TRUE(fcntl(c, F_GETFL) & O_NONBLOCK);
	}
}

TEST(unix_errors_name_the_path)
{
	struct err e = { 0 };
	char big[200];

	T_INT(unix_connect("/no/such/socket", SOCK_STREAM, &e), -ENOENT);
	T_HAS(e.msg, "connect to /no/such/socket: No such file");
	memset(big, 'a', sizeof(big) - 1);
	big[0] = '/';
	big[sizeof(big) - 1] = 0;
	T_INT(unix_listen(big, SOCK_STREAM, 0600, &e), -ENAMETOOLONG);
	T_HAS(e.msg, "choose a shorter --run directory");
}

TEST(unix_listen_does_not_remove_other_files)
{
	owned_str path = xasprintf("%s/file", test_tmpdir());
	owned_fd fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	struct err e = { 0 };

	T_TRUE(fd >= 0);
	T_INT(unix_listen(path, SOCK_STREAM, 0600, &e), -EADDRINUSE);
	T_INT(access(path, F_OK), 0);
}
