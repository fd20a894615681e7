/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A node's neighbours, in this process and on the test's loop: caisson-noded
 * (whose processes are real children that sleep), caisson-storaged and the
 * monitors. Each answers as its contract says, or as told: with an error, not
 * at all, or by closing the connection.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/channel.h"
#include "base/loop.h"
#include "base/map.h"
#include "proto/monitor.h"
#include "proto/noded.h"
#include "proto/storaged.h"
#include "sandboxd/node.h"
#include "sandboxd/prepare.h"
#include "sandboxd/sandbox.h"

#define FAKE_SLOTS 16u

enum fake_who { FAKE_NODED, FAKE_STORE, FAKE_MONITOR, FAKE_WHO_MAX_ };
enum fake_mode { FAKE_OK, FAKE_ERROR, FAKE_SILENT, FAKE_CLOSE };

struct fakes;

struct fake_slot {
	struct fakes *f;
	uint32_t number;
	bool is_there;
	int vmm_pid, monitor_pid;
	uint32_t oom_kills, phase;
	struct loop_io mon;
	struct channel *chan;
};

struct fakes {
	struct loop *loop;
	const char *dir;
	char qemu[300], shim[300];
	struct loop_io noded_io, store_io;
	struct channel *noded, *store;
	struct fake_slot slots[FAKE_SLOTS];
	enum fake_mode modes[FAKE_WHO_MAX_][32];
	int error_code[FAKE_WHO_MAX_][32]; /* 0 = -EIO */
	bool is_once;			   /* a mode is reset when used */
	unsigned counts[FAKE_WHO_MAX_][32];
	struct map *overlays, *refs, *missing;
	uint64_t next_draft;
	unsigned drafts;
	struct mon_req last_load, last_renew;
	unsigned last_load_fds, data_fds;

	struct node_conf conf;
	struct node *node;
};

/* Everything up; the node not yet. waiting: VMMs per shape. */
struct fakes *fakes_new(uint32_t waiting);
void fakes_free(struct fakes *f);
/* Start (again) a node and run until it is ready. */
void fakes_start(struct fakes *f);
/* As kill -9 of the daemon would. */
void fakes_stop(struct fakes *f);
/* Drop and refuse connections, or accept them again. */
void fakes_down(struct fakes *f, enum fake_who who);
void fakes_up(struct fakes *f, enum fake_who who);

void fake_set(struct fakes *f, enum fake_who who, unsigned op,
	      enum fake_mode mode);
/* Run the loop until cond is true; fails the test after 30 s. */
void fakes_until(struct fakes *f, bool (*cond)(struct fakes *f, void *arg),
		 void *arg);
void fakes_run_ms(struct fakes *f, unsigned ms);

/* Tell the node about a monitor's VM that ended. */
void fake_monitor_gone(struct fakes *f, uint32_t slot, uint32_t reason,
		       const char *msg);
void fake_kill(struct fakes *f, int pid);

/* A spec and command that differ by their number. */
void fake_spec(unsigned number, struct spec *ret);
void fake_command(struct fakes *f, uint64_t generation, uint64_t left_ms,
		  struct command *ret);
/* The store has a boot checkpoint for it. */
void fake_checkpoint(struct fakes *f, const struct spec *spec);

struct outcome {
	struct waiter w;
	bool is_done, is_ok;
	struct fault fault;
};
void outcome_init(struct outcome *o);
bool outcome_is_done(struct fakes *f, void *outcome);
/* Ask and run until it is answered. */
void fake_ensure(struct fakes *f, const char *id, uint64_t generation,
		 uint64_t left_ms, struct outcome *o);
void fake_end(struct fakes *f, const char *id, uint64_t generation,
	      uint64_t left_ms, struct outcome *o);

unsigned fake_vms(const struct fakes *f); /* live VMM processes */
unsigned fake_journals(const struct fakes *f);
/* No VM, overlay, draft, journal, memory or sandbox is left. */
bool fakes_are_clean(struct fakes *f, void *unused);
