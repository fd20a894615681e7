/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/test-fakes.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "sandboxd/test-fakes-int.h"

#define LIMIT_MS 30000u

void fake_set(struct fakes *f, enum fake_who who, unsigned op,
	      enum fake_mode mode)
{
	f->modes[who][op] = mode;
}

enum fake_mode fake_use(struct fakes *f, enum fake_who who, unsigned op)
{
	enum fake_mode m = f->modes[who][op];

	f->counts[who][op]++;
	if (m != FAKE_OK && f->is_once)
		f->modes[who][op] = FAKE_OK;
	return m;
}

int fake_error(const struct fakes *f, enum fake_who who, unsigned op)
{
	return f->error_code[who][op] ? f->error_code[who][op] : -EIO;
}

static int listen_in(struct fakes *f, const char *name)
{
	char path[400];
	struct err e = { 0 };
	int fd;

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	fd = unix_listen(path, SOCK_SEQPACKET, 0600, &e);
	if (fd < 0)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	return fd;
}

static void close_io(struct loop_io *io)
{
	int fd = io->fd;

	if (!io->loop)
		return;
	loop_io_del(io);
	close(fd);
}

static void write_text(const char *path, const char *text, unsigned mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	T_TRUE(fd >= 0);
	T_INT(write_all(fd, text, strlen(text)), 0);
	close(fd);
}

/* ---- processes ---- */

static int spawn_sleeper(int *ret_pidfd)
{
	pid_t parent = getpid(), pid = fork();

	T_TRUE(pid >= 0);
	if (pid == 0) {
		/* A test that fails leaves without ending us; whoever reads its
		 * output would wait for ours. */
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		if (getppid() != parent)
			_exit(0);
		/* Nobody's connection may live on in here. */
		close_range(3, ~0u, 0);
		for (;;)
			pause();
	}
	*ret_pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	T_TRUE(*ret_pidfd >= 0);
	return pid;
}

void fake_kill(struct fakes *f, int pid)
{
	for (unsigned i = 0; i < FAKE_SLOTS; i++) {
		if (f->slots[i].vmm_pid == pid)
			f->slots[i].vmm_pid = 0;
		if (f->slots[i].monitor_pid == pid)
			f->slots[i].monitor_pid = 0;
	}
	kill(pid, SIGKILL);
	/* The loop may have reaped it. */
	waitpid(pid, NULL, f->node ? WNOHANG : 0);
}

/* ---- noded ---- */

static void slot_clear(struct fake_slot *s)
{
	if (s->vmm_pid)
		fake_kill(s->f, s->vmm_pid);
	if (s->monitor_pid)
		fake_kill(s->f, s->monitor_pid);
	close_io(&s->mon);
	if (s->chan)
		s->chan = channel_free(s->chan);
	s->is_there = false;
	s->oom_kills = 0;
	s->phase = 0;
}

static void slot_make(struct fake_slot *s)
{
	char name[64], path[400];

	snprintf(path, sizeof(path), "%s/slots/%u", s->f->dir, s->number);
	mkdir(path, 0700);
	snprintf(name, sizeof(name), "slots/%u/mon", s->number);
	s->is_there = true;
	loop_io_add(s->f->loop, &s->mon, listen_in(s->f, name), LOOP_IN,
		    fake_on_monitor_accept);
}

static void noded_list(struct fakes *f, const struct noded_req *req)
{
	size_t size =
	    sizeof(struct noded_list) + FAKE_SLOTS * sizeof(struct noded_slot);
	struct noded_list *l = xcalloc(1, size);

	l->hdr = req->hdr;
	for (uint32_t i = 0; i < FAKE_SLOTS; i++) {
		struct fake_slot *s = &f->slots[i];

		if (!s->is_there)
			continue;
		l->slots[l->n++] = (struct noded_slot){
			.slot = i,
			.state = NODED_SLOT_READY,
			.vmm_pid = s->vmm_pid,
			.monitor_pid = s->monitor_pid,
			.oom_kills = s->oom_kills,
			.netns = 1000 + i,
		};
	}
	channel_send(f->noded, l, sizeof(*l) + l->n * sizeof(struct noded_slot),
		     NULL, 0);
	free(l);
}

static void noded_work(struct fakes *f, const struct noded_req *req,
		       struct noded_rep *rep, int *ret_fd)
{
	struct fake_slot *s = &f->slots[req->slot % FAKE_SLOTS];

	switch (req->hdr.op) {
	case NODED_HELLO:
		rep->version = NODED_VERSION;
		break;
	case NODED_SLOT_CREATE:
		if (s->is_there)
			rep->r = -EEXIST;
		else
			slot_make(s);
		rep->netns = 1000 + req->slot;
		break;
	case NODED_SPAWN_VMM:
		rep->pid = s->vmm_pid = spawn_sleeper(ret_fd);
		s->phase = MON_WAITING;
		break;
	case NODED_SPAWN_MONITOR:
		rep->pid = s->monitor_pid = spawn_sleeper(ret_fd);
		break;
	case NODED_SLOT_DESTROY:
		slot_clear(s);
		break;
	case NODED_KVM:
		rep->r = -ENOENT;
		break;
	default:
		break;
	}
}

static void on_noded_msg(struct channel *c, void *msg, size_t n, int *fds,
			 size_t n_fds)
{
	struct fakes *f = channel_owner(c);
	const struct noded_req *req = msg;
	struct noded_rep rep = { .hdr = req->hdr, .slot = req->slot };
	enum fake_mode mode = fake_use(f, FAKE_NODED, req->hdr.op);
	int fd = -1;

	(void)n;
	(void)fds;
	(void)n_fds;
	if (mode == FAKE_SILENT)
		return;
	if (mode == FAKE_CLOSE) {
		f->noded = channel_free(f->noded);
		return;
	}
	if (mode == FAKE_ERROR) {
		rep.r = fake_error(f, FAKE_NODED, req->hdr.op);
		snprintf(rep.msg, sizeof(rep.msg), "noded says no");
	} else if (req->hdr.op == NODED_LIST) {
		noded_list(f, req);
		return;
	} else {
		noded_work(f, req, &rep, &fd);
	}
	channel_send(c, &rep, sizeof(rep), fd >= 0 ? &fd : NULL, fd >= 0);
	fd_close(fd);
}

static void on_noded_close(struct channel *c, const struct err *e)
{
	struct fakes *f = channel_owner(c);

	(void)e;
	f->noded = NULL;
	channel_free(c);
}

static const struct channel_ops noded_ops = { on_noded_msg, on_noded_close };

static void on_noded_accept(struct loop_io *io, unsigned events)
{
	static const struct channel_op table[NODED_OP_MAX_] = {
		[NODED_HELLO... NODED_KVM] = { sizeof(struct noded_req),
					       sizeof(struct noded_req), 0, 5 },
	};
	struct fakes *f = container_of(io, struct fakes, noded_io);
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0)
		return;
	if (f->noded)
		channel_free(f->noded);
	f->noded =
	    channel_new_take(f->loop, fd, table, NODED_OP_MAX_, &noded_ops, f);
}

/* ---- all of it ---- */

void fakes_up(struct fakes *f, enum fake_who who)
{
	if (who == FAKE_NODED)
		loop_io_add(f->loop, &f->noded_io, listen_in(f, "noded.sock"),
			    LOOP_IN, on_noded_accept);
	else
		loop_io_add(f->loop, &f->store_io,
			    listen_in(f, "storaged.sock"), LOOP_IN,
			    fake_on_store_accept);
}

void fakes_down(struct fakes *f, enum fake_who who)
{
	close_io(who == FAKE_NODED ? &f->noded_io : &f->store_io);
	if (who == FAKE_NODED && f->noded)
		f->noded = channel_free(f->noded);
	if (who == FAKE_STORE && f->store)
		f->store = channel_free(f->store);
}

struct fakes *fakes_new(uint32_t waiting)
{
	struct fakes *f = xnew(struct fakes);
	char path[400];

	f->loop = loop_new();
	f->dir = test_tmpdir();
	f->overlays = map_new();
	f->refs = map_new();
	f->missing = map_new();
	snprintf(path, sizeof(path), "%s/slots", f->dir);
	mkdir(path, 0700);
	for (uint32_t i = 0; i < FAKE_SLOTS; i++) {
		f->slots[i].f = f;
		f->slots[i].number = i;
	}
	snprintf(f->qemu, sizeof(f->qemu), "%s/qemu", f->dir);
	snprintf(f->shim, sizeof(f->shim), "%s/shim", f->dir);
	write_text(f->qemu, "#!/bin/sh\necho fake QEMU 1\n", 0700);
	write_text(f->shim, "shim", 0600);
	fakes_up(f, FAKE_NODED);
	fakes_up(f, FAKE_STORE);
	f->conf = (struct node_conf){ .run = f->dir,
				      .name = "test",
				      .engine = "qemu",
				      .qemu = f->qemu,
				      .shim = f->shim,
				      .slots = 8,
				      .waiting = waiting,
				      .memory_mib = 4096 };
	return f;
}

void fakes_stop(struct fakes *f)
{
	f->node = node_free(f->node);
}

void fakes_free(struct fakes *f)
{
	const char *key;
	void *value;

	fakes_stop(f);
	for (unsigned i = 0; i < FAKE_SLOTS; i++)
		slot_clear(&f->slots[i]);
	fakes_down(f, FAKE_NODED);
	fakes_down(f, FAKE_STORE);
	for (size_t pos = 0; map_next(f->refs, &pos, &key, &value);)
		free(value);
	map_free(f->refs);
	map_free(f->overlays);
	map_free(f->missing);
	loop_once(f->loop, 0);
	loop_free(f->loop);
	free(f);
}

void fakes_until(struct fakes *f, bool (*cond)(struct fakes *, void *),
		 void *arg)
{
	uint64_t end = now_mono_us() / 1000 + LIMIT_MS;

	while (!cond(f, arg)) {
		if (now_mono_us() / 1000 > end)
			test_fail(__FILE__, __LINE__, "nothing came in 30 s");
		loop_once(f->loop, 20);
	}
}

void fakes_run_ms(struct fakes *f, unsigned ms)
{
	uint64_t end = now_mono_us() / 1000 + ms;

	while (now_mono_us() / 1000 < end)
		loop_once(f->loop, 5);
}

static bool is_ready(struct fakes *f, void *arg)
{
	(void)arg;
	return f->node->ready;
}

void fakes_start(struct fakes *f)
{
	struct err e = { 0 };

	f->node = node_new(f->loop, &f->conf, NULL, &e);
	if (!f->node)
		test_fail(__FILE__, __LINE__, "%s", e.msg);
	fakes_until(f, is_ready, NULL);
}

void fake_spec(unsigned number, struct spec *ret)
{
	char text[64];

	memset(ret, 0, sizeof(*ret));
	snprintf(text, sizeof(text), "release %u", number);
	spec_hash(text, ret->release.digest);
	spec_hash("kernel", ret->release.kernel);
	spec_hash("initramfs", ret->release.initramfs);
	spec_hash("root", ret->release.root);
	ret->res = (struct resources){ 1, 256, 64 };
	snprintf(ret->hostname, sizeof(ret->hostname), "box");
	spec_hash(text, ret->digest);
}

void fake_command(struct fakes *f, uint64_t generation, uint64_t left_ms,
		  struct command *ret)
{
	memset(ret, 0, sizeof(*ret));
	snprintf(ret->incarnation, sizeof(ret->incarnation), "%s",
		 f->node->incarnation);
	snprintf(ret->operation, sizeof(ret->operation),
		 "op_00000000000000000000");
	ret->generation = generation;
	ret->fence = 1;
	ret->time_left_ms = left_ms;
}

void fake_checkpoint(struct fakes *f, const struct spec *spec)
{
	struct checkpoint ck = { 0 };
	struct err e = { 0 };
	char ref[72];

	T_INT(prepares_ref(f->node->prepares, spec, ref, &e), 0);
	memcpy(ck.release, spec->release.digest, sizeof(ck.release));
	memcpy(ck.root, spec->release.root, sizeof(ck.root));
	spec_hash("compat", ck.compat);
	spec_hash("state", ck.state);
	spec_hash("memory", ck.memory);
	spec_hash("layer", ck.layer);
	ck.res = spec->res;
	ck.disk_bytes = 64 << 20;
	free(map_set(f->refs, ref, ref_text(&ck)));
}

static void on_outcome(struct waiter *w, const struct fault *f)
{
	struct outcome *o = container_of(w, struct outcome, w);

	o->is_done = true;
	o->is_ok = !f;
	if (f)
		o->fault = *f;
}

void outcome_init(struct outcome *o)
{
	memset(o, 0, sizeof(*o));
	list_init(&o->w.link);
	o->w.on_done = on_outcome;
}

bool outcome_is_done(struct fakes *f, void *outcome)
{
	struct outcome *o = outcome;

	(void)f;
	return o->is_done;
}

void fake_ensure(struct fakes *f, const char *id, uint64_t generation,
		 uint64_t left_ms, struct outcome *o)
{
	struct command cmd;
	struct spec spec;

	outcome_init(o);
	fake_spec(1, &spec);
	fake_command(f, generation, left_ms, &cmd);
	sandbox_ensure(f->node, id, &cmd, &spec, NULL, &o->w);
	fakes_until(f, outcome_is_done, o);
}

void fake_end(struct fakes *f, const char *id, uint64_t generation,
	      uint64_t left_ms, struct outcome *o)
{
	struct command cmd;

	outcome_init(o);
	fake_command(f, generation, left_ms, &cmd);
	sandbox_end(f->node, id, &cmd, NULL, &o->w);
	fakes_until(f, outcome_is_done, o);
}

unsigned fake_vms(const struct fakes *f)
{
	unsigned n = 0;

	for (unsigned i = 0; i < FAKE_SLOTS; i++)
		n += f->slots[i].vmm_pid != 0;
	return n;
}

unsigned fake_journals(const struct fakes *f)
{
	char path[400];
	struct dirent *d;
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/sandboxd/journal", f->dir);
	dir = opendir(path);
	T_TRUE(dir != NULL);
	while ((d = readdir(dir)))
		n += d->d_name[0] != '.';
	closedir(dir);
	return n;
}

bool fakes_are_clean(struct fakes *f, void *unused)
{
	(void)unused;
	return fake_vms(f) == 0 && map_len(f->overlays) == 0 &&
	       f->drafts == 0 && fake_journals(f) == 0 &&
	       list_empty(&f->node->vms) && map_len(f->node->sandboxes) == 0 &&
	       f->node->memory_used_mib == 0;
}
