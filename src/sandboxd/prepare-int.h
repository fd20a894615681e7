/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by prepare.c (who waits for what) and prepare-build.c (how one is
 * built). */

#include "sandboxd/peer.h"
#include "sandboxd/prepare.h"
#include "sandboxd/vm.h"

enum prepare_file { P_ROOT, P_KERNEL, P_INITRAMFS, P_OVERLAY, P_FILES_ };
enum prepare_draft { D_STATE, D_MEMORY, D_DRAFTS_ };

struct prepare {
	struct prepares *owner;
	struct node *node;
	struct list link; /* in all */
	char id[24];
	char ref[72];
	struct spec spec;
	struct checkpoint ck;
	enum prepare_phase phase;
	bool is_queued, is_admitted;
	struct fault fault;
	struct list waiters;

	/* while it is built */
	struct vm *vm;
	struct vm *ending;
	char overlay[24]; /* kept beyond its VM */
	unsigned tries, next;
	struct call ask, drafts_c[D_DRAFTS_];
	int files[P_FILES_];
	int drafts[D_DRAFTS_];
	uint64_t draft_ids[D_DRAFTS_];
	bool has_draft[D_DRAFTS_];
	struct loop_timer deadline;
	uint64_t begin_us;
};

struct prepares {
	struct node *node;
	struct list all;
	struct map *known; /* ref -> struct checkpoint */
	struct prepare *current;
	struct loop_defer next;
};

/* Begin; prepare_done() follows from the loop. */
void prepare_build(struct prepare *p);
/* Stop; nothing follows. Undo goes on by itself. */
void prepare_stop(struct prepare *p);
void prepare_done(struct prepare *p, const struct fault *f);
void prepare_set_phase(struct prepare *p, enum prepare_phase phase);
