/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/engine_qemu.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "proto/noded.h"
#include "sandboxd/engine.h"
#include "sandboxd/node.h"
#include "sandboxd/sandbox.h"
#include "sandboxd/start.h"
#include "tls/digest.h"
#include "vmm/compat.h"
#include "vmm/kvm_probe.h"
#include "vmm/shape.h"

#define KVM_TIMEOUT_MS	   5000u
#define VERSION_TIMEOUT_MS 10000
/* What the guest's disks are named and found by is the initramfs' business. */
#define CMDLINE_MORE ""

struct qemu {
	struct node *node;
	char digest[72], shim_digest[72], version[128];
	uint32_t tsc_khz, cpu[CPU_WORDS];
	struct call kvm;
	void (*on_done)(struct node *, const char *);
};

/* ---- what a checkpoint depends on ---- */

static int hash_file(const char *path, char ret[72], struct err *e)
{
	owned_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t chunk[65536], md[DIGEST_BYTES];
	struct digest *d;
	ssize_t n;

	if (fd < 0)
		return err_errno(e, errno, "%s", path);
	d = digest_new();
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		digest_update(d, chunk, (size_t)n);
	digest_final(d, md);
	digest_free(d);
	if (n < 0)
		return err_errno(e, errno, "read %s", path);
	text_hex(md, sizeof(md), ret);
	return 0;
}

/* First line that `qemu --version` prints. At start, before anything is
 * served, so waiting for it is no fault. */
static int read_version(const char *path, char *ret, size_t max, struct err *e)
{
	const char *const argv[] = { path, "--version", NULL };
	struct spawn s = { .argv = argv,
			   .exe_fd = -1,
			   .stdio = { -1, -1, -1 },
			   .die_with_parent = true };
	owned_fd in = -1, out = -1, pidfd = -1;
	struct pollfd p = { .events = POLLIN };
	int pipe_fds[2];
	size_t n = 0;
	ssize_t got;
	pid_t pid;
	int r;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_errno(e, errno, "pipe");
	in = pipe_fds[0];
	out = pipe_fds[1];
	s.stdio[1] = out;
	r = spawn_start(&s, &pid, &pidfd, e);
	if (r < 0)
		return r;
	fd_close(take_fd(&out));
	p.fd = in;
	while (n < max - 1 && poll(&p, 1, VERSION_TIMEOUT_MS) == 1) {
		got = read(in, ret + n, max - 1 - n);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	ret[n] = '\0';
	ret[strcspn(ret, "\r\n")] = '\0';
	if (!ret[0])
		return err_set(e, -EIO, ERR_UNSUPPORTED,
			       "%s --version says nothing: install "
			       "qemu-system-x86",
			       path);
	return 0;
}

static int learn(struct node *n, struct qemu *q, struct err *e)
{
	int r = hash_file(n->conf.qemu, q->digest, e);

	if (r == 0)
		r = hash_file(n->conf.shim, q->shim_digest, e);
	if (r == 0)
		r = read_version(n->conf.qemu, q->version, sizeof(q->version),
				 e);
	cpu_words(q->cpu);
	q->tsc_khz = tsc_khz();
	return r;
}

static void shape_of(const struct vm_size *size, struct vm_shape *ret)
{
	*ret = (struct vm_shape){ .mode = VM_INCOMING,
				  .memory_mib = size->memory_mib,
				  .vcpus = size->vcpus,
				  .kvm = size->kvm,
				  .tap = true };
}

int qemu_argv_waiting(struct node *n, const struct vm_size *size, int *ret_fd,
		      struct err *e)
{
	struct vm_shape shape;

	shape_of(size, &shape);
	*ret_fd = vm_argv_memfd(&shape, n->conf.qemu, e);
	return *ret_fd < 0 ? *ret_fd : 0;
}

int qemu_argv_boot(struct node *n, const struct vm_size *size, int *ret_fd,
		   struct err *e)
{
	struct qemu *q = n->engine_data;
	struct vm_shape shape;
	struct buf cmdline;
	int r;

	buf_init(&cmdline, VM_CMDLINE_MAX + 1);
	shape_of(size, &shape);
	shape.mode = VM_BOOT;
	r = vm_cmdline(size->kvm, q->tsc_khz, CMDLINE_MORE, &cmdline, e);
	if (r == 0) {
		shape.cmdline = buf_cstr(&cmdline);
		r = vm_argv_memfd(&shape, n->conf.qemu, e);
	}
	buf_fini(&cmdline);
	if (r < 0)
		return r;
	*ret_fd = r;
	return 0;
}

int qemu_compat(struct node *n, const struct vm_size *size, const char *kernel,
		char ret[72], struct err *e)
{
	struct qemu *q = n->engine_data;
	struct vm_shape shape;
	struct compat c = { .vmm_version = q->version,
			    .vmm_digest = q->digest,
			    .shim_digest = q->shim_digest,
			    .kernel_digest = kernel,
			    .shape = &shape,
			    .tsc_khz = q->tsc_khz };
	struct buf text;
	int r;

	shape_of(size, &shape);
	memcpy(c.cpu, q->cpu, sizeof(c.cpu));
	r = vm_shape_check(&shape, e);
	if (r < 0)
		return r;
	buf_init(&text, 65536);
	r = compat_text(&c, &text, e);
	if (r == 0)
		spec_hash(buf_cstr(&text), ret);
	buf_fini(&text);
	return r;
}

/* ---- probe ---- */

static void on_kvm(struct call *c, const struct answer *a)
{
	struct qemu *q = container_of(c, struct qemu, kvm);
	struct node *n = q->node;
	struct kvm_verdict verdict;

	if (a->e && a->e->kind == ERR_UNAVAILABLE) {
		q->on_done(n, a->e->msg);
		return;
	}
	kvm_probe(a->n_fds == 1 ? a->fds[0] : -1, &verdict);
	n->kvm = verdict.is_usable;
	snprintf(n->isolation_reason, sizeof(n->isolation_reason), "%s",
		 verdict.reason);
	log_info("engine", "name=qemu kvm=%d tsc_khz=%u version=%s reason=%s",
		 n->kvm, q->tsc_khz, q->version, n->isolation_reason);
	q->on_done(n, NULL);
}

void qemu_probe(struct node *n, void (*on_done)(struct node *, const char *))
{
	struct noded_req req = { .hdr.op = NODED_KVM };
	struct qemu *q = n->engine_data;
	struct err e = { 0 };

	if (!q) {
		q = xnew(struct qemu);
		q->node = n;
		n->engine_data = q;
	}
	if (!q->version[0] && learn(n, q, &e) < 0) {
		on_done(n, e.msg);
		return;
	}
	q->on_done = on_done;
	peer_call(n->noded, &q->kvm, &req, sizeof(req), NULL, 0, KVM_TIMEOUT_MS,
		  on_kvm);
}

void qemu_free(struct node *n)
{
	struct qemu *q = n->engine_data;

	if (!q)
		return;
	call_cancel(&q->kvm);
	free(q);
	n->engine_data = NULL;
}

/* ---- the engine's table ---- */

static void on_vm_ended(struct vm *v, void *arg)
{
	(void)v;
	sandbox_torn(arg);
}

static void qemu_end(struct sandbox *s)
{
	struct vm *v = s->vm;

	start_cancel(s);
	s->vm = NULL;
	if (v)
		vm_end(v, on_vm_ended, s);
	else
		sandbox_torn(s);
}

static void qemu_data_take(struct sandbox *s, int fd)
{
	struct mon_req req = { .hdr.op = MON_DATA };

	if (s->vm && s->vm->mon)
		peer_send(s->vm->mon, &req, sizeof(req), &fd, 1);
	fd_close(fd);
}

const struct engine engine_qemu = {
	.name = "qemu",
	.is_virtual = true,
	.start = start_begin,
	.end = qemu_end,
	.data_take = qemu_data_take,
	.forget = start_cancel,
};
