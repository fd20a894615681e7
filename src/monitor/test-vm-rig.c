/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/test-vm-rig.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/spawn.h"
#include "base/test.h"
#include "base/text.h"
#include "net/json.h"
#include "vmm/compat.h"

#define QEMU	 "/usr/bin/qemu-system-x86_64"
#define QEMU_IMG "/usr/bin/qemu-img"
#define WAIT_MS	 120000u

static char work[64];
static bool has_taps;

__attribute__((destructor)) static void clean(void)
{
	const char *const argv[] = { "/bin/rm", "-rf", work, NULL };
	const struct spawn s = { .argv = argv,
				 .exe_fd = -1,
				 .stdio = { -1, -1, -1 } };
	pid_t pid;
	int pidfd;

	if (work[0] && spawn_start(&s, &pid, &pidfd, NULL) == 0)
		waitpid(pid, NULL, 0);
}

const char *rig_artifact(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", getenv("CAISSON_TEST_ARTIFACTS"),
		 name);
	return path;
}

void rig_need(void)
{
	if (!getenv("CAISSON_TEST_ARTIFACTS"))
		test_skip("CAISSON_TEST_ARTIFACTS names no directory with "
			  "kernel, initramfs and root.ext4");
	if (!getenv("CAISSON_TEST_SHIM") || !getenv("CAISSON_TEST_MONITOR"))
		test_skip("CAISSON_TEST_SHIM or CAISSON_TEST_MONITOR is unset");
	if (access(QEMU, X_OK) < 0 || access(QEMU_IMG, X_OK) < 0)
		test_skip("no " QEMU);
	if (access(rig_artifact("root.ext4"), R_OK) < 0)
		test_skip("no root.ext4 among the artifacts");
	if (!work[0]) {
		snprintf(work, sizeof(work), "/tmp/caisson-vm-XXXXXX");
		T_TRUE(mkdtemp(work) != NULL);
		/* taps of our own; without the right to, VMs have no network */
		has_taps = unshare(CLONE_NEWNET) == 0;
	}
}

bool rig_has_taps(void)
{
	return has_taps;
}

static const char *in_work(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", work, name);
	return path;
}

int rig_open(const char *name, int flags)
{
	int fd = open(in_work(name), flags | O_CLOEXEC, 0600);

	T_TRUE(fd >= 0);
	return fd;
}

static void run(const char *const *argv)
{
	const struct spawn s = { .argv = argv,
				 .exe_fd = -1,
				 .stdio = { -1, -1, 2 } };
	struct err e = { 0 };
	pid_t pid;
	int pidfd, status = -1;

	if (spawn_start(&s, &pid, &pidfd, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	waitpid(pid, &status, 0);
	close(pidfd);
	T_INT(status, 0);
}

int rig_overlay(const char *name)
{
	struct stat st;
	char size[32];

	T_INT(stat(rig_artifact("root.ext4"), &st), 0);
	snprintf(size, sizeof(size), "%lld", (long long)st.st_size);
	run((const char *const[]){ QEMU_IMG, "create", "-q", "-f", "qcow2",
				   in_work(name), size, NULL });
	return rig_open(name, O_RDWR);
}

/* ---- processes ---- */

static void start_monitor(struct rig *r)
{
	char uid[16], path[300];
	const char *const argv[] = { getenv("CAISSON_TEST_MONITOR"),
				     "--slot",
				     "7",
				     "--node-uid",
				     uid,
				     NULL };
	struct err e = { 0 };
	int fd;
	struct spawn s = { .argv = argv,
			   .exe_fd = -1,
			   .stdio = { -1, -1, 2 },
			   .fds = &fd,
			   .n_fds = 1,
			   .die_with_parent = true,
			   .cwd = r->dir };

	snprintf(uid, sizeof(uid), "%u", getuid());
	snprintf(path, sizeof(path), "%s/mon", r->dir);
	fd = unix_listen(path, SOCK_SEQPACKET, 0600, &e);
	T_TRUE(fd >= 0);
	if (spawn_start(&s, &r->monitor, &r->monitor_pidfd, &e) < 0)
		test_fail(__FILE__, __LINE__, "monitor: %s", e.msg);
	close(fd);
}

/* As noded makes them: no packet information, no vnet_hdr. */
static int open_tap(void)
{
	struct ifreq req = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	int fd =
	    open(has_taps ? "/dev/net/tun" : "/dev/null", O_RDWR | O_CLOEXEC);

	if (has_taps && (fd < 0 || ioctl(fd, TUNSETIFF, &req) < 0)) {
		has_taps = false;
		if (fd >= 0)
			close(fd);
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	return fd;
}

/* argv of the shape, and what the test adds. */
static char **words(struct rig *r, struct buf *b, enum vm_mode mode,
		    const char *extra)
{
	static char *argv[128];
	struct buf cmdline;
	struct vm_shape s = { .mode = mode,
			      .memory_mib = RIG_MEMORY_MIB,
			      .vcpus = 1,
			      .tap = has_taps };
	struct err e = { 0 };
	size_t n = 0;

	buf_init(&cmdline, 4096);
	T_INT(vm_cmdline(false, tsc_khz(), NULL, &cmdline, &e), 0);
	s.cmdline = buf_cstr(&cmdline);
	T_INT(vm_argv(&s, QEMU, b, &e), 0);
	if (extra) {
		buf_printf(b, "-device%c%s%c-chardev%c", 0, extra, 0, 0);
		buf_printf(b,
			   "socket,id=qmp2,path=%s/qmp2,server=on,wait=off%c",
			   r->dir, 0);
		buf_printf(b, "-mon%cchardev=qmp2,mode=control%c", 0, 0);
	}
	for (char *p = buf_cstr(b), *end = p + buf_len(b); p < end;
	     p += strlen(p) + 1)
		argv[n++] = p;
	argv[n] = NULL;
	buf_fini(&cmdline);
	return argv;
}

static void start_vmm(struct rig *r, enum vm_mode mode, const char *extra)
{
	static const char *const names[] = { "ctl", "qmp", "chan", "serial" };
	char preload[512], path[300];
	const char *const envp[] = { preload, "CAISSON_SHIM=1", NULL };
	int fds[7];
	struct spawn s = { .envp = envp,
			   .exe_fd = -1,
			   .stdio = { -1, 2, 2 },
			   .fds = fds,
			   .n_fds = mode == VM_BOOT ? 7 : 5,
			   .die_with_parent = true };
	struct err e = { 0 };
	struct buf b;

	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s",
		 getenv("CAISSON_TEST_SHIM"));
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", r->dir, names[i]);
		fds[i] = unix_listen(path, SOCK_STREAM, 0600, &e);
		T_TRUE(fds[i] >= 0);
	}
	fds[4] = open_tap();
	fds[5] = open(rig_artifact("kernel"), O_RDONLY | O_CLOEXEC);
	fds[6] = open(rig_artifact("initramfs"), O_RDONLY | O_CLOEXEC);
	buf_init(&b, 65536);
	s.argv = (const char *const *)words(r, &b, mode, extra);
	if (spawn_start(&s, &r->vmm, &r->vmm_pidfd, &e) < 0)
		test_fail(__FILE__, __LINE__, "vmm: %s", e.msg);
	for (int i = 0; i < 7; i++)
		close(fds[i]);
	buf_fini(&b);
}

/* ---- the channel to the monitor ---- */

static void on_msg(struct channel *c, void *msg, size_t n, int *fds,
		   size_t n_fds)
{
	struct rig *r = channel_owner(c);
	const struct mon_rep *rep = msg;

	(void)n;
	(void)fds;
	(void)n_fds;
	if (rep->hdr.op == MON_EV_GONE) {
		r->gone = *rep;
		r->has_gone = true;
	} else {
		r->rep = *rep;
		r->has_rep = true;
	}
}

static void on_close(struct channel *c, const struct err *e)
{
	struct rig *r = channel_owner(c);

	(void)e;
	r->chan = NULL;
	channel_free(c);
}

static const struct channel_ops ops = { on_msg, on_close };

#define REP                                                                    \
	{                                                                      \
		sizeof(struct mon_rep), sizeof(struct mon_rep), 0, 0           \
	}
static const struct channel_op table[MON_OP_MAX_] = {
	[MON_STATUS] = REP, [MON_BOOT] = REP,	 [MON_LOAD] = REP,
	[MON_RENEW] = REP,  [MON_OPEN] = REP,	 [MON_SAVE] = REP,
	[MON_QUIT] = REP,   [MON_EV_GONE] = REP,
};

void rig_connect(struct rig *r)
{
	struct err e = { 0 };
	char path[300];
	int fd;

	channel_free(r->chan);
	snprintf(path, sizeof(path), "%s/mon", r->dir);
	fd = unix_connect(path, SOCK_SEQPACKET, &e);
	T_TRUE(fd >= 0);
	r->chan = channel_new_take(r->loop, fd, table, MON_OP_MAX_, &ops, r);
}

static void spin(struct rig *r, const bool *until)
{
	uint64_t end = now_mono_us() + WAIT_MS * 1000ull;

	while (!*until && now_mono_us() < end)
		loop_once(r->loop, 100);
}

void rig_ask(struct rig *r, enum mon_op op, const int *fds, size_t n_fds)
{
	struct mon_req q = { .hdr = { op, 42 },
			     .deadline_ms = 90000,
			     .flags = r->flags };

	if (op == MON_BOOT || op == MON_LOAD) {
		/* root disk, frozen overlays, the writable one */
		q.n_disks = (uint32_t)n_fds - (op == MON_LOAD ? 2 : 0);
		for (uint32_t i = 1; i < q.n_disks; i++)
			q.disks[i].qcow2 = 1;
		q.disks[q.n_disks - 1].writable = 1;
	}
	snprintf(q.sandbox, sizeof(q.sandbox), "sb0123456789abcdefghij");
	snprintf(q.hostname, sizeof(q.hostname), "box");
	r->has_rep = false;
	T_TRUE(r->chan != NULL);
	T_INT(channel_send(r->chan, &q, sizeof(q), fds, n_fds), 0);
	if (op == MON_DATA)
		return;
	spin(r, &r->has_rep);
	T_TRUE(r->has_rep);
	T_INT(r->rep.hdr.op, op);
	T_INT(r->rep.hdr.seq, 42);
}

static void must(struct rig *r, enum mon_op op, const int *fds, size_t n_fds)
{
	rig_ask(r, op, fds, n_fds);
	if (r->rep.r < 0)
		test_fail(__FILE__, __LINE__, "request %d: %s", op, r->rep.msg);
}

void rig_start(struct rig *r, enum vm_mode mode, const char *extra)
{
	static int count;

	memset(r, 0, sizeof(*r));
	r->loop = loop_new();
	snprintf(r->dir, sizeof(r->dir), "%s/slot%d", work, count++);
	T_INT(mkdir(r->dir, 0700), 0);
	start_vmm(r, mode, extra);
	start_monitor(r);
	rig_connect(r);
}

static void reap(pid_t pid, int pidfd)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(pidfd);
}

void rig_stop(struct rig *r)
{
	if (r->http)
		http_conn_free(r->http);
	channel_free(r->chan);
	reap(r->monitor, r->monitor_pidfd);
	reap(r->vmm, r->vmm_pidfd);
	loop_free(r->loop);
}

void rig_wait_gone(struct rig *r)
{
	spin(r, &r->has_gone);
	T_TRUE(r->has_gone);
	T_INT(r->gone.phase, MON_GONE);
}

void rig_renew_open(struct rig *r, const char *sandbox)
{
	(void)sandbox;
	must(r, MON_RENEW, NULL, 0);
	T_INT(r->rep.phase, MON_CONFIRMED);
	must(r, MON_OPEN, NULL, 0);
	T_INT(r->rep.phase, MON_OPENED);
}

void rig_boot(struct rig *r, const char *overlay)
{
	int fds[2] = { open(rig_artifact("root.ext4"), O_RDONLY | O_CLOEXEC),
		       rig_overlay(overlay) };

	must(r, MON_BOOT, fds, 2);
	T_INT(r->rep.phase, MON_CONNECTED);
	rig_print_times("boot", &r->rep.times);
	close(fds[0]);
	close(fds[1]);
}

void rig_try_load(struct rig *r, const char *name, const char *overlay)
{
	char file[64];
	int fds[5];

	fds[4] = rig_overlay(overlay);
	snprintf(file, sizeof(file), "%s.disk", name);
	fds[3] = rig_open(file, O_RDONLY);
	fds[2] = open(rig_artifact("root.ext4"), O_RDONLY | O_CLOEXEC);
	snprintf(file, sizeof(file), "%s.mem", name);
	fds[1] = rig_open(file, O_RDONLY);
	snprintf(file, sizeof(file), "%s.state", name);
	fds[0] = rig_open(file, O_RDONLY);
	rig_ask(r, MON_LOAD, fds, 5);
	for (int i = 0; i < 5; i++)
		close(fds[i]);
}

void rig_load(struct rig *r, const char *name, const char *overlay)
{
	rig_try_load(r, name, overlay);
	if (r->rep.r < 0)
		test_fail(__FILE__, __LINE__, "load: %s", r->rep.msg);
	rig_print_times("load", &r->rep.times);
	T_INT(r->rep.phase, MON_CONNECTED);
}

void rig_save(struct rig *r, const char *name)
{
	char file[64];
	int fds[2];

	snprintf(file, sizeof(file), "%s.state", name);
	fds[0] = rig_open(file, O_RDWR | O_CREAT);
	snprintf(file, sizeof(file), "%s.mem", name);
	fds[1] = rig_open(file, O_RDWR | O_CREAT);
	must(r, MON_SAVE, fds, 2);
	rig_print_times("save", &r->rep.times);
	T_INT(r->rep.phase, MON_SAVED);
	close(fds[0]);
	close(fds[1]);
}

/* ---- data plane ---- */

static void http_closed(struct http_conn *c, const struct err *e)
{
	struct rig *r = http_conn_owner(c);

	(void)e;
	r->http = NULL;
}

void rig_data(struct rig *r)
{
	static const struct http_conn_ops conn_ops = { NULL, http_closed };
	int p[2];

	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			 p),
	      0);
	rig_ask(r, MON_DATA, &p[1], 1);
	close(p[1]);
	if (r->http)
		http_conn_free(r->http);
	r->http =
	    http_conn_client_take(r->loop, p[0], HTTP_2, NULL, &conn_ops, r);
	T_TRUE(r->http != NULL);
}

static void on_answer(void *arg, int status, const char *body, size_t n,
		      const struct err *e)
{
	struct rig *r = arg;

	r->http_over = true;
	r->status = status;
	snprintf(r->body, sizeof(r->body), "%.*s", (int)n,
		 e ? e->msg : (body ? body : ""));
	if (e)
		snprintf(r->body, sizeof(r->body), "%s", e->msg);
}

void rig_http(struct rig *r, const char *method, const char *path,
	      const char *body)
{
	struct err e = { 0 };

	r->http_over = false;
	if (http_call(r->http, method, path, body, sizeof(r->body) - 1, 60000,
		      on_answer, r, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	spin(r, &r->http_over);
	T_TRUE(r->http_over);
}

struct put {
	struct rig *r;
	const uint8_t *p;
	size_t n;
};

static void put_writable(struct http_stream *s)
{
	struct put *u = http_stream_owner(s);
	size_t w = u->n ? http_stream_write(s, u->p, u->n) : 0;

	u->p += w;
	u->n -= w;
	if (w && !u->n)
		http_stream_end(s);
}

static void put_head(struct http_stream *s)
{
	struct put *u = http_stream_owner(s);

	u->r->status = http_stream_head(s)->status;
}

static void put_body(struct http_stream *s)
{
	const uint8_t *p;

	http_stream_consume(s, http_stream_peek(s, &p));
}

static void put_close(struct http_stream *s, const struct err *e)
{
	struct put *u = http_stream_owner(s);

	if (e)
		u->r->status = -1;
	u->r->http_over = true;
}

void rig_put(struct rig *r, const char *path, const void *p, size_t n)
{
	static const struct http_handler h = { put_head, put_body, put_writable,
					       put_close };
	struct put u = { r, p, n };
	struct http_head head;
	struct http_stream *s;
	struct err e = { 0 };

	http_head_init(&head);
	head.method = xstrdup("PUT");
	head.path = xstrdup(path);
	head.authority = xstrdup("x");
	r->http_over = false;
	r->status = 0;
	s = http_conn_request(r->http, &head, true, &h, &u, &e);
	T_TRUE(s != NULL);
	http_head_fini(&head);
	put_writable(s);
	spin(r, &r->http_over);
	T_TRUE(r->http_over);
}

void rig_sh(struct rig *r, const char *command)
{
	owned_json v = json_object();
	owned_str text = NULL;
	char id[64] = "ex_", path[128];

	random_id(id + 3, 28);
	json_set_take(v, "id", json_string(id));
	json_set_take(v, "shell", json_string(command));
	json_set_take(v, "stdin", json_false());
	json_set_take(v, "start", json_string("now"));
	text = json_text(v);
	rig_http(r, "POST", "/v1/execs", text);
	if (r->status != 201)
		test_fail(__FILE__, __LINE__, "exec: %d %.300s", r->status,
			  r->body);
	snprintf(path, sizeof(path), "/v1/execs/%s/output?from=0&follow=1", id);
	rig_http(r, "GET", path, NULL);
	T_INT(r->status, 200);
}

const char *rig_out(struct rig *r, const char *command)
{
	static char out[65536];
	char *save = NULL;
	size_t n = 0;

	rig_sh(r, command);
	for (char *l = strtok_r(r->body, "\n", &save); l;
	     l = strtok_r(NULL, "\n", &save)) {
		owned_json v = NULL;
		const char *b64;
		ssize_t k;

		T_INT(json_parse(l, strlen(l), &v, NULL), 0);
		b64 = json_string_value(json_object_get(v, "b64"));
		if (!b64)
			continue;
		k = text_unbase64(b64, strlen(b64), out + n);
		T_TRUE(k >= 0);
		n += (size_t)k;
	}
	out[n] = '\0';
	return out;
}

uint64_t rig_sum(const char *name)
{
	static uint64_t b[8192];
	uint64_t sum = 14695981039346656037ull;
	int fd = rig_open(name, O_RDONLY);
	ssize_t n;

	while ((n = read(fd, b, sizeof(b))) > 0)
		for (size_t i = 0; i < (size_t)n / 8; i++)
			sum = (sum ^ b[i]) * 1099511628211ull;
	close(fd);
	return sum;
}

void rig_print_times(const char *what, const struct mon_times *t)
{
	printf("# %s us: qmp %u map %u disk %u load %u cont %u connect %u "
	       "renew %u thaw %u freeze %u stop %u save %u image %u\n",
	       what, t->qmp_us, t->map_us, t->disk_us, t->load_us, t->cont_us,
	       t->connect_us, t->renew_us, t->thaw_us, t->freeze_us, t->stop_us,
	       t->save_us, t->image_us);
}
