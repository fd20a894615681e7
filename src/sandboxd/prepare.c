/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/prepare.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "proto/storaged.h"
#include "sandboxd/engine_qemu.h"
#include "sandboxd/node.h"
#include "sandboxd/prepare-int.h"
#include "sandboxd/stats.h"
#include "sandboxd/waiting.h"

#define FINISHED_MAX 64u /* finished ones that stay readable */

static const char *const phase_names[] = {
	[PREPARE_HASHING] = "hashing",
	[PREPARE_BOOTING] = "booting",
	[PREPARE_CHECKPOINTING] = "checkpointing",
	[PREPARE_READY] = "ready",
	[PREPARE_FAILED] = "failed",
};

struct prepares *prepares_new(struct node *n)
{
	struct prepares *ps = xnew(struct prepares);

	ps->node = n;
	ps->known = map_new();
	list_init(&ps->all);
	return ps;
}

static void prepare_free(struct prepare *p)
{
	list_del(&p->link);
	free(p);
}

struct prepares *prepares_free(struct prepares *ps)
{
	const char *key;
	void *value;

	if (!ps)
		return NULL;
	loop_defer_del(&ps->next);
	if (ps->current)
		prepare_stop(ps->current);
	while (!list_empty(&ps->all))
		prepare_free(
		    list_entry(list_first(&ps->all), struct prepare, link));
	for (size_t pos = 0; map_next(ps->known, &pos, &key, &value);)
		free(value);
	map_free(ps->known);
	free(ps);
	return NULL;
}

const struct checkpoint *prepares_find(struct prepares *ps, const char *ref)
{
	return map_get(ps->known, ref);
}

bool prepares_hold(const struct prepares *ps, const char *overlay)
{
	return ps->current && strcmp(ps->current->overlay, overlay) == 0;
}

bool prepares_is_busy(const struct prepares *ps)
{
	return ps->current != NULL;
}

void prepares_drop(struct prepares *ps, const char *ref)
{
	struct st_req req = { .hdr.op = ST_REF_DROP };

	free(map_del(ps->known, ref));
	waiting_forget(ps->node->waiting, ref);
	snprintf(req.name, sizeof(req.name), "%s", ref);
	peer_send(ps->node->storaged, &req, sizeof(req), NULL, 0);
}

int prepares_ref(struct prepares *ps, const struct spec *spec, char ret[72],
		 struct err *e)
{
	struct vm_size size = { spec->res.vcpus, spec->res.memory_mib,
				ps->node->kvm };
	char compat[72];
	int r = qemu_compat(ps->node, &size, spec->release.kernel, compat, e);

	if (r < 0)
		return r;
	ref_name(spec->release.digest, compat, &spec->res, ret);
	return 0;
}

static bool is_over(const struct prepare *p)
{
	return p->phase == PREPARE_READY || p->phase == PREPARE_FAILED;
}

static void forget_old(struct prepares *ps)
{
	struct prepare *p, *tmp;
	unsigned n = 0;

	list_for_each (p, &ps->all, link) {
		n += is_over(p);
	}
	list_for_each_safe (p, tmp, &ps->all, link) {
		if (n <= FINISHED_MAX)
			return;
		if (is_over(p)) {
			prepare_free(p);
			n--;
		}
	}
}

static void run_next(struct loop_defer *d)
{
	struct prepares *ps = container_of(d, struct prepares, next);
	struct prepare *p;

	if (ps->current)
		return;
	list_for_each (p, &ps->all, link) {
		if (!p->is_queued)
			continue;
		p->is_queued = false;
		ps->current = p;
		p->begin_us = now_mono_us();
		prepare_build(p);
		return;
	}
}

static struct prepare *find_active(struct prepares *ps, const char *ref)
{
	struct prepare *p;

	list_for_each (p, &ps->all, link) {
		if (!is_over(p) && strcmp(p->ref, ref) == 0)
			return p;
	}
	return NULL;
}

static struct prepare *prepare_new(struct prepares *ps, const struct spec *spec,
				   const char *ref)
{
	struct prepare *p = xnew(struct prepare);

	p->owner = ps;
	p->node = ps->node;
	p->spec = *spec;
	memcpy(p->id, "prp_", 4);
	random_id(p->id + 4, 16);
	snprintf(p->ref, sizeof(p->ref), "%s", ref);
	list_init(&p->waiters);
	for (int i = 0; i < P_FILES_; i++)
		p->files[i] = -1;
	for (int i = 0; i < D_DRAFTS_; i++)
		p->drafts[i] = -1;
	list_add_tail(&ps->all, &p->link);
	return p;
}

struct prepare *prepare_need(struct prepares *ps, const struct spec *spec,
			     struct waiter *w, struct fault *f)
{
	struct err e = { 0 };
	struct prepare *p;
	char ref[72];

	if (prepares_ref(ps, spec, ref, &e) < 0) {
		fault_set(
		    f, e.kind == ERR_INVALID ? FAULT_INVALID : FAULT_INTERNAL,
		    "%s", e.msg);
		return NULL;
	}
	p = find_active(ps, ref);
	if (!p) {
		forget_old(ps);
		p = prepare_new(ps, spec, ref);
		if (prepares_find(ps, ref)) {
			p->phase = PREPARE_READY;
		} else {
			p->is_queued = true;
			if (!ps->next.loop)
				loop_defer_add(ps->node->loop, &ps->next,
					       run_next);
		}
	}
	if (w)
		prepare_wait(p, w);
	return p;
}

struct prepare *prepare_get(struct prepares *ps, const char *id)
{
	struct prepare *p;

	list_for_each (p, &ps->all, link) {
		if (strcmp(p->id, id) == 0)
			return p;
	}
	return NULL;
}

void prepare_wait(struct prepare *p, struct waiter *w)
{
	list_init(&w->link);
	if (is_over(p))
		w->on_done(w, p->phase == PREPARE_READY ? NULL : &p->fault);
	else
		list_add_tail(&p->waiters, &w->link);
}

void prepare_set_phase(struct prepare *p, enum prepare_phase phase)
{
	p->phase = phase;
	log_info("prepare_phase", "prepare=%s release=%s phase=%s", p->id,
		 p->spec.release.digest, phase_names[phase]);
}

void prepare_done(struct prepare *p, const struct fault *f)
{
	struct prepares *ps = p->owner;
	struct checkpoint *ck;
	struct list told;

	CHECK(ps->current == p);
	ps->current = NULL;
	stats_prepare(!f);
	if (f) {
		p->fault = *f;
		log_error("prepare_failed", "prepare=%s why=%s", p->id, f->msg);
		prepare_set_phase(p, PREPARE_FAILED);
	} else {
		ck = xnew(struct checkpoint);
		*ck = p->ck;
		free(map_set(ps->known, p->ref, ck));
		log_info("prepare_ready", "prepare=%s ms=%llu", p->id,
			 (unsigned long long)(now_mono_us() - p->begin_us) /
			     1000);
		prepare_set_phase(p, PREPARE_READY);
		waiting_use(p->node->waiting, p->ref, ck);
	}
	waiting_refill_soon(p->node->waiting);
	/* Whoever is told may ask for more, and p may be forgotten then. */
	list_init(&told);
	while (!list_empty(&p->waiters)) {
		struct list *l = p->waiters.next;

		list_del(l);
		list_add_tail(&told, l);
	}
	if (!ps->next.loop)
		loop_defer_add(ps->node->loop, &ps->next, run_next);
	while (!list_empty(&told)) {
		struct waiter *w =
		    list_entry(list_first(&told), struct waiter, link);

		list_del(&w->link);
		w->on_done(w, f);
	}
}

const char *prepare_id(const struct prepare *p)
{
	return p->id;
}

enum prepare_phase prepare_phase(const struct prepare *p)
{
	return p->phase;
}

const char *prepare_phase_name(enum prepare_phase phase)
{
	return phase_names[phase];
}

const struct fault *prepare_fault(const struct prepare *p)
{
	return p->phase == PREPARE_FAILED ? &p->fault : NULL;
}

void prepare_progress(const struct prepare *p, uint64_t *ret_done,
		      uint64_t *ret_total)
{
	*ret_done = p->phase == PREPARE_FAILED ? 0 : (uint64_t)p->phase;
	*ret_total = PREPARE_READY;
}
