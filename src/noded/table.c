/* SPDX-License-Identifier: Apache-2.0 */
#include "noded/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "noded/client.h"

/* An asker's answer, if one still waits. rep may be NULL. */
static void answer(struct asker *a, unsigned slot, const struct err *e,
		   const struct noded_rep *rep, int fd)
{
	struct client *c = a->client;

	a->client = NULL;
	if (c)
		client_reply(c, a->op, a->seq, slot, e, rep, fd);
}

static uint64_t took_us(const struct slot *s)
{
	return now_mono_us() - s->since_us;
}

static void on_built(struct slot *s, const struct err *e)
{
	struct noded *n = s->owner;
	struct entry *t = n->slots[s->number];
	struct noded_rep rep = { .netns = s->netns };

	if (e)
		log_error("slot_create", "slot=%u error=%s", s->number, e->msg);
	else
		log_info("slot_created", "slot=%u netns=%llu us=%llu",
			 s->number, (unsigned long long)s->netns,
			 (unsigned long long)took_us(s));
	answer(&t->create, s->number, e, &rep, -1);
	if (!e)
		return;
	for (size_t i = 0; i < DESTROY_ASKERS_MAX; i++)
		answer(&t->destroy[i], s->number, NULL, NULL, -1);
	table_del(n, t);
}

static void on_destroyed(struct slot *s, const struct err *e)
{
	struct noded *n = s->owner;
	struct entry *t = n->slots[s->number];

	if (e)
		log_error("slot_destroy", "slot=%u error=%s", s->number,
			  e->msg);
	else
		log_info("slot_destroyed", "slot=%u us=%llu", s->number,
			 (unsigned long long)took_us(s));
	for (size_t i = 0; i < DESTROY_ASKERS_MAX; i++)
		answer(&t->destroy[i], s->number, e, NULL, -1);
	if (!e)
		table_del(n, t);
}

static void on_started(struct slot *s, bool is_vmm, const struct err *e)
{
	struct noded *n = s->owner;
	struct entry *t = n->slots[s->number];
	const struct proc *p = is_vmm ? &s->vmm : &s->monitor;
	struct noded_rep rep = { .pid = p->pid };

	if (e)
		log_error("spawn", "slot=%u who=%s error=%s", s->number,
			  is_vmm ? "vmm" : "monitor", e->msg);
	else
		log_info("spawned", "slot=%u who=%s pid=%d us=%llu", s->number,
			 is_vmm ? "vmm" : "monitor", (int)p->pid,
			 (unsigned long long)took_us(s));
	answer(is_vmm ? &t->vmm : &t->monitor, s->number, e, &rep,
	       e ? -1 : proc_pidfd(p));
}

static void on_ended(struct slot *s, bool is_vmm, int status, const char *said)
{
	const char *who = is_vmm ? "vmm" : "monitor";

	if (status >= 0 && WIFSIGNALED(status))
		log_info("ended", "slot=%u who=%s signal=%d said=%s", s->number,
			 who, WTERMSIG(status), said);
	else
		log_info("ended", "slot=%u who=%s status=%d said=%s", s->number,
			 who, status >= 0 ? WEXITSTATUS(status) : -1, said);
}

static const struct slot_ops slot_ops = {
	.on_built = on_built,
	.on_destroyed = on_destroyed,
	.on_started = on_started,
	.on_ended = on_ended,
};

struct entry *table_get(const struct noded *n, unsigned number)
{
	CHECK(number < NODED_SLOTS_MAX);
	return n->slots[number];
}

struct entry *table_add(struct noded *n, unsigned number)
{
	struct entry *t = xnew(struct entry);

	CHECK(number < NODED_SLOTS_MAX && !n->slots[number]);
	t->slot =
	    slot_new(n->loop, &n->conf, &n->cgroups, &slot_ops, n, number);
	n->slots[number] = t;
	n->n_slots++;
	return t;
}

void table_del(struct noded *n, struct entry *t)
{
	n->slots[t->slot->number] = NULL;
	n->n_slots--;
	slot_free(t->slot);
	free(t);
}

void table_free(struct noded *n)
{
	for (unsigned i = 0; i < NODED_SLOTS_MAX; i++)
		if (n->slots[i])
			table_del(n, n->slots[i]);
}

void table_send_list(struct noded *n, struct client *c,
		     const struct channel_hdr *hdr)
{
	size_t size =
	    sizeof(struct noded_list) + n->n_slots * sizeof(struct noded_slot);
	owned_str mem = xcalloc(1, size);
	struct noded_list *list = (struct noded_list *)(void *)mem;

	list->hdr = *hdr;
	for (unsigned i = 0; i < NODED_SLOTS_MAX; i++) {
		const struct slot *s = n->slots[i] ? n->slots[i]->slot : NULL;

		if (!s)
			continue;
		list->slots[list->n++] = (struct noded_slot){
			.slot = i,
			.state = s->state,
			.vmm_pid = s->vmm.pid,
			.monitor_pid = s->monitor.pid,
			.oom_kills = cgroup_oom_kills(&n->cgroups, i),
			.netns = s->netns,
		};
	}
	client_send(c, list, size, -1);
}

void asker_set(struct asker *a, struct client *c, const struct noded_req *q)
{
	a->client = c;
	a->op = q->hdr.op;
	a->seq = q->hdr.seq;
}

struct asker *entry_destroy_asker(struct entry *t)
{
	for (size_t i = 0; i < DESTROY_ASKERS_MAX; i++)
		if (!t->destroy[i].client)
			return &t->destroy[i];
	return NULL;
}

static void forget(struct asker *a, const struct client *c)
{
	if (a->client == c)
		a->client = NULL;
}

void table_forget(struct noded *n, const struct client *c)
{
	for (unsigned i = 0; i < NODED_SLOTS_MAX; i++) {
		struct entry *t = n->slots[i];

		if (!t)
			continue;
		forget(&t->create, c);
		forget(&t->vmm, c);
		forget(&t->monitor, c);
		for (size_t k = 0; k < DESTROY_ASKERS_MAX; k++)
			forget(&t->destroy[k], c);
	}
}
