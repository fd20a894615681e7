/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* noded's state: the slots, and who waits for what of them. */

#include "base/list.h"
#include "base/loop.h"
#include "noded/cgroup.h"
#include "noded/conf.h"
#include "noded/noded.h"
#include "noded/slot.h"

#define DESTROY_ASKERS_MAX 4

struct client;

/* One request in flight. The client may go before its answer. */
struct asker {
	struct client *client; /* NULL: nobody waits */
	uint32_t op, seq;
};

struct entry {
	struct slot *slot;
	struct asker create, vmm, monitor, destroy[DESTROY_ASKERS_MAX];
};

struct noded {
	struct loop *loop;
	struct noded_conf conf;
	int lock, listen;
	struct loop_io listen_io;
	struct cgroups cgroups;
	struct list clients;
	struct entry *slots[NODED_SLOTS_MAX]; /* NULL = free */
	unsigned n_slots;
};

DEFINE_CLEANUP(struct noded, noded_free);

struct entry *table_get(const struct noded *n, unsigned number);
struct entry *table_add(struct noded *n, unsigned number);
void table_del(struct noded *n, struct entry *t);
void table_free(struct noded *n);
/* Answer LIST. */
void table_send_list(struct noded *n, struct client *c,
		     const struct channel_hdr *hdr);

void asker_set(struct asker *a, struct client *c, const struct noded_req *q);
/* A free place among those who wait for the end, or NULL. */
struct asker *entry_destroy_asker(struct entry *t);
/* The client is gone: nobody waits any more. */
void table_forget(struct noded *n, const struct client *c);
