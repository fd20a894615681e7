/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The node: what this daemon knows, in one place, on one loop.
 *
 * A sandbox (identity, wishes; sandbox.h) and a VM (slot, processes, monitor;
 * vm.h) are separate objects, bound when a VM is claimed. Nothing here parses a
 * byte that a guest or a VMM wrote: monitors do that, one per sandbox, and
 * their answers are fixed structs whose texts are only shown.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "sandboxd/events.h"
#include "sandboxd/peer.h"
#include "sandboxd/samples.h"
#include "sandboxd/slots.h"

struct adopt;
struct engine;
struct prepares;
struct waiting;

/* Memory a VM needs besides its guest's: the software engine's translation
 * cache and QEMU itself. */
#define NODE_VM_EXTRA_MIB (64u + 64u)

struct node_conf {
	const char *run;    /* /run/caisson */
	const char *name;   /* as the control plane knows this node */
	const char *engine; /* auto, qemu, null */
	const char *qemu, *shim;
	uint32_t slots, waiting, memory_mib;
	uid_t client_uid; /* may connect, besides root and our own; 0: none */
};

struct node {
	struct loop *loop;
	struct node_conf conf;
	char incarnation[21];
	const struct engine *engine;
	bool kvm;
	char isolation_reason[256];
	uint32_t vcpus;
	int journal_fd;

	struct peer *noded, *storaged;
	struct call hello, list, overlays, store_hello;
	struct loop_timer hello_again;
	struct slots slots;
	struct waiting *waiting;
	struct prepares *prepares;
	struct list vms;
	void *engine_data;

	struct map *sandboxes; /* id -> struct sandbox */
	struct map *tombs;     /* id -> struct tomb */
	struct list tomb_list;
	struct loop_timer tomb_timer;
	uint32_t memory_used_mib; /* promised to sandboxes */
	uint32_t memory_warm_mib; /* of warm VMs, given up when needed */
	uint32_t starting;	  /* creates in flight */
	struct events events;
	struct samples samples;

	struct adopt *adopt;
	bool ready; /* re-adoption is over; commands are served */
	void (*on_ready)(struct node *n);
};

/* conf is copied, its strings are borrowed. Starts by itself; on_ready when
 * the engine is known and every slot found was adopted or destroyed. */
struct node *node_new(struct loop *l, const struct node_conf *conf,
		      void (*on_ready)(struct node *), struct err *e);
/* As a crash would: VMs and their monitors live on. */
struct node *node_free(struct node *n);

/* May this user's processes, or the one behind this socket, command us? */
bool node_lets_in(const struct node *n, uid_t uid);
bool node_lets_peer_in(const struct node *n, int fd);
/* 80 % of what is available now, MiB. */
uint32_t node_memory_default_mib(void);
/* Take memory for one VM, or say what is full. */
int node_admit(struct node *n, uint32_t memory_mib, struct fault *f);
void node_unadmit(struct node *n, uint32_t memory_mib);
/* A create began or is over: background work waits for none to be in flight. */
void node_start_begin(struct node *n);
void node_start_end(struct node *n);
