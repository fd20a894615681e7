/* SPDX-License-Identifier: Apache-2.0 */
/* storaged end to end: a real one in a forked process on a folder of its own,
 * spoken to over a socketpair. Needs no root. */
#include "storaged/storaged.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/log.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "proto/storaged.h"

#define NO_DIGEST                                                              \
	"00000000000000000000000000000000000000000000000000000000000000ff"
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static char data[256];
static pid_t server;
static int sock = -1, sock2 = -1;
static union {
	struct st_rep rep;
	char mem[CHANNEL_MSG_MAX];
} in;
static int in_fd = -1;
static uint32_t seq;

__attribute__((noreturn)) static void serve(int one, int two, uint64_t floor)
{
	struct storaged_conf conf = { .run = data,
				      .data = data,
				      .floor_bytes = floor };
	struct loop *l = loop_new();
	struct storaged *s = NULL;
	struct err e = { 0 };

	log_init("storaged", LOG_ERROR_);
	signal(SIGALRM, SIG_DFL);
	alarm(120);
	if (storaged_new(l, &conf, &s, &e) < 0)
		_exit(9);
	storaged_serve_take(s, one);
	storaged_serve_take(s, two);
	_exit(loop_run(l));
}

static void stop(void)
{
	if (server > 0) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	server = 0;
	sock = fd_close(sock);
	sock2 = fd_close(sock2);
	in_fd = fd_close(in_fd);
}

static void start_with(uint64_t floor)
{
	int a[2], b[2];

	stop(); /* a failed test may have left one */
	snprintf(data, sizeof(data), "%s/store", test_tmpdir());
	T_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, a), 0);
	T_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, b), 0);
	server = fork();
	T_TRUE(server >= 0);
	if (server == 0) {
		close(a[0]);
		close(b[0]);
		fcntl(a[1], F_SETFL, O_NONBLOCK);
		fcntl(b[1], F_SETFL, O_NONBLOCK);
		serve(a[1], b[1], floor);
	}
	close(a[1]);
	close(b[1]);
	sock = a[0];
	sock2 = b[0];
}

static void start(void)
{
	start_with(0);
}

static void restart(void)
{
	stop();
	start();
}

static int answer(int fd)
{
	size_t n_fds = 1;
	int fds[1] = { -1 };
	ssize_t n;

	in_fd = fd_close(in_fd);
	n = channel_recv_fd(fd, &in, sizeof(in), fds, &n_fds);
	if (n <= 0)
		return -EPIPE;
	T_TRUE((size_t)n >= sizeof(in.rep));
	in_fd = n_fds ? fds[0] : -1;
	return in.rep.r;
}

static int ask(struct st_req *q)
{
	q->hdr.seq = ++seq;
	T_INT(channel_send_fd(sock, q, sizeof(*q), NULL, 0), 0);
	return answer(sock);
}

static struct st_req req(uint32_t op, const char *name, const char *digest)
{
	struct st_req q = { .hdr = { .op = op } };

	snprintf(q.name, sizeof(q.name), "%s", name);
	snprintf(q.digest, sizeof(q.digest), "%s", digest);
	return q;
}

static int named(uint32_t op, const char *name)
{
	struct st_req q = req(op, name, "");

	return ask(&q);
}

static int digested(uint32_t op, const char *digest)
{
	struct st_req q = req(op, "", digest);

	return ask(&q);
}

static uint64_t draft_of(const char *text)
{
	struct st_req q = req(ST_DRAFT_NEW, "", "");

	T_INT(ask(&q), 0);
	T_TRUE(in_fd >= 0);
	T_INT(write_all(in_fd, text, strlen(text)), 0);
	return in.rep.id;
}

static int commit(uint64_t id, const char *expected)
{
	struct st_req q = req(ST_DRAFT_COMMIT, "", expected);

	q.id = id;
	return ask(&q);
}

static void put_abc(void)
{
	T_INT(commit(draft_of("abc"), ""), 0);
	T_STR(in.rep.digest, ABC);
}

static int overlay(const char *name, uint64_t size)
{
	struct st_req q = req(ST_OVERLAY_NEW, name, "");

	q.size = size;
	return ask(&q);
}

static char *blob(const char *digest)
{
	return xasprintf("%s/blobs/sha256/%.2s/%s", data, digest, digest);
}

/* Entries of a folder, without dot files. */
static int count(const char *name)
{
	owned_str path = xasprintf("%s/%s", data, name);
	DIR *d = opendir(path);
	struct dirent *de;
	int n = 0;

	T_TRUE(d);
	while ((de = readdir(d)))
		n += de->d_name[0] != '.';
	closedir(d);
	return n;
}

static void eventually_empty(const char *name)
{
	for (int i = 0; i < 500 && count(name); i++)
		usleep(20000);
	T_INT(count(name), 0);
}

TEST(hello_tells_the_version)
{
	start();
	T_INT(named(ST_HELLO, ""), 0);
	T_INT(in.rep.a, STORAGED_VERSION);
	T_INT(in.rep.hdr.seq, seq);
	stop();
}

TEST(draft_becomes_an_artifact)
{
	start();
	put_abc();
	T_INT(in.rep.size, 3);
	T_INT(digested(ST_STAT, ABC), 0);
	T_INT(in.rep.size, 3);
	eventually_empty("drafts");
	eventually_empty("tmp");
	stop();
}

TEST(artifact_is_served_read_only)
{
	char got[4] = "";

	start();
	put_abc();
	T_INT(digested(ST_OPEN, ABC), 0);
	T_INT(in.rep.size, 3);
	T_INT(pread(in_fd, got, 3, 0), 3);
	T_STR(got, "abc");
	T_INT(fcntl(in_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	T_TRUE(write(in_fd, "x", 1) < 0);
	stop();
}

TEST(artifact_has_mode_0440)
{
	owned_str path = NULL;
	struct stat st;

	start();
	put_abc();
	path = blob(ABC);
	T_INT(stat(path, &st), 0);
	T_INT(st.st_mode & 07777, 0440);
	stop();
}

/* A VMM keeps the descriptor of what it wrote. */
TEST(writer_of_a_draft_cannot_change_the_artifact)
{
	owned_fd kept = -1;
	char got[4] = "";
	uint64_t id;

	start();
	id = draft_of("abc");
	kept = take_fd(&in_fd);
	T_INT(commit(id, ""), 0);
	T_INT(pwrite(kept, "xyz", 3, 0), 3);
	T_INT(digested(ST_OPEN, ABC), 0);
	T_INT(pread(in_fd, got, 3, 0), 3);
	T_STR(got, "abc");
	stop();
}

TEST(expected_digest_is_accepted)
{
	start();
	T_INT(commit(draft_of("abc"), ABC), 0);
	T_STR(in.rep.digest, ABC);
	stop();
}

TEST(other_digest_than_expected_is_refused)
{
	uint64_t id;

	start();
	id = draft_of("abd");
	T_INT(commit(id, ABC), -EBADMSG);
	T_INT(in.rep.kind, ERR_INVALID);
	T_HAS(in.rep.msg, "expected");
	T_INT(digested(ST_STAT, ABC), -ENOENT);
	/* it is still the caller's */
	T_INT(commit(id, ""), 0);
	stop();
}

TEST(same_bytes_twice_are_one_artifact)
{
	struct stat one, two;
	owned_str path = NULL;

	start();
	put_abc();
	path = blob(ABC);
	T_INT(stat(path, &one), 0);
	put_abc();
	T_INT(stat(path, &two), 0);
	T_INT(one.st_ino, two.st_ino);
	stop();
}

TEST(unknown_artifact_is_not_found)
{
	start();
	T_INT(digested(ST_OPEN, NO_DIGEST), -ENOENT);
	T_INT(in.rep.kind, ERR_NOT_FOUND);
	T_INT(digested(ST_STAT, NO_DIGEST), -ENOENT);
	stop();
}

TEST(malformed_digest_is_refused)
{
	start();
	T_INT(digested(ST_OPEN, "../../etc/passwd"), -EINVAL);
	T_INT(digested(ST_OPEN, ""), -EINVAL);
	T_INT(named(ST_HELLO, ""), 0); /* and the connection lives */
	stop();
}

static void flip(const char *digest)
{
	owned_str path = blob(digest);
	owned_fd fd = -1;

	T_INT(chmod(path, 0600), 0);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	T_TRUE(fd >= 0);
	T_INT(pwrite(fd, "b", 1, 0), 1);
	T_INT(chmod(path, 0440), 0);
}

TEST(flipped_artifact_is_refused)
{
	start();
	put_abc();
	flip(ABC);
	T_INT(digested(ST_OPEN, ABC), -EBADMSG);
	T_HAS(in.rep.msg, "quarantine");
	T_TRUE(in_fd < 0);
	stop();
}

TEST(flipped_artifact_goes_to_quarantine)
{
	start();
	put_abc();
	flip(ABC);
	T_INT(digested(ST_OPEN, ABC), -EBADMSG);
	T_INT(count("quarantine"), 1);
	T_INT(digested(ST_OPEN, ABC), -ENOENT);
	stop();
}

TEST(flip_while_down_is_found_after_the_restart)
{
	start();
	put_abc();
	stop();
	flip(ABC);
	start();
	T_INT(digested(ST_OPEN, ABC), -EBADMSG);
	stop();
}

TEST(flipped_artifact_can_be_imported_again)
{
	start();
	put_abc();
	flip(ABC);
	put_abc();
	T_INT(digested(ST_OPEN, ABC), 0);
	stop();
}

TEST(touched_artifact_is_hashed_again_and_served)
{
	owned_str path = NULL;

	start();
	put_abc();
	path = blob(ABC);
	T_INT(chmod(path, 0400), 0); /* changes ctime */
	T_INT(digested(ST_OPEN, ABC), 0);
	T_INT(digested(ST_OPEN, ABC), 0);
	stop();
}

TEST(verdict_outlives_a_restart)
{
	owned_str path = NULL;
	owned_str ok = NULL;
	struct stat st, st2;

	start();
	put_abc();
	path = blob(ABC);
	ok = xasprintf("%s.ok", path);
	T_INT(stat(ok, &st), 0);
	restart();
	T_INT(digested(ST_OPEN, ABC), 0);
	T_INT(stat(ok, &st2), 0);
	T_INT(st.st_ino, st2.st_ino); /* it was not judged anew */
	stop();
}

TEST(lost_or_broken_verdict_is_made_anew)
{
	owned_str path = NULL;
	owned_str ok = NULL;

	start();
	put_abc();
	path = blob(ABC);
	ok = xasprintf("%s.ok", path);
	T_INT(unlink(ok), 0);
	T_INT(digested(ST_OPEN, ABC), 0);
	T_INT(chmod(ok, 0600), 0);
	T_INT(truncate(ok, 5), 0);
	T_INT(digested(ST_OPEN, ABC), 0);
	stop();
}

TEST(many_ask_for_one_unverified_artifact)
{
	owned_str path = NULL;
	struct st_req q = req(ST_OPEN, "", ABC);

	start();
	put_abc();
	path = blob(ABC);
	T_INT(chmod(path, 0400), 0);
	for (int i = 0; i < 8; i++)
		T_INT(channel_send_fd(sock, &q, sizeof(q), NULL, 0), 0);
	for (int i = 0; i < 8; i++) {
		T_INT(answer(sock), 0);
		T_TRUE(in_fd >= 0);
	}
	stop();
}

TEST(symbolic_link_is_no_artifact)
{
	owned_str path = NULL;

	start();
	put_abc();
	path = blob(ABC);
	T_INT(unlink(path), 0);
	T_INT(symlink("/etc/passwd", path), 0);
	T_TRUE(digested(ST_OPEN, ABC) < 0);
	stop();
}

TEST(draft_of_another_connection_is_not_found)
{
	struct st_req q = req(ST_DRAFT_COMMIT, "", "");

	start();
	q.id = draft_of("abc");
	T_INT(channel_send_fd(sock2, &q, sizeof(q), NULL, 0), 0);
	T_INT(answer(sock2), -ENOENT);
	stop();
}

TEST(dropped_draft_is_gone)
{
	struct st_req q = req(ST_DRAFT_DROP, "", "");

	start();
	q.id = draft_of("abc");
	T_INT(ask(&q), 0);
	T_INT(ask(&q), -ENOENT);
	eventually_empty("drafts");
	eventually_empty("trash");
	stop();
}

TEST(drafts_go_with_their_connection)
{
	start();
	draft_of("abc");
	T_INT(count("drafts"), 1);
	sock = fd_close(sock);
	eventually_empty("drafts");
	eventually_empty("trash");
	stop();
}

TEST(drafts_of_one_connection_are_limited)
{
	struct st_req q = req(ST_DRAFT_NEW, "", "");

	start();
	for (int i = 0; i < 64; i++)
		T_INT(ask(&q), 0);
	T_INT(ask(&q), -EBUSY);
	T_INT(in.rep.kind, ERR_EXHAUSTED);
	stop();
}

TEST(leftovers_of_a_crash_are_swept)
{
	owned_str tmp = NULL;
	owned_fd fd = -1;

	start();
	draft_of("abc");
	tmp = xasprintf("%s/tmp/half", data);
	fd = open(tmp, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	T_TRUE(fd >= 0);
	restart();
	T_INT(named(ST_HELLO, ""), 0);
	T_INT(count("drafts"), 0);
	T_INT(count("tmp"), 0);
	stop();
}

TEST(overlay_is_an_empty_qcow2)
{
	char magic[5] = "";

	start();
	T_INT(overlay("sb1", 1 << 30), 0);
	T_INT(pread(in_fd, magic, 4, 0), 4);
	T_TRUE(memcmp(magic, "QFI\xfb", 4) == 0);
	T_INT(fcntl(in_fd, F_GETFL) & O_ACCMODE, O_RDWR);
	stop();
}

TEST(overlay_twice_is_refused)
{
	start();
	T_INT(overlay("sb1", 1 << 30), 0);
	T_INT(overlay("sb1", 1 << 30), -EEXIST);
	T_INT(in.rep.kind, ERR_EXISTS);
	stop();
}

TEST(overlay_of_odd_size_leaves_nothing)
{
	start();
	T_INT(overlay("sb1", 1000), -EINVAL);
	T_INT(count("overlays"), 0);
	stop();
}

TEST(overlay_name_outside_is_refused)
{
	start();
	T_INT(overlay("../x", 1 << 30), -EINVAL);
	T_INT(overlay("a/b", 1 << 30), -EINVAL);
	T_INT(overlay(".hidden", 1 << 30), -EINVAL);
	T_INT(count("overlays"), 0);
	stop();
}

TEST(overlays_are_listed)
{
	start();
	T_INT(overlay("sb1", 1 << 30), 0);
	T_INT(overlay("sb2", 1 << 30), 0);
	T_INT(named(ST_OVERLAY_LIST, ""), 0);
	T_INT(in.rep.a, 2);
	T_INT(in.rep.text_n, 8);
	T_TRUE(strcmp(in.rep.text, "sb1") == 0 ||
	       strcmp(in.rep.text + 4, "sb1") == 0);
	stop();
}

TEST(overlay_outlives_a_restart)
{
	start();
	T_INT(overlay("sb1", 1 << 30), 0);
	restart();
	T_INT(named(ST_OVERLAY_LIST, ""), 0);
	T_INT(in.rep.a, 1);
	stop();
}

TEST(dropping_an_overlay_twice_succeeds)
{
	start();
	T_INT(overlay("sb1", 1 << 30), 0);
	T_INT(named(ST_OVERLAY_DROP, "sb1"), 0);
	T_INT(named(ST_OVERLAY_DROP, "sb1"), 0);
	T_INT(count("overlays"), 0);
	eventually_empty("trash");
	stop();
}

TEST(overlay_becomes_an_artifact)
{
	char digest[ST_DIGEST_MAX];

	start();
	T_INT(overlay("sb1", 1 << 30), 0);
	T_INT(named(ST_OVERLAY_COMMIT, "sb1"), 0);
	snprintf(digest, sizeof(digest), "%s", in.rep.digest);
	T_INT(in.rep.size, 4 * 65536);
	T_INT(digested(ST_OPEN, digest), 0);
	T_INT(count("overlays"), 0);
	stop();
}

TEST(committing_no_overlay_is_not_found)
{
	start();
	T_INT(named(ST_OVERLAY_COMMIT, "sb1"), -ENOENT);
	stop();
}

static int ref_set(const char *name, const char *text)
{
	OWNED(own_free_p) struct st_req *q = NULL;
	size_t n = strlen(text);

	q = xcalloc(1, sizeof(*q) + n);
	*q = req(ST_REF_SET, name, "");
	q->text_n = (uint32_t)n;
	memcpy(q->text, text, n);
	T_INT(channel_send_fd(sock, q, sizeof(*q) + n, NULL, 0), 0);
	return answer(sock);
}

TEST(ref_is_kept_over_a_restart)
{
	start();
	T_INT(ref_set("boot-1", "{\"a\":1}"), 0);
	restart();
	T_INT(named(ST_REF_GET, "boot-1"), 0);
	T_INT(in.rep.text_n, 7);
	T_TRUE(memcmp(in.rep.text, "{\"a\":1}", 7) == 0);
	stop();
}

TEST(ref_is_replaced_whole)
{
	start();
	T_INT(ref_set("boot-1", "a long text"), 0);
	T_INT(ref_set("boot-1", "short"), 0);
	T_INT(named(ST_REF_GET, "boot-1"), 0);
	T_INT(in.rep.text_n, 5);
	stop();
}

TEST(dropped_ref_is_not_found)
{
	start();
	T_INT(ref_set("boot-1", "x"), 0);
	T_INT(named(ST_REF_DROP, "boot-1"), 0);
	T_INT(named(ST_REF_GET, "boot-1"), -ENOENT);
	T_INT(named(ST_REF_DROP, "boot-1"), 0);
	stop();
}

TEST(largest_ref)
{
	char text[ST_REF_MAX + 1];

	start();
	memset(text, 'x', ST_REF_MAX);
	text[ST_REF_MAX] = 0;
	T_INT(ref_set("r", text), 0);
	T_INT(named(ST_REF_GET, "r"), 0);
	T_INT(in.rep.text_n, ST_REF_MAX);
	stop();
}

TEST(space_is_told)
{
	start();
	T_INT(named(ST_SPACE, ""), 0);
	T_TRUE(in.rep.size > 0 && in.rep.a >= in.rep.size);
	stop();
}

TEST(nothing_new_below_the_floor)
{
	struct st_req q = req(ST_DRAFT_NEW, "", "");

	start_with(UINT64_MAX);
	T_INT(overlay("sb1", 1 << 30), -ENOSPC);
	T_INT(in.rep.kind, ERR_EXHAUSTED);
	T_HAS(in.rep.msg, "free some space");
	T_INT(ask(&q), -ENOSPC);
	T_INT(count("overlays"), 0);
	stop();
}

TEST(malformed_message_closes_the_connection)
{
	struct st_req q = req(ST_SPACE, "", "");

	start();
	q.text_n = 5;
	T_INT(ask(&q), -EPIPE);
	stop();
}

TEST(short_message_closes_the_connection)
{
	struct channel_hdr h = { .op = ST_SPACE };

	start();
	T_INT(channel_send_fd(sock, &h, sizeof(h), NULL, 0), 0);
	T_INT(answer(sock), -EPIPE);
	stop();
}

TEST(second_instance_is_refused)
{
	int status;

	start();
	T_INT(named(ST_HELLO, ""), 0);
	sock2 = fd_close(sock2);
	pid_t pid = fork();
	if (pid == 0)
		serve(sock, sock, 0);
	T_INT(waitpid(pid, &status, 0), pid);
	T_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 9);
	T_INT(named(ST_HELLO, ""), 0);
	stop();
}
