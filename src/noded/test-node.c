/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/test-node.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"

struct node_answer got = { .fd = -1 };
union node_list listed;
char node_run[256];
int node_sock = -1;

static char lib[256], cgroup[64], nft_path[256];
static pid_t node;
static int node_pidfd = -1;
static uint32_t seq;
static bool in_chroot;

static const char *need_env(const char *name)
{
	const char *v = getenv(name);

	if (!v)
		test_skip("run by `meson test --suite net`: it tells the "
			  "programs' paths");
	return v;
}

static void link_as(const char *target, const char *name)
{
	owned_str path = xasprintf("%s/%s", lib, name);

	unlink(path);
	T_INT(symlink(target, path), 0);
}

/* In a chroot that is no mount itself, the root's propagation cannot be
 * changed: there the folder around the new root becomes a private mount. */
static int keep_mounts_here(void)
{
	const char *around = test_tmpdir();

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		return 0;
	return mount(around, around, NULL, MS_BIND, NULL) < 0
		   ? -1
		   : mount(NULL, around, NULL, MS_PRIVATE, NULL);
}

/* A root like a fresh Debian's, in a plain folder; the caller's mount namespace
 * is its own. */
static int small_root(const char *noded)
{
	static const char *const links[] = { "lib", "lib64", "bin", "sbin" };
	static const char *const rec[] = { "/usr", "/proc", "/sys", "/dev" };
	owned_str root = xasprintf("%s/root", test_tmpdir());
	owned_str build =
	    xstrndup(noded, (size_t)(strrchr(noded, '/') - noded));
	const char *const same[] = { build, test_tmpdir() };
	struct err e = { 0 };

	if (unshare(CLONE_NEWNS) < 0 || keep_mounts_here() < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(rec); i++) {
		owned_str to = xasprintf("%s%s", root, rec[i]);

		if (mkdir_p(to, 0755, &e) < 0 ||
		    mount(rec[i], to, NULL, MS_BIND | MS_REC, NULL) < 0)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		owned_str to = xasprintf("%s%s", root, same[i]);

		if (mkdir_p(to, 0755, &e) < 0 ||
		    mount(same[i], to, NULL, MS_BIND, NULL) < 0)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		owned_str at = xasprintf("%s/%s", root, links[i]);
		owned_str to = xasprintf("usr/%s", links[i]);

		if (symlink(to, at) < 0 && errno != EEXIST)
			return -1;
	}
	{
		owned_str etc = xasprintf("%s/etc", root);
		owned_str passwd = xasprintf("%s/etc/passwd", root);
		const char line[] = "nobody:x:65534:65534::/:/bin/false\n";

		if (mkdir_p(etc, 0755, &e) < 0 ||
		    file_write_atomic(passwd, line, sizeof(line) - 1, 0644,
				      &e) < 0)
			return -1;
	}
	return chroot(root) < 0 || chdir("/") < 0 ? -1 : 0;
}

static pid_t run_in_chroot(const char *const *argv, int ready, int *ret_pidfd)
{
	pid_t pid = fork();

	T_TRUE(pid >= 0);
	if (pid == 0) {
		char fd[32];
		char *const envp[] = { fd, NULL };

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fcntl(ready, F_SETFD, 0);
		snprintf(fd, sizeof(fd), "CAISSON_READY_FD=%d", ready);
		if (small_root(argv[0]) == 0)
			/* execve does not change what it is given */
			execve(argv[0], (char *const *)(uintptr_t)argv, envp);
		_exit(99);
	}
	*ret_pidfd = pidfd_open(pid, 0);
	return pid;
}

static pid_t run_noded(const char *last, int ready, int *ret_pidfd)
{
	const char *argv[] = { need_env("CAISSON_NODED"),
			       "--run",
			       node_run,
			       "--libexec",
			       lib,
			       "--node-user",
			       "nobody",
			       "--qemu",
			       need_env("CAISSON_JAILED"),
			       "--cgroup",
			       cgroup,
			       "--uid-base",
			       "400000",
			       "--nft",
			       nft_path,
			       last,
			       NULL };
	const char *envp[] = { "CAISSON_LOG=error",
			       ready >= 0 ? "CAISSON_READY_FD=3" : NULL, NULL };
	struct spawn s = { .argv = argv,
			   .envp = envp,
			   .exe_fd = -1,
			   .stdio = { -1, 2, 2 },
			   .fds = &ready,
			   .n_fds = ready >= 0,
			   .die_with_parent = true };
	struct err e = { 0 };
	pid_t pid = -1;
	int r;

	if (in_chroot && !last)
		return run_in_chroot(argv, ready, ret_pidfd);
	r = spawn_start(&s, &pid, ret_pidfd, &e);

	if (r < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	return pid;
}

static int wait_for(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	siginfo_t si = { 0 };

	T_INT(poll(&p, 1, 60000), 1);
	T_INT(waitid(P_PIDFD, (id_t)pidfd, &si, WEXITED), 0);
	return si.si_code == CLD_EXITED ? si.si_status : -si.si_status;
}

void node_crash(void)
{
	if (node > 0) {
		kill(node, SIGKILL);
		wait_for(node_pidfd);
	}
	node = 0;
	node_pidfd = fd_close(node_pidfd);
	node_sock = fd_close(node_sock);
	got.fd = fd_close(got.fd);
}

void node_restart(void)
{
	owned_str path = xasprintf("%s/noded.sock", node_run);
	struct err e = { 0 };
	char c = 0;
	int ends[2];

	T_INT(pipe2(ends, O_CLOEXEC), 0);
	node = run_noded(NULL, ends[1], &node_pidfd);
	close(ends[1]);
	if (read(ends[0], &c, 1) != 1)
		c = 0;
	close(ends[0]);
	T_INT(c, '1');
	node_sock = unix_connect(path, SOCK_SEQPACKET, &e);
	T_TRUE(node_sock >= 0);
}

static void cleanup(void)
{
	int pidfd = -1;

	run_noded("--cleanup", -1, &pidfd);
	T_INT(wait_for(pidfd), 0);
	close(pidfd);
}

void node_start_nft(const char *nft)
{
	struct err e = { 0 };

	if (geteuid() != 0)
		test_skip("needs root (namespaces, cgroups)");
	if (access("/dev/net/tun", W_OK) < 0)
		test_skip("no /dev/net/tun here");
	if (node_run[0]) { /* a failed test may have left one */
		node_crash();
		if (access(node_run, F_OK) == 0)
			cleanup();
	}
	snprintf(node_run, sizeof(node_run), "%s/run", test_tmpdir());
	snprintf(lib, sizeof(lib), "%s/lib", test_tmpdir());
	snprintf(cgroup, sizeof(cgroup), "caisson-test-%d", (int)getpid());
	snprintf(nft_path, sizeof(nft_path), "%s", nft);
	T_INT(mkdir_p(lib, 0755, &e), 0);
	link_as(need_env("CAISSON_JAILED"), "caisson-monitor");
	link_as(need_env("CAISSON_TEST_SHIM"), "caisson-shim.so");
	node_restart();
}

void node_start_chroot(void)
{
	in_chroot = true;
	node_start_nft("/usr/sbin/nft");
}

void node_start(void)
{
	in_chroot = false;
	node_start_nft("/usr/sbin/nft");
}

int node_exit_of_second(void)
{
	int pidfd = -1, r;

	run_noded(NULL, -1, &pidfd);
	r = wait_for(pidfd);
	close(pidfd);
	return r;
}

int mounts_below_run(void)
{
	owned_str text = NULL;
	struct err e = { 0 };
	int n = 0;

	T_INT(file_read("/proc/self/mounts", 1 << 20, &text, NULL, &e), 0);
	for (const char *p = text; (p = strstr(p, node_run)); p++)
		n++;
	return n;
}

int cgroups_left(void)
{
	static const char *const roots[] = { "/sys/fs/cgroup/unified",
					     "/sys/fs/cgroup" };
	DIR *d = NULL;
	struct dirent *de;
	int n = 0;

	for (size_t i = 0; i < 2 && !d; i++) {
		owned_str path = xasprintf("%s/%s", roots[i], cgroup);

		d = opendir(path);
	}
	if (!d)
		return -1;
	while ((de = readdir(d)))
		n += strncmp(de->d_name, "slot-", 5) == 0;
	closedir(d);
	return n;
}

void node_end(void)
{
	owned_str slots = xasprintf("%s/slots", node_run);

	node_crash();
	cleanup();
	T_INT(mounts_below_run(), 0);
	T_INT(cgroups_left(), -1);
	T_TRUE(access(slots, F_OK) < 0);
	node_run[0] = 0;
}

static int answer(void)
{
	size_t n_fds = 1;
	struct pollfd p = { .fd = node_sock, .events = POLLIN };

	got.fd = fd_close(got.fd);
	if (poll(&p, 1, 60000) != 1)
		return -ETIME;
	if (channel_recv_fd(node_sock, &got.rep, sizeof(got.rep), &got.fd,
			    &n_fds) != (ssize_t)sizeof(got.rep)) {
		got.fd = -1;
		return -EPIPE;
	}
	if (n_fds == 0)
		got.fd = -1;
	T_INT(got.rep.hdr.seq, seq);
	return got.rep.r;
}

static int send_req(struct noded_req *q, const int *fds, size_t n_fds)
{
	q->hdr.seq = ++seq;
	return channel_send_fd(node_sock, q, sizeof(*q), fds, n_fds);
}

int ask(uint32_t op, uint32_t slot)
{
	struct noded_req q = { .hdr = { .op = op }, .slot = slot };

	T_INT(send_req(&q, NULL, 0), 0);
	return answer();
}

int ask_kill(uint32_t slot, uint32_t who)
{
	struct noded_req q = { .hdr = { .op = NODED_KILL },
			       .slot = slot,
			       .who = who };

	T_INT(send_req(&q, NULL, 0), 0);
	return answer();
}

int ask_list(void)
{
	struct noded_req q = { .hdr = { .op = NODED_LIST } };
	size_t n_fds = 0;
	ssize_t n;

	T_INT(send_req(&q, NULL, 0), 0);
	n = channel_recv_fd(node_sock, &listed, sizeof(listed), NULL, &n_fds);
	T_INT(n, sizeof(struct noded_list) +
		     listed.list.n * sizeof(struct noded_slot));
	return (int)listed.list.n;
}

int argv_fd(const char *words, int seals)
{
	int fd = memfd_create("argv", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char text[512];
	size_t n = strlen(words) + 1;

	T_TRUE(fd >= 0 && n <= sizeof(text));
	memcpy(text, words, n);
	for (size_t i = 0; i < n; i++)
		text[i] = text[i] == ' ' ? 0 : text[i];
	T_INT(write_all(fd, text, n), 0);
	T_INT(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

int ask_vmm_fd(uint32_t slot, int argv, int extra, uint32_t flags)
{
	struct noded_req q = { .hdr = { .op = NODED_SPAWN_VMM },
			       .slot = slot,
			       .engine = NODED_ENGINE_QEMU,
			       .flags = flags,
			       .vcpus = 1,
			       .mem_mib = 64 };
	const int fds[2] = { argv, extra };

	T_INT(send_req(&q, fds, extra >= 0 ? 2 : 1), 0);
	return answer();
}

int ask_vmm(uint32_t slot, const char *words, int extra, uint32_t flags)
{
	owned_fd argv = argv_fd(words, F_SEAL_WRITE | F_SEAL_SHRINK |
					   F_SEAL_GROW | F_SEAL_SEAL);

	return ask_vmm_fd(slot, argv, extra, flags);
}

const char *jailed_says(uint32_t slot, const char *what, int *ret_fd)
{
	static char text[1024];
	owned_str words = xasprintf("jailed %s", what);
	size_t n_fds = 1;
	int sv[2], fd = -1;
	ssize_t n;

	T_INT(ask(NODED_SLOT_CREATE, slot), 0);
	T_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	T_INT(ask_vmm(slot, words, sv[1], 0), 0);
	close(sv[1]);
	n = channel_recv_fd(sv[0], text, sizeof(text) - 1, &fd, &n_fds);
	close(sv[0]);
	T_TRUE(n > 0);
	text[n] = 0;
	if (n_fds && ret_fd)
		*ret_fd = fd;
	else if (n_fds)
		close(fd);
	return text;
}
