/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/node.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/check.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "proto/noded.h"
#include "proto/storaged.h"
#include "sandboxd/adopt.h"
#include "sandboxd/engine.h"
#include "sandboxd/engine_qemu.h"
#include "sandboxd/prepare.h"
#include "sandboxd/sandbox.h"
#include "sandboxd/stats.h"
#include "sandboxd/vm.h"
#include "sandboxd/waiting.h"

#define HELLO_TIMEOUT_MS 5000u
#define HELLO_RETRY_MS	 1000u
#define SLOTS_AHEAD	 2u

uint32_t node_memory_default_mib(void)
{
	struct err e = { 0 };
	owned_str text = NULL;
	unsigned long long kib = 0;
	const char *p;
	size_t n;

	if (file_read("/proc/meminfo", 65536, &text, &n, &e) < 0)
		return 1024;
	p = strstr(text, "MemAvailable:");
	if (p)
		kib = strtoull(p + strlen("MemAvailable:"), NULL, 10);
	return (uint32_t)(kib / 1024 * 8 / 10);
}

bool node_lets_in(const struct node *n, uid_t uid)
{
	return uid == 0 || uid == geteuid() || uid == n->conf.client_uid;
}

bool node_lets_peer_in(const struct node *n, int fd)
{
	struct ucred peer;

	if (unix_peer(fd, &peer) == 0 && node_lets_in(n, peer.uid))
		return true;
	log_warn("peer_refused", "why=\"neither root nor --client-user\"");
	return false;
}

int node_admit(struct node *n, uint32_t memory_mib, struct fault *f)
{
	uint32_t cost = memory_mib + NODE_VM_EXTRA_MIB;

	if (map_len(n->sandboxes) >= n->conf.slots) {
		fault_set(f, FAULT_CAPACITY,
			  "all %u slots of node %s are in use", n->conf.slots,
			  n->conf.name);
		return -ENOSPC;
	}
	if (cost > n->conf.memory_mib ||
	    n->memory_used_mib > n->conf.memory_mib - cost) {
		fault_set(f, FAULT_CAPACITY,
			  "memory of node %s: %u of %u MiB are promised, this "
			  "needs %u",
			  n->conf.name, n->memory_used_mib, n->conf.memory_mib,
			  cost);
		return -ENOSPC;
	}
	n->memory_used_mib += cost;
	return 0;
}

void node_unadmit(struct node *n, uint32_t memory_mib)
{
	uint32_t cost = memory_mib + NODE_VM_EXTRA_MIB;

	CHECK(n->memory_used_mib >= cost);
	n->memory_used_mib -= cost;
}

void node_start_begin(struct node *n)
{
	n->starting++;
}

void node_start_end(struct node *n)
{
	CHECK(n->starting > 0);
	if (--n->starting > 0 || !n->ready)
		return;
	slots_refill_soon(&n->slots);
	waiting_refill_soon(n->waiting);
}

/* ---- start ---- */

static void become_ready(struct node *n)
{
	n->ready = true;
	log_info("node_ready",
		 "name=%s incarnation=%s engine=%s sandboxes=%zu "
		 "memory_mib=%u slots=%u",
		 n->conf.name, n->incarnation, n->engine->name,
		 map_len(n->sandboxes), n->conf.memory_mib, n->conf.slots);
	if (n->engine->is_virtual) {
		if (peer_is_up(n->storaged))
			adopt_overlays(n);
		slots_refill_soon(&n->slots);
		waiting_refill_soon(n->waiting);
	}
	if (n->on_ready)
		n->on_ready(n);
}

static void say_hello(struct node *n);

static void on_hello_again(struct loop_timer *t)
{
	say_hello(container_of(t, struct node, hello_again));
}

static void on_probed(struct node *n, const char *failed)
{
	if (failed) {
		log_error("engine_failed", "why=%s", failed);
		loop_timer_set(n->loop, &n->hello_again, HELLO_RETRY_MS,
			       on_hello_again);
		return;
	}
	adopt_begin(n, become_ready);
}

static void on_hello(struct call *c, const struct answer *a)
{
	struct node *n = container_of(c, struct node, hello);
	const struct noded_rep *rep = a->msg;

	if (a->e || rep->version != NODED_VERSION) {
		log_error("noded_refused", "why=%s",
			  a->e ? a->e->msg
			       : "caisson-noded speaks another version; "
				 "install both from one build");
		loop_timer_set(n->loop, &n->hello_again, HELLO_RETRY_MS,
			       on_hello_again);
		return;
	}
	if (n->ready)
		adopt_again(n);
	else if (!n->adopt)
		qemu_probe(n, on_probed);
}

static void say_hello(struct node *n)
{
	struct noded_req req = { .hdr.op = NODED_HELLO };

	if (!peer_is_up(n->noded) || call_is_busy(&n->hello))
		return; /* on_up comes, or the answer */
	peer_call(n->noded, &n->hello, &req, sizeof(req), NULL, 0,
		  HELLO_TIMEOUT_MS, on_hello);
}

static void on_noded_up(struct peer *p)
{
	say_hello(peer_owner(p));
}

static void on_store_hello(struct call *c, const struct answer *a)
{
	struct node *n = container_of(c, struct node, store_hello);

	if (a->e)
		log_error("storaged_refused", "why=%s", a->e->msg);
	if (a->e || !n->ready)
		return;
	/* What could not be dropped while it was away is found here. */
	adopt_overlays(n);
}

static void on_store_up(struct peer *p)
{
	struct node *n = peer_owner(p);
	struct st_req req = { .hdr.op = ST_HELLO };

	call_cancel(&n->store_hello);
	peer_call(n->storaged, &n->store_hello, &req, sizeof(req), NULL, 0,
		  HELLO_TIMEOUT_MS, on_store_hello);
}

static void on_noded_down(struct peer *p, const struct err *e)
{
	(void)p;
	log_debug("noded_down", "why=%s", e->msg);
}

static void on_store_down(struct peer *p, const struct err *e)
{
	(void)p;
	log_debug("storaged_down", "why=%s", e->msg);
}

/* A draft that came too late belongs to nobody. */
static void on_store_late(struct peer *p, const void *msg, size_t size)
{
	const struct st_rep *rep = msg;
	struct st_req req = { .hdr.op = ST_DRAFT_DROP };

	(void)size;
	if (rep->hdr.op != ST_DRAFT_NEW || rep->r < 0)
		return;
	req.id = rep->id;
	peer_send(p, &req, sizeof(req), NULL, 0);
}

static const struct peer_ops noded_peer_ops = {
	.on_up = on_noded_up,
	.on_down = on_noded_down,
};
static const struct peer_ops store_peer_ops = {
	.on_up = on_store_up,
	.on_down = on_store_down,
	.on_late = on_store_late,
};

static int open_journal(struct node *n, struct err *e)
{
	owned_str path = xasprintf("%s/sandboxd/journal", n->conf.run);
	int r = mkdir_p(path, 0700, e);

	if (r < 0)
		return err_wrap(e,
				"%s (make %s/sandboxd for this daemon's user)",
				path, n->conf.run);
	n->journal_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (n->journal_fd < 0)
		return err_errno(e, errno, "%s", path);
	return 0;
}

static void start_null(struct loop_timer *t)
{
	struct node *n = container_of(t, struct node, hello_again);

	snprintf(n->isolation_reason, sizeof(n->isolation_reason),
		 "the null engine runs no VM");
	become_ready(n);
}

static void start_peers(struct node *n)
{
	owned_str noded = xasprintf("%s/noded.sock", n->conf.run);
	owned_str storaged = xasprintf("%s/storaged.sock", n->conf.run);

	n->noded =
	    peer_new(n->loop, &peer_noded, noded, true, &noded_peer_ops, n);
	n->storaged = peer_new(n->loop, &peer_storaged, storaged, true,
			       &store_peer_ops, n);
	slots_init(&n->slots, n, n->conf.slots, n->conf.waiting + SLOTS_AHEAD);
	n->waiting = waiting_new(n, n->conf.waiting);
	n->prepares = prepares_new(n);
}

struct node *node_new(struct loop *l, const struct node_conf *conf,
		      void (*on_ready)(struct node *), struct err *e)
{
	struct node *n = xnew(struct node);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	n->loop = l;
	n->conf = *conf;
	n->on_ready = on_ready;
	n->journal_fd = -1;
	n->vcpus = cpus > 0 ? (uint32_t)cpus : 1;
	random_id(n->incarnation, 20);
	list_init(&n->vms);
	events_init(&n->events);
	samples_init(&n->samples);
	sandboxes_init(n);
	stats_init();
	n->engine =
	    strcmp(conf->engine, "null") == 0 ? &engine_null : &engine_qemu;
	if (!n->engine->is_virtual) {
		loop_timer_set(l, &n->hello_again, 0, start_null);
		return n;
	}
	if (open_journal(n, e) < 0)
		return node_free(n);
	start_peers(n);
	return n;
}

struct node *node_free(struct node *n)
{
	if (!n)
		return NULL;
	loop_timer_del(&n->hello_again);
	call_cancel(&n->hello);
	call_cancel(&n->list);
	call_cancel(&n->overlays);
	call_cancel(&n->store_hello);
	n->ready = false;
	sandboxes_fini(n);
	n->prepares = prepares_free(n->prepares);
	n->waiting = waiting_free(n->waiting);
	adopt_fini(n);
	while (!list_empty(&n->vms))
		vm_free(list_entry(n->vms.next, struct vm, link));
	slots_fini(&n->slots);
	qemu_free(n);
	n->noded = peer_free(n->noded);
	n->storaged = peer_free(n->storaged);
	events_fini(&n->events);
	samples_fini(&n->samples);
	fd_close(n->journal_fd);
	free(n);
	return NULL;
}
