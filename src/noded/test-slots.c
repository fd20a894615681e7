/* SPDX-License-Identifier: Apache-2.0 */
/* Life of slots and jails with a real noded. Root. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/own.h"
#include "base/text.h"
#include "noded/test-node.h"

static bool gone(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 20000) == 1;
}

TEST(hello_tells_the_version)
{
	node_start();
	T_INT(ask(NODED_HELLO, 0), 0);
	T_INT(got.rep.version, NODED_VERSION);
	node_end();
}

TEST(slot_has_a_namespace_and_sockets)
{
	owned_str dir = NULL;
	struct stat st;

	node_start();
	T_INT(ask(NODED_SLOT_CREATE, 3), 0);
	dir = xasprintf("%s/slots/3/netns", node_run);
	T_INT(stat(dir, &st), 0);
	T_INT(st.st_ino, got.rep.netns);
	T_INT(mounts_below_run(), 1);
	T_INT(ask_list(), 1);
	T_INT(listed.list.slots[0].slot, 3);
	T_INT(listed.list.slots[0].state, NODED_SLOT_READY);
	T_INT(listed.list.slots[0].netns, got.rep.netns);
	node_end();
}

TEST(sockets_belong_to_root_and_the_monitors_group)
{
	static const char *const names[] = { "qmp", "chan", "ctl", "serial" };
	struct stat st;

	node_start();
	T_INT(ask(NODED_SLOT_CREATE, 2), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		owned_str p = xasprintf("%s/slots/2/%s", node_run, names[i]);

		T_INT(stat(p, &st), 0);
		T_TRUE(S_ISSOCK(st.st_mode));
		T_INT(st.st_mode & 07777, 0660);
		T_INT(st.st_uid, 0);
		T_INT(st.st_gid, TEST_UID_BASE + 4 * 2 + 1);
	}
	node_end();
}

TEST(slots_have_different_namespaces)
{
	uint64_t one;

	node_start();
	T_INT(ask(NODED_SLOT_CREATE, 0), 0);
	one = got.rep.netns;
	T_INT(ask(NODED_SLOT_CREATE, 1), 0);
	T_TRUE(one != got.rep.netns && one != 0);
	node_end();
}

TEST(slot_in_use_is_refused)
{
	node_start();
	T_INT(ask(NODED_SLOT_CREATE, 0), 0);
	T_INT(ask(NODED_SLOT_CREATE, 0), -EEXIST);
	T_HAS(got.rep.msg, "in use");
	T_INT(ask_list(), 1);
	node_end();
}

TEST(destroyed_slot_leaves_nothing_and_can_be_made_again)
{
	owned_str dir = NULL;

	node_start();
	dir = xasprintf("%s/slots/0", node_run);
	for (int i = 0; i < 3; i++) {
		T_INT(ask(NODED_SLOT_CREATE, 0), 0);
		T_INT(ask(NODED_SLOT_DESTROY, 0), 0);
		T_TRUE(access(dir, F_OK) < 0);
		T_INT(mounts_below_run(), 0);
		T_INT(cgroups_left(), 0);
		T_INT(ask_list(), 0);
	}
	node_end();
}

TEST(destroying_no_slot_succeeds)
{
	node_start();
	T_INT(ask(NODED_SLOT_DESTROY, 9), 0);
	node_end();
}

TEST(asking_for_a_slot_that_is_not_there)
{
	node_start();
	T_INT(ask(NODED_SPAWN_MONITOR, 9), -ENOENT);
	T_INT(ask_vmm(9, "jailed", -1, 0), -ENOENT);
	T_INT(ask_kill(9, NODED_WHO_ALL), -ENOENT);
	node_end();
}

TEST(missing_nft_fails_the_create_and_leaves_nothing)
{
	node_start_nft("/nonexistent/nft");
	T_TRUE(ask(NODED_SLOT_CREATE, 0) < 0);
	T_HAS(got.rep.msg, "nft");
	T_INT(ask_list(), 0);
	T_INT(cgroups_left(), 0);
	T_INT(mounts_below_run(), 0);
	node_end();
}

TEST(failing_nft_fails_the_create)
{
	node_start_nft("/usr/bin/false");
	T_TRUE(ask(NODED_SLOT_CREATE, 0) < 0);
	T_HAS(got.rep.msg, "network rules");
	T_INT(ask_list(), 0);
	node_end();
}

TEST(vmm_has_its_uid_and_nothing_else)
{
	const char *t;

	node_start();
	t = jailed_says(1, "facts", NULL);
	T_HAS(t, "uid=400004 gid=400004 groups=0 pid=1 caps=0 nnp=1 ");
	T_HAS(t, " setuid=1 "); /* EPERM */
	T_HAS(t, " ppid=0");
	node_end();
}

TEST(vmm_has_exactly_its_descriptors)
{
	node_start();
	T_HAS(jailed_says(1, "facts", NULL), " fds=8 core=1 ");
	node_end();
}

TEST(vmm_sees_an_empty_read_only_root)
{
	const char *t;

	node_start();
	t = jailed_says(1, "facts", NULL);
	T_HAS(t, " proc=0 etc=0 sys=0 ");
	T_HAS(t, " kvm=0 mkroot=30 mkusr=30 "); /* EROFS */
	T_HAS(t, " shim=1 null=0 urandom=0 slot=0 ");
	node_end();
}

TEST(vmm_is_outside_of_the_slots_network)
{
	node_start();
	T_HAS(jailed_says(1, "facts", NULL), " tap0=0 ");
	node_end();
}

TEST(vmm_can_fill_its_stderr_and_no_more)
{
	node_start();
	T_HAS(jailed_says(1, "flood", NULL), "wrote=163");
	node_end();
}

TEST(list_tells_the_vmm)
{
	node_start();
	jailed_says(1, "facts", NULL);
	T_INT(ask_list(), 1);
	T_INT(listed.list.slots[0].vmm_pid, got.rep.pid);
	T_INT(listed.list.slots[0].monitor_pid, 0);
	node_end();
}

TEST(second_vmm_in_a_slot_is_refused)
{
	node_start();
	jailed_says(1, "facts", NULL);
	T_INT(ask_vmm(1, "jailed facts", -1, 0), -EALREADY);
	T_HAS(got.rep.msg, "destroy it");
	node_end();
}

TEST(unsealed_command_line_is_refused)
{
	owned_fd argv = -1;

	node_start();
	argv = argv_fd("jailed facts", F_SEAL_WRITE);
	T_INT(ask(NODED_SLOT_CREATE, 0), 0);
	T_INT(ask_vmm_fd(0, argv, -1, 0), -EPERM);
	T_HAS(got.rep.msg, "seals");
	T_TRUE(got.fd < 0);
	node_end();
}

TEST(command_line_that_is_no_memfd_is_refused)
{
	owned_fd argv = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

	node_start();
	T_INT(ask(NODED_SLOT_CREATE, 0), 0);
	T_INT(ask_vmm_fd(0, argv, -1, 0), -EPERM);
	T_INT(ask(NODED_SLOT_DESTROY, 0), 0);
	node_end();
}

TEST(vmm_that_ends_is_seen_by_its_pidfd)
{
	owned_fd pidfd = -1;

	node_start();
	T_INT(ask(NODED_SLOT_CREATE, 0), 0);
	T_INT(ask_vmm(0, "jailed exit", -1, 0), 0);
	pidfd = take_fd(&got.fd);
	T_TRUE(pidfd >= 0 && gone(pidfd));
	for (int i = 0; i < 500; i++) {
		T_INT(ask_list(), 1);
		if (listed.list.slots[0].vmm_pid == 0)
			break;
		usleep(10000);
	}
	T_INT(listed.list.slots[0].vmm_pid, 0);
	node_end();
}

TEST(kill_takes_everything_that_a_vmm_forked)
{
	owned_fd pidfd = -1;

	node_start();
	jailed_says(1, "forks", NULL);
	pidfd = take_fd(&got.fd);
	T_INT(ask_kill(1, NODED_WHO_MONITOR), 0);
	T_INT(ask_kill(1, NODED_WHO_VMM), 0);
	T_TRUE(gone(pidfd));
	T_INT(ask(NODED_SLOT_DESTROY, 1), 0);
	T_INT(cgroups_left(), 0);
	node_end();
}

TEST(destroy_kills_a_living_vmm)
{
	owned_fd pidfd = -1;

	node_start();
	jailed_says(1, "forks", NULL);
	pidfd = take_fd(&got.fd);
	T_INT(ask(NODED_SLOT_DESTROY, 1), 0);
	T_TRUE(gone(pidfd));
	T_INT(ask_list(), 0);
	node_end();
}

static const char *monitor_says(unsigned slot)
{
	static char text[1024];
	owned_str path = xasprintf("%s/slots/%u/mon", node_run, slot);
	struct err e = { 0 };
	size_t n_fds = 0;
	owned_fd fd = unix_connect(path, SOCK_SEQPACKET, &e);
	ssize_t n;

	T_STR(fd < 0 ? e.msg : "", "");
	n = channel_recv_fd(fd, text, sizeof(text) - 1, NULL, &n_fds);
	T_TRUE(n > 0);
	text[n] = 0;
	return text;
}

TEST(monitor_reaches_the_sockets_of_its_slot)
{
	const char *t;

	node_start();
	T_INT(ask(NODED_SLOT_CREATE, 2), 0);
	T_INT(ask(NODED_SPAWN_MONITOR, 2), 0);
	T_TRUE(got.fd >= 0);
	t = monitor_says(2);
	T_HAS(t, "uid=400009 gid=400009 groups=0 pid=1 caps=0 nnp=1 ");
	T_HAS(t, " slot=1 ");
	T_HAS(t, " argv=2,--node-uid,65534 qmp=0 chan=0 mkslot=30");
	node_end();
}

TEST(monitor_socket_is_for_the_node_user_alone)
{
	owned_str path = NULL;
	struct stat st;

	node_start();
	T_INT(ask(NODED_SLOT_CREATE, 2), 0);
	T_INT(ask(NODED_SPAWN_MONITOR, 2), 0);
	path = xasprintf("%s/slots/2/mon", node_run);
	T_INT(stat(path, &st), 0);
	T_INT(st.st_mode & 07777, 0600);
	T_INT(st.st_uid, 65534);
	node_end();
}

TEST(monitor_is_replaced_after_its_end)
{
	owned_fd pidfd = -1;
	int r = -EEXIST;

	node_start();
	T_INT(ask(NODED_SLOT_CREATE, 2), 0);
	T_INT(ask(NODED_SPAWN_MONITOR, 2), 0);
	pidfd = take_fd(&got.fd);
	T_INT(ask(NODED_SPAWN_MONITOR, 2), -EEXIST);
	T_INT(ask_kill(2, NODED_WHO_MONITOR), 0);
	T_TRUE(gone(pidfd));
	for (int i = 0; i < 500 && r == -EEXIST; i++) {
		r = ask(NODED_SPAWN_MONITOR, 2);
		usleep(1000);
	}
	T_INT(r, 0);
	T_HAS(monitor_says(2), " qmp=0 ");
	node_end();
}

TEST(slot_with_a_vmm_is_adopted_after_a_crash)
{
	uint64_t netns;
	pid_t pid;

	node_start();
	jailed_says(1, "facts", NULL);
	pid = got.rep.pid;
	T_INT(ask_list(), 1);
	netns = listed.list.slots[0].netns;
	node_crash();
	node_restart();
	T_INT(ask_list(), 1);
	T_INT(listed.list.slots[0].slot, 1);
	T_INT(listed.list.slots[0].state, NODED_SLOT_READY);
	T_INT(listed.list.slots[0].vmm_pid, pid);
	T_INT(listed.list.slots[0].netns, netns);
	T_INT(ask(NODED_SPAWN_MONITOR, 1), 0);
	T_INT(ask(NODED_SLOT_DESTROY, 1), 0);
	T_INT(ask_list(), 0);
	node_end();
}

TEST(slot_without_a_vmm_is_removed_after_a_crash)
{
	node_start();
	T_INT(ask(NODED_SLOT_CREATE, 1), 0);
	node_crash();
	node_restart();
	for (int i = 0; i < 500 && ask_list(); i++)
		usleep(10000);
	T_INT(ask_list(), 0);
	T_INT(mounts_below_run(), 0);
	T_INT(cgroups_left(), 0);
	node_end();
}

TEST(half_built_slot_is_removed_at_start)
{
	owned_str dir = NULL;

	node_start();
	node_crash();
	dir = xasprintf("%s/slots/7", node_run);
	T_INT(mkdir(dir, 0700), 0);
	node_restart();
	for (int i = 0; i < 500 && ask_list(); i++)
		usleep(10000);
	T_TRUE(access(dir, F_OK) < 0);
	node_end();
}

TEST(second_instance_is_refused)
{
	node_start();
	T_INT(node_exit_of_second(), 1);
	T_INT(ask(NODED_HELLO, 0), 0);
	node_end();
}

TEST(malformed_request_closes_the_connection)
{
	node_start();
	T_INT(ask(NODED_SLOT_CREATE, NODED_SLOTS_MAX), -EPIPE);
	node_end();
}

TEST(unknown_operation_closes_the_connection)
{
	node_start();
	T_INT(ask(NODED_OP_MAX_, 0), -EPIPE);
	node_end();
}

TEST(descriptors_where_none_belong_close_the_connection)
{
	struct noded_req q = { .hdr = { .op = NODED_SLOT_CREATE } };
	const int fds[1] = { 0 };
	char c;
	size_t n_fds = 0;

	node_start();
	T_INT(channel_send_fd(node_sock, &q, sizeof(q), fds, 1), 0);
	T_TRUE(channel_recv_fd(node_sock, &c, 1, NULL, &n_fds) <= 0);
	node_end();
}

/* The answer's addressee is gone; the slot is there for who asks next. */
TEST(client_that_leaves_in_the_middle)
{
	struct noded_req q = { .hdr = { .op = NODED_SLOT_CREATE }, .slot = 4 };
	owned_str path = NULL;
	struct err e = { 0 };

	node_start();
	T_INT(channel_send_fd(node_sock, &q, sizeof(q), NULL, 0), 0);
	node_sock = fd_close(node_sock);
	path = xasprintf("%s/noded.sock", node_run);
	node_sock = unix_connect(path, SOCK_SEQPACKET, &e);
	T_TRUE(node_sock >= 0);
	T_INT(ask(NODED_SLOT_DESTROY, 4), 0);
	T_INT(ask_list(), 0);
	node_end();
}

TEST(destroy_follows_a_create_in_flight)
{
	struct noded_req q = { .hdr = { .op = NODED_SLOT_CREATE }, .slot = 4 };
	struct noded_rep rep;
	size_t n_fds = 0;

	node_start();
	T_INT(channel_send_fd(node_sock, &q, sizeof(q), NULL, 0), 0);
	q.hdr.op = NODED_SLOT_DESTROY;
	T_INT(channel_send_fd(node_sock, &q, sizeof(q), NULL, 0), 0);
	T_INT(channel_recv_fd(node_sock, &rep, sizeof(rep), NULL, &n_fds),
	      sizeof(rep));
	T_INT(rep.hdr.op, NODED_SLOT_CREATE);
	T_INT(channel_recv_fd(node_sock, &rep, sizeof(rep), NULL, &n_fds),
	      sizeof(rep));
	T_INT(rep.hdr.op, NODED_SLOT_DESTROY);
	T_INT(rep.r, 0);
	T_INT(ask_list(), 0);
	node_end();
}

TEST(many_slots_at_once)
{
	node_start();
	for (unsigned i = 0; i < 16; i++)
		T_INT(ask(NODED_SLOT_CREATE, i), 0);
	T_INT(ask_list(), 16);
	for (unsigned i = 0; i < 16; i++)
		T_INT(ask(NODED_SLOT_DESTROY, i), 0);
	T_INT(ask_list(), 0);
	node_end();
}

/* Each slot adds descriptors to noded; at one count or another they meet every
 * number that the child's arrangement uses. */
TEST(a_process_is_complete_however_many_slots_there_are)
{
	node_start();
	for (unsigned i = 0; i < 40; i++)
		T_HAS(jailed_says(i, "facts", NULL), " fds=8 ");
	T_INT(ask_list(), 40);
	node_end();
}

/* Where a chroot is no mount, neither pivot_root nor a change of propagation
 * works from within it. */
TEST(everything_works_in_a_chroot)
{
	const char *t;

	node_start_chroot();
	t = jailed_says(1, "facts", NULL);
	T_HAS(t, " caps=0 nnp=1 ");
	T_HAS(t, " proc=0 etc=0 sys=0 ");
	T_HAS(t, " mkroot=30 mkusr=30 ");
	T_INT(ask(NODED_SPAWN_MONITOR, 1), 0);
	T_HAS(monitor_says(1), " qmp=0 chan=0 mkslot=30");
	T_INT(ask(NODED_SLOT_DESTROY, 1), 0);
	node_end();
}
