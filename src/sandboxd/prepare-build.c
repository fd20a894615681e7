/* SPDX-License-Identifier: Apache-2.0 */

/* How a boot checkpoint is found or built: one request after the other, each
 * with a deadline, and one way out (finish) that leaves nothing behind. */

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "proto/storaged.h"
#include "sandboxd/engine_qemu.h"
#include "sandboxd/node.h"
#include "sandboxd/prepare-int.h"
#include "sandboxd/waiting.h"

#define STORE_TIMEOUT_MS 10000u
#define HASH_TIMEOUT_MS	 120000u
#define VMM_TIMEOUT_MS	 30000u
/* A boot takes 2 s on an idle host and 10 on a busy one. */
#define BOOT_TIMEOUT_MS	  90000u
#define SAVE_TIMEOUT_MS	  120000u
#define TOTAL_TIMEOUT_MS  600000u
#define BOOT_TRIES	  2u
#define TEMPLATE_HOSTNAME "template"

static void store(struct prepare *p, struct st_req *req, size_t n,
		  uint64_t timeout_ms,
		  void (*on_done)(struct call *, const struct answer *))
{
	peer_call(p->node->storaged, &p->ask, req, n, NULL, 0, timeout_ms,
		  on_done);
}

static void forget_draft(struct prepare *p, int i)
{
	struct st_req req = { .hdr.op = ST_DRAFT_DROP };

	p->drafts[i] = fd_close(p->drafts[i]);
	call_cancel(&p->drafts_c[i]);
	if (!p->has_draft[i])
		return;
	p->has_draft[i] = false;
	req.id = p->draft_ids[i];
	peer_send(p->node->storaged, &req, sizeof(req), NULL, 0);
}

void prepare_stop(struct prepare *p)
{
	loop_timer_del(&p->deadline);
	call_cancel(&p->ask);
	for (int i = 0; i < P_FILES_; i++)
		p->files[i] = fd_close(p->files[i]);
	for (int i = 0; i < D_DRAFTS_; i++)
		forget_draft(p, i);
	if (p->ending) {
		/* It takes the overlay along now. */
		p->ending->on_ended = NULL;
		p->ending->has_overlay = true;
		p->ending = NULL;
	} else if (p->overlay[0]) {
		struct st_req req = { .hdr.op = ST_OVERLAY_DROP };

		memcpy(req.name, p->overlay, sizeof(p->overlay));
		peer_send(p->node->storaged, &req, sizeof(req), NULL, 0);
	}
	p->overlay[0] = '\0';
	if (p->is_admitted)
		node_unadmit(p->node, p->spec.res.memory_mib);
	p->is_admitted = false;
}

static void finish(struct prepare *p, const struct fault *f)
{
	struct fault copy;

	if (f)
		copy = *f;
	if (p->vm) {
		vm_end(p->vm, NULL, NULL);
		p->vm = NULL;
	}
	prepare_stop(p);
	prepare_done(p, f ? &copy : NULL);
}

static void finish_err(struct prepare *p, enum fault_from from,
		       const char *doing, const struct err *e)
{
	struct fault f;

	fault_from_err(&f, from, doing, e);
	if (f.code == FAULT_NOT_FOUND)
		f.remedy = "import the release on this node, then repeat";
	finish(p, &f);
}

static void on_total(struct loop_timer *t)
{
	struct prepare *p = container_of(t, struct prepare, deadline);
	struct fault f;

	fault_set(&f, FAULT_TIMEOUT, "the boot checkpoint took too long");
	finish(p, &f);
}

/* ---- after the VM: commit what it left ---- */

static void on_ref_set(struct call *c, const struct answer *a)
{
	struct prepare *p = container_of(c, struct prepare, ask);

	if (a->e)
		finish_err(p, FAULT_FROM_STORE, "name the checkpoint", a->e);
	else
		finish(p, NULL);
}

static void set_ref(struct prepare *p)
{
	owned_str text = ref_text(&p->ck);
	size_t n = strlen(text), size = sizeof(struct st_req) + n;
	struct st_req *req = xcalloc(1, size);

	req->hdr.op = ST_REF_SET;
	snprintf(req->name, sizeof(req->name), "%s", p->ref);
	req->text_n = (uint32_t)n;
	memcpy(req->text, text, n);
	store(p, req, size, STORE_TIMEOUT_MS, on_ref_set);
	free(req);
}

/* A digest from the store, as we keep them; false if it is none. */
static bool take_digest(const struct st_rep *rep, char ret[72])
{
	char s[ST_DIGEST_MAX + 1] = { 0 };

	memcpy(s, rep->digest, ST_DIGEST_MAX);
	return spec_digest(s, ret) == 0;
}

static void bad_answer(struct prepare *p)
{
	struct err e = { 0 };

	err_set(&e, -EPROTO, ERR_UNAVAILABLE, "an answer without its parts");
	finish_err(p, FAULT_FROM_STORE, "talk to caisson-storaged", &e);
}

static void on_layer(struct call *c, const struct answer *a)
{
	struct prepare *p = container_of(c, struct prepare, ask);

	if (a->e) {
		finish_err(p, FAULT_FROM_STORE, "keep the disk layer", a->e);
		return;
	}
	p->overlay[0] = '\0';
	if (take_digest(a->msg, p->ck.layer))
		set_ref(p);
	else
		bad_answer(p);
}

/* Only now does nobody write to the overlay any more. */
static void on_vm_ended(struct vm *v, void *arg)
{
	struct prepare *p = arg;
	struct st_req req = { .hdr.op = ST_OVERLAY_COMMIT };

	(void)v;
	p->ending = NULL;
	memcpy(req.name, p->overlay, sizeof(p->overlay));
	store(p, &req, sizeof(req), HASH_TIMEOUT_MS, on_layer);
}

static void commit_next(struct prepare *p);

static void on_committed(struct call *c, const struct answer *a)
{
	struct prepare *p = container_of(c, struct prepare, ask);
	char *digest = p->next == D_STATE ? p->ck.state : p->ck.memory;

	if (a->e) {
		finish_err(p, FAULT_FROM_STORE, "keep the checkpoint", a->e);
		return;
	}
	p->has_draft[p->next] = false;
	if (!take_digest(a->msg, digest)) {
		bad_answer(p);
		return;
	}
	p->next++;
	commit_next(p);
}

static void commit_next(struct prepare *p)
{
	struct st_req req = { .hdr.op = ST_DRAFT_COMMIT };
	struct vm *v = p->vm;

	if (p->next == D_DRAFTS_) {
		memcpy(p->overlay, v->id, sizeof(v->id));
		v->has_overlay = false;
		p->vm = NULL;
		p->ending = v;
		vm_end(v, on_vm_ended, p);
		return;
	}
	req.id = p->draft_ids[p->next];
	store(p, &req, sizeof(req), HASH_TIMEOUT_MS, on_committed);
}

/* ---- the VM's life ---- */

static void build_vm(struct prepare *p);

/* Booting may fail for reasons that a second try does not meet (a busy host);
 * then it is the release. */
static void vm_failed(struct prepare *p, const struct fault *f)
{
	struct fault copy = *f;

	if (copy.code == FAULT_VM || copy.code == FAULT_TIMEOUT)
		copy.code = FAULT_BOOT;
	for (int i = 0; i < D_DRAFTS_; i++)
		forget_draft(p, i);
	p->files[P_OVERLAY] = fd_close(p->files[P_OVERLAY]);
	call_cancel(&p->ask);
	if (p->vm)
		vm_end(p->vm, NULL, NULL);
	p->vm = NULL;
	if (copy.code != FAULT_BOOT || ++p->tries >= BOOT_TRIES) {
		finish(p, &copy);
		return;
	}
	log_warn("boot_retried", "prepare=%s why=%s", p->id, copy.msg);
	build_vm(p);
}

static void vm_failed_err(struct prepare *p, const char *doing,
			  const struct err *e)
{
	struct fault f;

	fault_from_err(&f, FAULT_FROM_MONITOR, doing, e);
	vm_failed(p, &f);
}

static void ask(struct prepare *p, struct mon_req *req, const int *fds,
		size_t n_fds, uint64_t timeout_ms,
		void (*on_done)(struct call *, const struct answer *))
{
	struct fault f;

	req->deadline_ms = (uint32_t)timeout_ms;
	if (vm_call(p->vm, &p->ask, req, fds, n_fds, timeout_ms + 2000,
		    on_done) < 0) {
		fault_set(&f, FAULT_VM, "the VM ended");
		vm_failed(p, &f);
	}
}

static void on_saved(struct call *c, const struct answer *a)
{
	struct prepare *p = container_of(c, struct prepare, ask);
	const struct mon_rep *rep = a->msg;

	if (a->e) {
		vm_failed_err(p, "save the checkpoint", a->e);
		return;
	}
	p->ck.memory_bytes = rep->mem_bytes;
	for (int i = 0; i < D_DRAFTS_; i++)
		p->drafts[i] = fd_close(p->drafts[i]);
	p->next = 0;
	commit_next(p);
}

static void on_draft(struct call *c, const struct answer *a, int i)
{
	struct prepare *p = container_of(c - i, struct prepare, drafts_c[0]);
	struct mon_req req = { .hdr.op = MON_SAVE };
	const struct st_rep *rep = a->msg;

	if (a->e) {
		finish_err(p, FAULT_FROM_STORE, "make a draft", a->e);
		return;
	}
	if (a->n_fds != 1) {
		bad_answer(p);
		return;
	}
	p->drafts[i] = take_fd(&a->fds[0]);
	p->draft_ids[i] = rep->id;
	p->has_draft[i] = true;
	if (p->has_draft[D_STATE] && p->has_draft[D_MEMORY])
		ask(p, &req, p->drafts, D_DRAFTS_, SAVE_TIMEOUT_MS, on_saved);
}

static void on_draft_state(struct call *c, const struct answer *a)
{
	on_draft(c, a, D_STATE);
}

static void on_draft_memory(struct call *c, const struct answer *a)
{
	on_draft(c, a, D_MEMORY);
}

static void on_template_open(struct call *c, const struct answer *a)
{
	struct prepare *p = container_of(c, struct prepare, ask);
	struct st_req req = { .hdr.op = ST_DRAFT_NEW };

	if (a->e) {
		vm_failed_err(p, "open the template", a->e);
		return;
	}
	prepare_set_phase(p, PREPARE_CHECKPOINTING);
	peer_call(p->node->storaged, &p->drafts_c[D_STATE], &req, sizeof(req),
		  NULL, 0, STORE_TIMEOUT_MS, on_draft_state);
	peer_call(p->node->storaged, &p->drafts_c[D_MEMORY], &req, sizeof(req),
		  NULL, 0, STORE_TIMEOUT_MS, on_draft_memory);
}

static void on_template_renewed(struct call *c, const struct answer *a)
{
	struct prepare *p = container_of(c, struct prepare, ask);
	struct mon_req req = { .hdr.op = MON_OPEN };

	if (a->e)
		vm_failed_err(p, "give the template an identity", a->e);
	else
		ask(p, &req, NULL, 0, BOOT_TIMEOUT_MS, on_template_open);
}

static void on_booted(struct call *c, const struct answer *a)
{
	struct prepare *p = container_of(c, struct prepare, ask);
	struct mon_req req = { .hdr.op = MON_RENEW };

	if (a->e) {
		vm_failed_err(p, "boot", a->e);
		return;
	}
	memcpy(req.sandbox, "sb", 2);
	random_id(req.sandbox + 2, 20);
	snprintf(req.hostname, sizeof(req.hostname), "%s", TEMPLATE_HOSTNAME);
	ask(p, &req, NULL, 0, BOOT_TIMEOUT_MS, on_template_renewed);
}

static void on_overlay(struct call *c, const struct answer *a)
{
	struct prepare *p = container_of(c, struct prepare, ask);
	struct mon_req req = { .hdr.op = MON_BOOT, .n_disks = 2 };
	int fds[2];

	if (a->e) {
		finish_err(p, FAULT_FROM_STORE, "make the overlay", a->e);
		return;
	}
	if (a->n_fds != 1) {
		bad_answer(p);
		return;
	}
	p->files[P_OVERLAY] = take_fd(&a->fds[0]);
	fds[0] = p->files[P_ROOT];
	fds[1] = p->files[P_OVERLAY];
	req.disks[1].qcow2 = 1;
	req.disks[1].writable = 1;
	ask(p, &req, fds, 2, BOOT_TIMEOUT_MS, on_booted);
}

static void on_vm_ready(struct vm *v, const struct fault *f)
{
	struct prepare *p = v->owner;
	struct st_req req = { .hdr.op = ST_OVERLAY_NEW };

	if (f) {
		vm_failed(p, f);
		return;
	}
	memcpy(req.name, v->id, sizeof(v->id));
	req.size = p->ck.disk_bytes;
	v->has_overlay = true;
	store(p, &req, sizeof(req), STORE_TIMEOUT_MS, on_overlay);
}

static void on_vm_gone(struct vm *v, const char *reason, const char *detail)
{
	struct fault f;

	fault_set(&f, FAULT_VM, "the VM ended: %s: %s", reason, detail);
	vm_failed(v->owner, &f);
}

static const struct vm_ops template_ops = { on_vm_ready, on_vm_gone };

static void build_vm(struct prepare *p)
{
	struct vm_size size = { p->spec.res.vcpus, p->spec.res.memory_mib,
				p->node->kvm };
	const int extra[2] = { p->files[P_KERNEL], p->files[P_INITRAMFS] };
	owned_fd argv_fd = -1;
	struct err e = { 0 };
	struct fault f;

	prepare_set_phase(p, PREPARE_BOOTING);
	if (qemu_argv_boot(p->node, &size, &argv_fd, &e) < 0) {
		fault_set(&f, FAULT_INTERNAL, "%s", e.msg);
		finish(p, &f);
		return;
	}
	p->vm = vm_new(p->node, &size, argv_fd, extra, 2, VMM_TIMEOUT_MS,
		       &template_ops, p);
}

/* ---- before: what is there ---- */

static void open_next_file(struct prepare *p);

static void begin_vm(struct prepare *p)
{
	uint64_t want = (uint64_t)p->spec.res.disk_mib << 20;
	struct stat sb;
	struct fault f;

	if (fstat(p->files[P_ROOT], &sb) < 0 || sb.st_size < 512) {
		fault_set(&f, FAULT_CORRUPT, "the root disk is empty");
		finish(p, &f);
		return;
	}
	p->ck.disk_bytes =
	    (uint64_t)sb.st_size > want ? (uint64_t)sb.st_size : want;
	if (node_admit(p->node, p->spec.res.memory_mib, &f) < 0) {
		finish(p, &f);
		return;
	}
	p->is_admitted = true;
	waiting_make_room(p->node->waiting, !slots_has_room(&p->node->slots));
	build_vm(p);
}

static void on_file(struct call *c, const struct answer *a)
{
	static const char *const names[] = { "open the root disk",
					     "open the kernel",
					     "open the initramfs" };
	struct prepare *p = container_of(c, struct prepare, ask);

	if (a->e) {
		finish_err(p, FAULT_FROM_STORE, names[p->next], a->e);
		return;
	}
	if (a->n_fds != 1) {
		bad_answer(p);
		return;
	}
	p->files[p->next++] = take_fd(&a->fds[0]);
	open_next_file(p);
}

static void open_next_file(struct prepare *p)
{
	const struct release *rel = &p->spec.release;
	const char *const digests[] = { rel->root, rel->kernel,
					rel->initramfs };
	struct st_req req = { .hdr.op = ST_OPEN };

	if (p->next == P_OVERLAY) {
		begin_vm(p);
		return;
	}
	memcpy(req.digest, digests[p->next], ST_DIGEST_MAX);
	store(p, &req, sizeof(req), HASH_TIMEOUT_MS, on_file);
}

static void build(struct prepare *p)
{
	struct vm_size size = { p->spec.res.vcpus, p->spec.res.memory_mib,
				p->node->kvm };
	struct err e = { 0 };
	struct fault f;

	memset(&p->ck, 0, sizeof(p->ck));
	memcpy(p->ck.release, p->spec.release.digest, sizeof(p->ck.release));
	memcpy(p->ck.root, p->spec.release.root, sizeof(p->ck.root));
	p->ck.res = p->spec.res;
	if (qemu_compat(p->node, &size, p->spec.release.kernel, p->ck.compat,
			&e) < 0) {
		fault_set(&f, FAULT_INTERNAL, "%s", e.msg);
		finish(p, &f);
		return;
	}
	p->next = 0;
	open_next_file(p);
}

static void verify_next(struct prepare *p);

static void on_verified(struct call *c, const struct answer *a)
{
	struct prepare *p = container_of(c, struct prepare, ask);

	if (!a->e) {
		p->next++;
		verify_next(p);
	} else if (a->e->code == -ENOENT || a->e->code == -EBADMSG) {
		log_warn("checkpoint_unusable", "ref=%s why=%s", p->ref,
			 a->e->msg);
		prepares_drop(p->owner, p->ref);
		build(p);
	} else {
		finish_err(p, FAULT_FROM_STORE, "verify the checkpoint", a->e);
	}
}

static void verify_next(struct prepare *p)
{
	const char *const digests[] = { p->ck.state, p->ck.memory, p->ck.layer,
					p->ck.root };
	struct st_req req = { .hdr.op = ST_OPEN };

	if (p->next == ARRAY_SIZE(digests)) {
		finish(p, NULL);
		return;
	}
	memcpy(req.digest, digests[p->next], ST_DIGEST_MAX);
	store(p, &req, sizeof(req), HASH_TIMEOUT_MS, on_verified);
}

static void on_ref(struct call *c, const struct answer *a)
{
	struct prepare *p = container_of(c, struct prepare, ask);
	const struct st_rep *rep = a->msg;
	struct err e = { 0 };

	if (a->e && a->e->code != -ENOENT) {
		finish_err(p, FAULT_FROM_STORE, "look for a checkpoint", a->e);
		return;
	}
	if (a->e) {
		build(p);
		return;
	}
	if (rep->text_n > a->n - sizeof(*rep) ||
	    ref_parse(rep->text, rep->text_n, &p->ck, &e) < 0 ||
	    strcmp(p->ck.root, p->spec.release.root) != 0) {
		log_warn("ref_unusable", "ref=%s why=%s", p->ref, e.msg);
		prepares_drop(p->owner, p->ref);
		build(p);
		return;
	}
	p->next = 0;
	verify_next(p);
}

void prepare_build(struct prepare *p)
{
	struct st_req req = { .hdr.op = ST_REF_GET };

	loop_timer_set(p->node->loop, &p->deadline, TOTAL_TIMEOUT_MS, on_total);
	prepare_set_phase(p, PREPARE_HASHING);
	memcpy(req.name, p->ref, sizeof(p->ref));
	store(p, &req, sizeof(req), STORE_TIMEOUT_MS, on_ref);
}
