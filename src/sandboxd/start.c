/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/start.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "sandboxd/node.h"
#include "sandboxd/prepare.h"
#include "sandboxd/restore.h"
#include "sandboxd/sandbox.h"
#include "sandboxd/vm.h"
#include "sandboxd/waiting.h"

struct start {
	struct sandbox *s;
	char ref[72];
	struct checkpoint ck;
	bool was_rebuilt; /* an unusable checkpoint is replaced once */
	bool was_cold;	  /* a warm VM that failed is replaced once */
	bool is_claiming, is_preparing;
	struct waiter prepared;
	struct claim claim;
	struct restore restore;
	struct call ask;
	struct loop_timer deadline;
	uint64_t begin_us, mark_us;
};

static void fail(struct start *st, const struct fault *f)
{
	struct sandbox *s = st->s;
	struct fault copy = *f;

	start_cancel(s);
	sandbox_failed(s, &copy);
}

static void mark(struct start *st, enum timing t)
{
	uint64_t now = now_mono_us();

	st->s->timings_us[t] += now - st->mark_us;
	st->mark_us = now;
}

static uint64_t left_ms(const struct start *st)
{
	uint64_t now = loop_now_ms(st->s->node->loop);
	uint64_t at = st->s->deadline_ms;

	return at > now ? at - now : 1;
}

static int journal_step(struct sandbox *s, enum journal_step step)
{
	struct journal j = { 0 };

	j.slot = s->vm->slot->number;
	j.step = step;
	j.generation = s->generation;
	j.fence = s->fence;
	j.vcpus = s->spec.res.vcpus;
	j.memory_mib = s->spec.res.memory_mib;
	j.disk_mib = s->spec.res.disk_mib;
	j.kvm = s->vm->size.kvm;
	j.cpu_base_ms = (uint32_t)s->vm->source.cpu_base_ms;
	snprintf(j.sandbox, sizeof(j.sandbox), "%s", s->id);
	snprintf(j.operation, sizeof(j.operation), "%s", s->operation);
	snprintf(j.vm, sizeof(j.vm), "%s", s->vm->id);
	snprintf(j.hostname, sizeof(j.hostname), "%s", s->spec.hostname);
	snprintf(j.release, sizeof(j.release), "%s", s->spec.release.digest);
	snprintf(j.spec, sizeof(j.spec), "%s", s->spec.digest);
	return journal_write(s->node->journal_fd, &j);
}

static void vm_ended(struct start *st)
{
	struct fault f;

	fault_set(&f, FAULT_VM, "the VM ended while it was started");
	fail(st, &f);
}

/* Ask the monitor for the next step, or fail. */
static void ask(struct start *st, struct mon_req *req,
		void (*on_done)(struct call *, const struct answer *))
{
	uint64_t left = left_ms(st);

	req->deadline_ms = (uint32_t)left;
	/* A little more for ourselves: the monitor knows better why. */
	if (vm_call(st->s->vm, &st->ask, req, NULL, 0, left + 50, on_done) < 0)
		vm_ended(st);
}

/* The answer to a step; false if the start is over. */
static bool step_ok(struct start *st, const char *doing, const struct answer *a)
{
	struct fault f;

	if (!a->e)
		return true;
	fault_from_err(&f, FAULT_FROM_MONITOR, doing, a->e);
	fail(st, &f);
	return false;
}

static bool write_journal(struct start *st, enum journal_step step)
{
	struct fault f;
	int r = journal_step(st->s, step);

	if (r == 0)
		return true;
	fault_set(&f, FAULT_INTERNAL, "write the slot's journal: errno %d", -r);
	fail(st, &f);
	return false;
}

static void on_opened(struct call *c, const struct answer *a)
{
	struct start *st = container_of(c, struct start, ask);
	struct sandbox *s = st->s;

	if (!step_ok(st, "open", a))
		return;
	mark(st, TIMING_OPEN);
	s->timings_us[TIMING_TOTAL] = now_mono_us() - st->begin_us;
	/* Not fatal: CONFIRMED is enough to take it over. */
	journal_step(s, JOURNAL_OPEN);
	start_cancel(s);
	sandbox_started(s);
}

static bool retry_cold(struct start *st, const char *why);

static void on_renewed(struct call *c, const struct answer *a)
{
	struct start *st = container_of(c, struct start, ask);
	struct mon_req req = { .hdr.op = MON_OPEN };
	const struct mon_rep *rep = a->msg;

	if ((a->e && retry_cold(st, a->e->msg)) ||
	    !step_ok(st, "give it its identity", a))
		return;
	mark(st, TIMING_RENEW);
	if (st->claim.path == CLAIM_WARM) {
		st->s->timings_us[TIMING_CONT] = rep->times.cont_us;
		st->s->timings_us[TIMING_CONNECT] = rep->times.connect_us;
	}
	if (write_journal(st, JOURNAL_CONFIRMED))
		ask(st, &req, on_opened);
}

static void renew(struct start *st)
{
	struct mon_req req = { .hdr.op = MON_RENEW };

	snprintf(req.sandbox, sizeof(req.sandbox), "%s", st->s->id);
	snprintf(req.hostname, sizeof(req.hostname), "%s",
		 st->s->spec.hostname);
	ask(st, &req, on_renewed);
}

/* ---- one that was not warm ---- */

static void on_loaded(struct restore *r, const struct answer *a)
{
	struct start *st = container_of(r, struct start, restore);
	const struct mon_rep *rep = a->msg;
	uint64_t *t = st->s->timings_us;

	if (!step_ok(st, "load the checkpoint", a))
		return;
	mark(st, TIMING_LOAD);
	t[TIMING_QMP] = rep->times.qmp_us;
	t[TIMING_MAP] = rep->times.map_us;
	t[TIMING_DISK] = rep->times.disk_us;
	t[TIMING_STATE] = rep->times.load_us;
	t[TIMING_CONT] = rep->times.cont_us;
	t[TIMING_CONNECT] = rep->times.connect_us;
	renew(st);
}

static void find_checkpoint(struct start *st);

/* A checkpoint whose files are gone or changed is no checkpoint: build another
 * one, once. The VM that was claimed is clean and waits. */
static void open_failed(struct start *st, const struct err *e)
{
	struct fault f;

	if (restore_is_unusable(e) && !st->was_rebuilt) {
		st->was_rebuilt = true;
		log_warn("checkpoint_unusable", "ref=%s why=%s", st->ref,
			 e->msg);
		prepares_drop(st->s->node->prepares, st->ref);
		find_checkpoint(st);
		return;
	}
	fault_from_err(&f, FAULT_FROM_STORE, "open the checkpoint", e);
	fail(st, &f);
}

static void on_opened_files(struct restore *r, const struct err *e)
{
	struct start *st = container_of(r, struct start, restore);

	if (e) {
		open_failed(st, e);
		return;
	}
	mark(st, TIMING_STORE);
	if (!write_journal(st, JOURNAL_RESTORING))
		return;
	if (restore_load(r, 0, left_ms(st), on_loaded) < 0)
		vm_ended(st);
}

static void restore(struct start *st)
{
	mark(st, TIMING_CLAIM);
	restore_open(&st->restore, st->s->vm, &st->ck, left_ms(st),
		     on_opened_files);
}

static void on_claimed(struct claim *c, struct vm *v, const struct fault *f)
{
	struct start *st = container_of(c, struct start, claim);

	st->is_claiming = false;
	if (!v) {
		fail(st, f);
		return;
	}
	st->s->vm = v;
	v->ops = &sandbox_vm_ops;
	v->owner = st->s;
	st->s->path = claim_path_names[c->path];
	/* what it took to warm it is nobody's */
	v->source.pid = v->vmm.pid;
	v->source.cpu_base_ms = usage_cpu_ms(&v->source);
	if (c->path != CLAIM_WARM) {
		restore(st);
		return;
	}
	mark(st, TIMING_CLAIM);
	/* Before its CPUs go on: from here it is this sandbox's or nobody's. */
	if (write_journal(st, JOURNAL_RESTORING))
		renew(st);
}

static void claim(struct start *st)
{
	struct sandbox *s = st->s;
	struct vm_size size = { s->spec.res.vcpus, s->spec.res.memory_mib,
				s->node->kvm };

	st->is_claiming = true;
	waiting_claim(s->node->waiting, &st->claim, st->ref, &size,
		      st->was_cold, left_ms(st), on_claimed);
}

/* A warm VM that does not come back is no reason to fail: nobody has seen it
 * yet. false: it was not one, or its second try. */
static bool retry_cold(struct start *st, const char *why)
{
	struct sandbox *s = st->s;
	struct vm *v = s->vm;

	if (!v || st->was_cold || st->claim.path != CLAIM_WARM)
		return false;
	log_warn("warm_vm_lost", "sandbox=%s vm=%s why=%s", s->id, v->id, why);
	call_cancel(&st->ask);
	st->was_cold = true;
	s->vm = NULL;
	vm_end(v, NULL, NULL);
	claim(st);
	return true;
}

static void have_checkpoint(struct start *st, const struct checkpoint *ck)
{
	struct sandbox *s = st->s;

	st->ck = *ck;
	waiting_use(s->node->waiting, st->ref, &st->ck);
	if (s->vm)
		restore(st);
	else
		claim(st);
}

static void on_prepared(struct waiter *w, const struct fault *f)
{
	struct start *st = container_of(w, struct start, prepared);
	const struct checkpoint *ck;
	struct fault gone;

	st->is_preparing = false;
	mark(st, TIMING_PREPARE);
	if (f) {
		fail(st, f);
		return;
	}
	ck = prepares_find(st->s->node->prepares, st->ref);
	if (!ck) {
		fault_set(&gone, FAULT_INTERNAL, "the checkpoint is gone");
		fail(st, &gone);
		return;
	}
	have_checkpoint(st, ck);
}

static void find_checkpoint(struct start *st)
{
	struct prepares *ps = st->s->node->prepares;
	const struct checkpoint *ck = prepares_find(ps, st->ref);
	struct fault f;

	mark(st, TIMING_REF);
	if (ck) {
		have_checkpoint(st, ck);
		return;
	}
	st->is_preparing = true;
	if (!prepare_need(ps, &st->s->spec, &st->prepared, &f)) {
		st->is_preparing = false;
		fail(st, &f);
	}
}

static void on_deadline(struct loop_timer *t)
{
	struct start *st = container_of(t, struct start, deadline);
	const char *doing =
	    st->is_preparing  ? "building the boot checkpoint"
	    : st->is_claiming ? "starting a VMM"
	    : call_is_busy(&st->ask) || call_is_busy(&st->restore.ask)
		? "restoring"
		: "opening artifacts";
	struct fault f;

	fault_set(&f, FAULT_TIMEOUT, "the time given ran out while %s", doing);
	fail(st, &f);
}

void start_begin(struct sandbox *s)
{
	struct start *st = xnew(struct start);
	struct err e = { 0 };
	struct fault f;

	st->s = s;
	s->start = st;
	st->prepared.on_done = on_prepared;
	restore_init(&st->restore);
	st->begin_us = st->mark_us = now_mono_us();
	node_start_begin(s->node);
	loop_timer_set(s->node->loop, &st->deadline, left_ms(st), on_deadline);
	if (prepares_ref(s->node->prepares, &s->spec, st->ref, &e) < 0) {
		fault_set(
		    &f, e.kind == ERR_INVALID ? FAULT_INVALID : FAULT_INTERNAL,
		    "%s", e.msg);
		fail(st, &f);
		return;
	}
	find_checkpoint(st);
}

void start_cancel(struct sandbox *s)
{
	struct start *st = s->start;

	if (!st)
		return;
	s->start = NULL;
	loop_timer_del(&st->deadline);
	call_cancel(&st->ask);
	restore_stop(&st->restore);
	if (st->is_claiming)
		waiting_cancel(&st->claim);
	if (st->prepared.link.next)
		list_del(&st->prepared.link);
	node_start_end(s->node);
	free(st);
}

static void on_vm_ready(struct vm *v, const struct fault *f)
{
	/* Claimed VMs were ready before. */
	(void)v;
	(void)f;
}

static void on_vm_gone(struct vm *v, const char *reason, const char *detail)
{
	struct sandbox *s = v->owner;
	struct fault f;

	if (s->state == SANDBOX_STARTING && s->start) {
		if (retry_cold(s->start, reason))
			return;
		fault_set(&f, FAULT_VM, "the VM ended while it started: %s: %s",
			  reason, detail);
		fail(s->start, &f);
		return;
	}
	sandbox_gone(s, reason, detail);
}

const struct vm_ops sandbox_vm_ops = { on_vm_ready, on_vm_gone };
