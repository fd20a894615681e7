/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/adopt.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "proto/noded.h"
#include "proto/storaged.h"
#include "sandboxd/journal.h"
#include "sandboxd/node.h"
#include "sandboxd/prepare.h"
#include "sandboxd/sandbox.h"
#include "sandboxd/start.h"
#include "sandboxd/vm.h"

#define LIST_TIMEOUT_MS 10000u
#define OPEN_TIMEOUT_MS 5000u
#define RETRY_MS	500u

/* One of these while VMs are being taken over. */
struct adopt {
	struct node *node;
	unsigned pending;
	struct loop_timer timer;
	void (*on_done)(struct node *);
};

struct adopted {
	struct adopt *a;
	struct sandbox *s;
	const char *lost_reason; /* if it cannot be taken over */
	struct call open;
	struct vm *vm;
};

static void one_less(struct adopt *a)
{
	struct node *n = a->node;
	void (*on_done)(struct node *) = a->on_done;

	if (--a->pending > 0)
		return;
	loop_timer_del(&a->timer);
	free(a);
	if (on_done)
		on_done(n);
}

static void settle(struct adopted *ad, const char *reason, const char *why)
{
	struct adopt *a = ad->a;

	call_cancel(&ad->open);
	ad->vm->ops = &sandbox_vm_ops;
	ad->vm->owner = ad->s;
	if (reason) {
		sandbox_gone(ad->s, reason, why);
	} else {
		log_info("sandbox_adopted", "sandbox=%s vm=%s", ad->s->id,
			 ad->vm->id);
	}
	free(ad);
	one_less(a);
}

static void on_open(struct call *c, const struct answer *ans)
{
	struct adopted *ad = container_of(c, struct adopted, open);

	settle(ad, ans->e ? "vmm_error" : NULL, ans->e ? ans->e->msg : "");
}

static void on_ready(struct vm *v, const struct fault *f)
{
	struct adopted *ad = v->owner;
	struct mon_req req = { .hdr.op = MON_OPEN,
			       .deadline_ms = OPEN_TIMEOUT_MS };

	if (f) {
		settle(ad, ad->lost_reason ? ad->lost_reason : "vmm_error",
		       f->msg);
		return;
	}
	if (v->phase == MON_OPENED) {
		settle(ad, NULL, "");
		return;
	}
	/* Confirmed but not open yet: finish that step. */
	if (vm_call(v, &ad->open, &req, NULL, 0, OPEN_TIMEOUT_MS, on_open) < 0)
		settle(ad, "vmm_error", "its monitor is gone");
}

static void on_gone(struct vm *v, const char *reason, const char *detail)
{
	settle(v->owner, reason, detail);
}

static const struct vm_ops adopt_ops = { on_ready, on_gone };

static void adopt_one(struct adopt *a, const struct journal *j,
		      const struct noded_slot *sl)
{
	struct adopted *ad = xnew(struct adopted);

	ad->a = a;
	ad->s = sandbox_adopt(a->node, j);
	if (sl->oom_kills > 0 && (sl->vmm_pid <= 0 || sl->monitor_pid <= 0))
		ad->lost_reason = "oom";
	else if (sl->vmm_pid <= 0)
		ad->lost_reason = "vmm_exit";
	a->pending++;
	ad->vm = vm_adopt(a->node, j, sl->vmm_pid, sl->monitor_pid, sl->netns,
			  &adopt_ops, ad);
	ad->s->vm = ad->vm;
}

static void destroy_unknown(struct node *n, const struct noded_slot *sl)
{
	struct noded_req req = { .hdr.op = NODED_SLOT_DESTROY };
	struct slot *s = slots_adopt(&n->slots, sl->slot, sl->netns);

	journal_remove(n->journal_fd, sl->slot);
	if (s) {
		slot_destroy(s, NULL, NULL);
		return;
	}
	/* A number beyond --slots: not ours to use, but ours to end. */
	req.slot = sl->slot;
	peer_send(n->noded, &req, sizeof(req), NULL, 0);
}

static void look_at(struct adopt *a, const struct noded_slot *sl)
{
	struct node *n = a->node;
	struct journal j;
	int r = journal_read(n->journal_fd, sl->slot, &j);

	if (r == 0 && j.step >= JOURNAL_CONFIRMED && sl->slot < n->slots.n &&
	    !sandbox_get(n, j.sandbox)) {
		adopt_one(a, &j, sl);
		return;
	}
	log_info("slot_unclaimed", "slot=%u journal=%d step=%u", sl->slot, r,
		 r == 0 ? j.step : 0);
	if (r == 0 && j.step >= JOURNAL_CONFIRMED && !sandbox_get(n, j.sandbox))
		sandbox_lost(n, &j, "vmm_error",
			     "its slot is beyond this node's --slots");
	destroy_unknown(n, sl);
}

/* Journals of slots that noded does not know: their VMs are gone. */
static void look_at_journals(struct node *n, const bool *present)
{
	int fd = openat(n->journal_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *d;
	struct journal j;
	DIR *dir;

	CHECK(fd >= 0);
	dir = fdopendir(fd);
	CHECK(dir);
	while ((d = readdir(dir))) {
		char *end;
		unsigned long slot = strtoul(d->d_name, &end, 10);

		if (end == d->d_name || *end || slot >= NODED_SLOTS_MAX ||
		    present[slot])
			continue;
		if (journal_read(n->journal_fd, (uint32_t)slot, &j) == 0 &&
		    j.step >= JOURNAL_CONFIRMED)
			sandbox_lost(n, &j, "vmm_exit",
				     "its slot was gone when the node's "
				     "manager came back");
		journal_remove(n->journal_fd, (uint32_t)slot);
	}
	closedir(dir);
}

static uint32_t list_len(const struct answer *ans)
{
	const struct noded_list *l = ans->msg;
	size_t n = (ans->n - sizeof(*l)) / sizeof(l->slots[0]);

	return l->n < n ? l->n : (uint32_t)n;
}

static void note_present(const struct answer *ans, bool *present)
{
	const struct noded_list *l = ans->msg;

	for (uint32_t i = 0; i < list_len(ans); i++)
		if (l->slots[i].slot < NODED_SLOTS_MAX)
			present[l->slots[i].slot] = true;
}

static void ask_list(struct loop_timer *t);

static void on_first_list(struct call *c, const struct answer *ans)
{
	struct node *n = container_of(c, struct node, list);
	struct adopt *a = n->adopt;
	const struct noded_list *l = ans->msg;
	bool present[NODED_SLOTS_MAX] = { false };

	if (ans->e) {
		log_warn("list_failed", "why=%s", ans->e->msg);
		loop_timer_set(n->loop, &a->timer, RETRY_MS, ask_list);
		return;
	}
	n->adopt = NULL;
	note_present(ans, present);
	a->pending = 1;
	for (uint32_t i = 0; i < list_len(ans); i++)
		if (l->slots[i].slot < NODED_SLOTS_MAX)
			look_at(a, &l->slots[i]);
	look_at_journals(n, present);
	one_less(a);
}

static void send_list(struct node *n,
		      void (*on_list)(struct call *, const struct answer *))
{
	struct noded_req req = { .hdr.op = NODED_LIST };

	call_cancel(&n->list);
	peer_call(n->noded, &n->list, &req, sizeof(req), NULL, 0,
		  LIST_TIMEOUT_MS, on_list);
}

static void ask_list(struct loop_timer *t)
{
	struct adopt *a = container_of(t, struct adopt, timer);

	send_list(a->node, on_first_list);
}

void adopt_begin(struct node *n, void (*on_done)(struct node *))
{
	struct adopt *a = xnew(struct adopt);

	a->node = n;
	a->on_done = on_done;
	n->adopt = a;
	send_list(n, on_first_list);
}

void adopt_fini(struct node *n)
{
	if (!n->adopt)
		return;
	loop_timer_del(&n->adopt->timer);
	free(n->adopt);
	n->adopt = NULL;
}

static void on_list_again(struct call *c, const struct answer *ans)
{
	struct node *n = container_of(c, struct node, list);
	const struct noded_list *l = ans->msg;
	bool present[NODED_SLOTS_MAX] = { false };

	if (ans->e) {
		log_warn("list_failed", "why=%s", ans->e->msg);
		return; /* it went down again: the next on_up asks again */
	}
	note_present(ans, present);
	slots_forget_ready(&n->slots, present);
	for (uint32_t i = 0; i < list_len(ans); i++) {
		uint32_t k = l->slots[i].slot;

		if (k < n->slots.n && n->slots.all[k].state == SLOT_FREE)
			destroy_unknown(n, &l->slots[i]);
	}
	slots_refill_soon(&n->slots);
}

void adopt_again(struct node *n)
{
	send_list(n, on_list_again);
}

static bool is_held(struct node *n, const char *name)
{
	struct vm *v;

	list_for_each (v, &n->vms, link) {
		if (strcmp(v->id, name) == 0)
			return true;
	}
	return prepares_hold(n->prepares, name);
}

static void on_overlays(struct call *c, const struct answer *ans)
{
	struct node *n = container_of(c, struct node, overlays);
	const struct st_rep *rep = ans->msg;
	const char *p, *end;

	if (ans->e) {
		log_warn("overlays_unread", "why=%s", ans->e->msg);
		return;
	}
	if (rep->text_n > ans->n - sizeof(*rep))
		return;
	end = rep->text + rep->text_n;
	for (p = rep->text; p < end; p += strnlen(p, (size_t)(end - p)) + 1) {
		struct st_req req = { .hdr.op = ST_OVERLAY_DROP };
		size_t len = strnlen(p, (size_t)(end - p));

		if (p + len == end || len >= sizeof(req.name) ||
		    !id_valid(p, "vm-", 20) || is_held(n, p))
			continue;
		memcpy(req.name, p, len);
		log_info("overlay_unclaimed", "name=%s", req.name);
		peer_send(n->storaged, &req, sizeof(req), NULL, 0);
	}
}

void adopt_overlays(struct node *n)
{
	struct st_req req = { .hdr.op = ST_OVERLAY_LIST };

	call_cancel(&n->overlays);
	peer_call(n->storaged, &n->overlays, &req, sizeof(req), NULL, 0,
		  LIST_TIMEOUT_MS, on_overlays);
}
