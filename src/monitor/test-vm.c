/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "monitor/test-vm-rig.h"
#include "net/json.h"
#include "vmm/qmp.h"

static bool has_base;

/* The checkpoint that all tests restore: made once, by the first. */
static void need_base(void)
{
	struct rig r;

	rig_need();
	if (has_base)
		return;
	rig_start(&r, VM_BOOT, NULL);
	rig_boot(&r, "base.disk");
	rig_renew_open(&r, "sb");
	rig_data(&r);
	T_STR(rig_out(&r, "echo kept > /root/kept; sync; echo $((6*7))"),
	      "42\n");
	rig_save(&r, "base");
	T_TRUE(r.rep.mem_bytes > 1 << 20);
	printf("# memory image: %llu KiB\n",
	       (unsigned long long)r.rep.mem_bytes / 1024);
	rig_ask(&r, MON_QUIT, NULL, 0);
	T_INT(r.rep.r, 0);
	rig_stop(&r);
	has_base = true;
}

static void restored(struct rig *r, const char *overlay)
{
	need_base();
	rig_start(r, VM_INCOMING, NULL);
	rig_load(r, "base", overlay);
}

TEST(boot_and_save)
{
	need_base();
}

TEST(restore_renew_open_exec)
{
	struct rig r;

	restored(&r, "o1");
	rig_renew_open(&r, "sb");
	rig_print_times("open", &r.rep.times);
	rig_data(&r);
	T_STR(rig_out(&r, "cat /root/kept; hostname"), "kept\nbox\n");
	rig_sh(&r, "echo x >&2; exit 3");
	T_HAS(r.body, "\"s\":2");
	T_HAS(r.body, "\"code\":3");
	T_HAS(r.body, "\"started\":{");
	rig_stop(&r);
}

static int by_value(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Shown, not judged: what a create costs in here. */
TEST(restore_times)
{
	enum { ROUNDS = 11 };
	uint32_t total[ROUNDS], connect[ROUNDS], renew[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		struct rig r;
		struct mon_times t;

		restored(&r, "times");
		t = r.rep.times;
		connect[i] = t.connect_us;
		total[i] =
		    t.map_us + t.disk_us + t.load_us + t.cont_us + t.connect_us;
		rig_ask(&r, MON_RENEW, NULL, 0);
		T_INT(r.rep.r, 0);
		renew[i] = r.rep.times.renew_us;
		rig_ask(&r, MON_OPEN, NULL, 0);
		T_INT(r.rep.r, 0);
		total[i] += renew[i] + r.rep.times.thaw_us;
		rig_stop(&r);
	}
	qsort(total, ROUNDS, sizeof(total[0]), by_value);
	qsort(connect, ROUNDS, sizeof(connect[0]), by_value);
	qsort(renew, ROUNDS, sizeof(renew[0]), by_value);
	printf("# load + renew + open: min %u p50 %u max %u us; connect min %u "
	       "p50 %u; renew min %u p50 %u\n",
	       total[0], total[ROUNDS / 2], total[ROUNDS - 1], connect[0],
	       connect[ROUNDS / 2], renew[0], renew[ROUNDS / 2]);
}

TEST(a_warm_vm_waits_stopped_and_opens_soon)
{
	struct rig r;
	uint32_t us;

	need_base();
	rig_start(&r, VM_INCOMING, NULL);
	r.flags = MON_WARM;
	rig_load(&r, "base", "warm");
	/* longer than a round of anything that might wake it */
	for (int i = 0; i < 30; i++)
		loop_once(r.loop, 10);
	rig_ask(&r, MON_STATUS, NULL, 0);
	T_INT(r.rep.phase, MON_CONNECTED);
	rig_ask(&r, MON_OPEN, NULL, 0);
	T_INT(r.rep.r, -EPERM); /* the trial is no confirmation */
	rig_ask(&r, MON_RENEW, NULL, 0);
	T_INT(r.rep.r, 0);
	us =
	    r.rep.times.cont_us + r.rep.times.connect_us + r.rep.times.renew_us;
	rig_ask(&r, MON_OPEN, NULL, 0);
	T_INT(r.rep.r, 0);
	printf("# warm: renew + open: %u us\n", us + r.rep.times.thaw_us);
	rig_data(&r);
	T_STR(rig_out(&r, "hostname; cat /root/kept"), "box\nkept\n");
	rig_stop(&r);
}

static void start_probed(struct rig *r, const char *name, const char *overlay)
{
	rig_start(r, VM_INCOMING, NULL);
	r->flags = MON_WARM | MON_PROBE;
	rig_try_load(r, name, overlay);
}

/* As a claim does. */
static void claim_probed(struct rig *r, const char *sandbox)
{
	T_INT(r->rep.r, 0);
	T_INT(r->rep.phase, MON_CONNECTED);
	rig_ask(r, MON_OPEN, NULL, 0);
	T_INT(r->rep.r, -EPERM); /* nobody's renewal opens nothing */
	rig_renew_open(r, sandbox);
	rig_data(r);
}

/* What tells one life from another. */
static const char *traits(struct rig *r)
{
	return rig_out(r, "cat /proc/sys/kernel/random/uuid; "
			  "cat /etc/machine-id; "
			  "cat /proc/sys/net/ipv4/ip_local_port_range");
}

TEST(a_probed_vm_keeps_nothing_of_nobodys_life)
{
	char first[512];
	struct rig a, b;

	need_base();
	start_probed(&a, "base", "pa");
	start_probed(&b, "base", "pb");
	claim_probed(&a, "sb");
	rig_http(&a, "GET", "/v1/execs", NULL);
	T_INT(a.status, 200);
	T_TRUE(!strstr(a.body, "ex_00000000"));
	rig_http(&a, "GET", "/v1/execs/ex_0000000000000000000000000000", NULL);
	T_INT(a.status, 404);
	T_STR(rig_out(&a, "hostname; cat /root/kept"), "box\nkept\n");
	T_STR(rig_out(&a,
		      "grep -l waiting /etc/hosts /etc/hostname "
		      "/etc/machine-id /proc/sys/kernel/hostname 2>/dev/null; "
		      "ls -d /sys/fs/cgroup/*/ex_0000* "
		      "/sys/fs/cgroup/*/*/ex_0000* 2>/dev/null; true"),
	      "");
	snprintf(first, sizeof(first), "%s", traits(&a));
	claim_probed(&b, "sb");
	T_TRUE(strcmp(first, traits(&b)) != 0);
	rig_stop(&a);
	rig_stop(&b);
}

TEST(a_probed_vm_runs_its_first_command_soon)
{
	uint64_t t;
	struct rig r;

	need_base();
	start_probed(&r, "base", "pc");
	claim_probed(&r, "sb");
	t = now_mono_us();
	rig_sh(&r, "true");
	printf("# probed: first command: %llu us\n",
	       (unsigned long long)(now_mono_us() - t));
	T_HAS(r.body, "\"code\":0");
	rig_stop(&r);
}

TEST(a_guest_that_fails_its_trial_is_gone)
{
	struct rig r;

	need_base();
	rig_start(&r, VM_BOOT, NULL);
	rig_boot(&r, "bad.disk");
	rig_renew_open(&r, "sb");
	rig_data(&r);
	rig_sh(&r, "mv /bin/sh /bin/gone");
	rig_save(&r, "bad");
	rig_ask(&r, MON_QUIT, NULL, 0);
	rig_stop(&r);
	start_probed(&r, "bad", "pd");
	T_TRUE(r.rep.r < 0);
	T_HAS(r.rep.msg, "the trial of the guest failed");
	T_INT(r.rep.phase, MON_GONE);
	rig_stop(&r);
}

TEST(restores_are_not_twins)
{
	char first[512];
	struct rig a, b;

	restored(&a, "o2a");
	rig_renew_open(&a, "sb");
	rig_data(&a);
	snprintf(first, sizeof(first), "%s",
		 rig_out(&a, "cat /proc/sys/kernel/random/uuid; "
			     "cat /etc/machine-id; "
			     "cat /proc/sys/net/ipv4/ip_local_port_range"));
	restored(&b, "o2b");
	rig_renew_open(&b, "sb");
	rig_data(&b);
	T_TRUE(strcmp(first, rig_out(&b, "cat /proc/sys/kernel/random/uuid; "
					 "cat /etc/machine-id; "
					 "cat /proc/sys/net/ipv4/"
					 "ip_local_port_range")) != 0);
	rig_stop(&a);
	rig_stop(&b);
}

TEST(a_guest_changes_neither_base_nor_sibling)
{
	uint64_t mem, root;
	struct rig a, b;

	need_base();
	mem = rig_sum("base.mem");
	root = rig_sum("base.disk");
	restored(&a, "o3a");
	restored(&b, "o3b");
	rig_renew_open(&a, "sb");
	rig_renew_open(&b, "sb");
	rig_data(&a);
	rig_data(&b);
	rig_sh(&a, "dd if=/dev/urandom of=/tmp/x bs=1M count=20; rm -f "
		   "/bin/cat; echo 3 > /proc/sys/vm/drop_caches");
	T_STR(rig_out(&b, "cat /root/kept"), "kept\n");
	T_TRUE(rig_sum("base.mem") == mem);
	T_TRUE(rig_sum("base.disk") == root);
	rig_stop(&a);
	rig_stop(&b);
}

TEST(data_waits_for_open)
{
	struct rig r;

	restored(&r, "o4");
	rig_data(&r);
	rig_http(&r, "GET", "/v1/metrics", NULL);
	T_INT(r.status, 409);
	T_HAS(r.body, "wrong_state");
	rig_renew_open(&r, "sb");
	rig_http(&r, "GET", "/v1/metrics", NULL);
	T_INT(r.status, 200);
	T_HAS(r.body, "mem_total_bytes");
	rig_stop(&r);
}

TEST(control_calls_are_out_of_reach)
{
	struct rig r;

	restored(&r, "o5");
	rig_renew_open(&r, "sb");
	rig_data(&r);
	rig_http(&r, "GET", "/g1/hello", NULL);
	T_INT(r.status, 404);
	rig_http(&r, "POST", "/g1/freeze", "{\"nonce\":\"x\"}");
	T_INT(r.status, 404);
	rig_http(&r, "GET", "/v1/execs/ex_0123456789abcdefghijklmnopqr", NULL);
	T_INT(r.status, 404);
	T_HAS(r.body, "\"cause\":\"guest\"");
	rig_stop(&r);
}

TEST(files_go_in_and_out_whole)
{
	static uint8_t big[3 << 20];
	struct rig r;

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 2654435761u >> 13);
	restored(&r, "o6");
	rig_renew_open(&r, "sb");
	rig_data(&r);
	rig_put(&r, "/v1/files?path=/root/big&mode=600", big, sizeof(big));
	T_INT(r.status, 201);
	T_HAS(rig_out(&r, "wc -c < /root/big; stat -c %a /root/big"),
	      "3145728\n600\n");
	rig_http(&r, "GET", "/v1/files?path=/root/kept", NULL);
	T_INT(r.status, 200);
	T_STR(r.body, "kept\n");
	rig_stop(&r);
}

TEST(the_network_card_is_the_shapes)
{
	struct rig r;

	restored(&r, "o14");
	if (!rig_has_taps()) {
		rig_stop(&r);
		test_skip("no right to make a tap");
	}
	rig_renew_open(&r, "sb");
	rig_data(&r);
	T_STR(rig_out(&r, "cat /sys/class/net/eth0/address "
			  "/sys/class/net/eth0/mtu"),
	      "02:00:00:00:00:02\n60000\n");
	rig_stop(&r);
}

TEST(a_killed_vmm_is_reported)
{
	struct rig r;

	restored(&r, "o7");
	kill(r.vmm, SIGKILL);
	rig_wait_gone(&r);
	T_INT(r.gone.reason, MON_REASON_VMM_EXIT);
	rig_ask(&r, MON_RENEW, NULL, 0);
	T_INT(r.rep.r, -EPERM);
	T_INT(r.rep.phase, MON_GONE);
	rig_stop(&r);
}

TEST(a_panic_is_reported)
{
	struct rig r;

	restored(&r, "o8");
	rig_renew_open(&r, "sb");
	rig_data(&r);
	rig_put(&r, "/v1/files?path=/root/p", "x", 1);
	rig_http(&r, "POST", "/v1/execs",
		 "{\"id\":\"ex_0123456789abcdefghijklmnopqr\",\"stdin\":false,"
		 "\"start\":\"now\",\"shell\":\"sleep 0.2; echo c > "
		 "/proc/sysrq-trigger\"}");
	rig_wait_gone(&r);
	T_INT(r.gone.reason, MON_REASON_GUEST_PANIC);
	rig_stop(&r);
}

TEST(a_shutdown_is_reported)
{
	struct rig r;

	restored(&r, "o9");
	rig_renew_open(&r, "sb");
	rig_data(&r);
	rig_http(&r, "POST", "/v1/execs",
		 "{\"id\":\"ex_0123456789abcdefghijklmnopqr\",\"stdin\":false,"
		 "\"start\":\"now\",\"shell\":\"sleep 0.2; echo o > "
		 "/proc/sysrq-trigger; echo b "
		 "> /proc/sysrq-trigger\"}");
	rig_wait_gone(&r);
	T_INT(r.gone.reason, MON_REASON_GUEST_SHUTDOWN);
	rig_stop(&r);
}

TEST(the_monitor_outlives_its_asker)
{
	struct rig r;

	restored(&r, "o10");
	rig_renew_open(&r, "sb");
	rig_data(&r);
	r.chan = channel_free(r.chan);
	T_STR(rig_out(&r, "echo still"), "still\n");
	rig_connect(&r);
	rig_ask(&r, MON_STATUS, NULL, 0);
	T_INT(r.rep.r, 0);
	T_INT(r.rep.phase, MON_OPENED);
	rig_stop(&r);
}

TEST(quit_ends_the_vmm)
{
	struct rig r;

	restored(&r, "o11");
	rig_ask(&r, MON_QUIT, NULL, 0);
	T_INT(r.rep.r, 0);
	T_INT(r.rep.phase, MON_GONE);
	rig_wait_gone(&r);
	T_INT(r.gone.reason, MON_REASON_REQUEST);
	rig_stop(&r);
}

TEST(requests_out_of_order_are_refused)
{
	struct rig r;
	int fds[2];

	restored(&r, "o12");
	rig_ask(&r, MON_OPEN, NULL, 0);
	T_INT(r.rep.r, -EPERM);
	fds[0] = rig_open("none", O_RDWR | O_CREAT);
	fds[1] = fds[0];
	rig_ask(&r, MON_SAVE, fds, 2);
	T_INT(r.rep.r, -EPERM);
	T_INT(r.rep.phase, MON_CONNECTED);
	close(fds[0]);
	rig_stop(&r);
}

/* A load that must fail: which of the files is wrong? */
static void broken_load(const char *state, const char *mem)
{
	struct rig r;
	int fds[4];

	need_base();
	rig_start(&r, VM_INCOMING, NULL);
	fds[0] = rig_open(state, O_RDONLY);
	fds[1] = rig_open(mem, O_RDONLY);
	fds[2] = open(rig_artifact("root.ext4"), O_RDONLY | O_CLOEXEC);
	fds[3] = rig_overlay("o13");
	rig_ask(&r, MON_LOAD, fds, 4);
	T_TRUE(r.rep.r < 0);
	T_INT(r.rep.phase, MON_GONE);
	printf("# %s\n", r.rep.msg);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	rig_stop(&r);
}

TEST(a_broken_state_does_not_load)
{
	int fd;

	need_base();
	fd = rig_open("bad.state", O_RDWR | O_CREAT);
	T_INT(write(fd, "not a state", 11), 11);
	close(fd);
	broken_load("bad.state", "base.mem");
}

TEST(a_base_of_the_wrong_size_does_not_load)
{
	int fd;

	need_base();
	fd = rig_open("short.mem", O_RDWR | O_CREAT);
	T_INT(ftruncate(fd, 1 << 20), 0);
	close(fd);
	broken_load("base.state", "short.mem");
}

/* ---- a balloon in one guest ---- */

struct ask {
	bool over, ready;
};

static void on_q_ready(struct qmp *q)
{
	((struct ask *)qmp_owner(q))->ready = true;
}
static void on_q_event(struct qmp *q, const char *name, json_t *data)
{
	(void)q;
	(void)name;
	(void)data;
}
static void on_q_close(struct qmp *q, const struct err *e)
{
	(void)e;
	((struct ask *)qmp_owner(q))->over = true;
}
static void on_q_done(void *arg, json_t *ret, const struct err *e)
{
	(void)ret;
	((struct ask *)arg)->over = !e;
}

static void inflate(struct rig *r, int64_t target)
{
	static const struct qmp_ops q_ops = { on_q_ready, on_q_event,
					      on_q_close };
	struct ask a = { 0 };
	json_t *args = json_object();
	struct qmp *q;
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/qmp2", r->dir);
	fd = unix_connect(path, SOCK_STREAM, NULL);
	T_TRUE(fd >= 0);
	q = qmp_new_take(r->loop, fd, &q_ops, &a);
	for (int i = 0; i < 500 && !a.ready; i++)
		loop_once(r->loop, 20);
	json_set_take(args, "value", json_integer(target));
	T_INT(qmp_call(q, "balloon", args, -1, 10000, on_q_done, &a), 0);
	for (int i = 0; i < 500 && !a.over; i++)
		loop_once(r->loop, 20);
	T_TRUE(a.over);
	qmp_free(q);
}

#define BALLOON "virtio-balloon-device,id=balloon"

static void balloon_base(const void *module, size_t n)
{
	struct rig r;

	rig_start(&r, VM_BOOT, BALLOON);
	rig_boot(&r, "bal.disk");
	rig_renew_open(&r, "sb");
	rig_data(&r);
	rig_put(&r, "/v1/files?path=/root/b.ko", module, n);
	T_INT(r.status, 201);
	rig_sh(&r, "insmod /root/b.ko");
	T_HAS(r.body, "\"code\":0");
	rig_save(&r, "bal");
	rig_stop(&r);
}

/* The monitors' channel goes on while the balloon grows. */
static void wait_smaller(struct rig *r)
{
	for (int i = 0; i < 100; i++) {
		long kb = strtol(rig_out(r, "grep MemTotal /proc/meminfo | "
					    "tr -dc 0-9"),
				 NULL, 10);

		if (kb > 0 && kb < 110 * 1024)
			return;
		usleep(50000);
	}
	test_fail(__FILE__, __LINE__, "the balloon did not inflate");
}

TEST(a_balloon_takes_nothing_from_base_or_sibling)
{
	owned_str module = NULL;
	struct rig a, b;
	uint64_t mem;
	size_t n;

	rig_need();
	if (file_read(rig_artifact("virtio_balloon.ko"), 1 << 20, &module, &n,
		      NULL) < 0)
		test_skip("no virtio_balloon.ko among the artifacts");
	balloon_base(module, n);
	mem = rig_sum("bal.mem");
	rig_start(&a, VM_INCOMING, BALLOON);
	rig_load(&a, "bal", "bal.a");
	rig_start(&b, VM_INCOMING, BALLOON);
	rig_load(&b, "bal", "bal.b");
	rig_renew_open(&a, "sb");
	rig_renew_open(&b, "sb");
	rig_data(&a);
	rig_data(&b);
	inflate(&a, 80 << 20);
	wait_smaller(&a);
	T_TRUE(rig_sum("bal.mem") == mem);
	T_STR(rig_out(&b, "busybox sha256sum /root/b.ko | wc -l; echo ok"),
	      "1\nok\n");
	rig_sh(&a, "echo 3 > /proc/sys/vm/drop_caches; "
		   "dd if=/dev/zero of=/tmp/y bs=1M count=8");
	T_HAS(a.body, "\"code\":0");
	T_TRUE(rig_sum("bal.mem") == mem);
	T_STR(rig_out(&b, "echo alive"), "alive\n");
	rig_stop(&a);
	rig_stop(&b);
}
