/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Boot checkpoints: a release is booted once per compatibility key and shape,
 * and everything later is restored from what that left in the store. One is
 * built at a time (a boot takes all the CPU there is), and whoever needs the
 * same one joins.
 *
 * Order of a build: artifacts opened (and hashed) -> VMM with kernel and
 * initramfs -> boot -> renew -> open -> save into two drafts -> drafts
 * committed -> VM ended -> overlay committed as a layer -> ref. The ref is set
 * last, so a checkpoint exists as a whole or not at all.
 *
 * A ref found in the store counts only after its four artifacts were opened; if
 * one is gone or changed, the ref is dropped and the checkpoint built again.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sandboxd/ref.h"
#include "sandboxd/sandbox.h"

struct node;
struct prepare;
struct prepares;

enum prepare_phase {
	PREPARE_HASHING, /* also: waiting for its turn */
	PREPARE_BOOTING,
	PREPARE_CHECKPOINTING,
	PREPARE_READY,
	PREPARE_FAILED,
};

struct prepares *prepares_new(struct node *n);
struct prepares *prepares_free(struct prepares *ps);

/* The checkpoint for this spec, if it is known here, else NULL. */
const struct checkpoint *prepares_find(struct prepares *ps, const char *ref);
/* Is this overlay about to become a layer, its VM being gone? */
bool prepares_hold(const struct prepares *ps, const char *overlay);
/* Is one being built? */
bool prepares_is_busy(const struct prepares *ps);
/* Its artifacts turned out to be unusable. */
void prepares_drop(struct prepares *ps, const char *ref);
/* The name under which it would be kept. 0 or -errno. */
int prepares_ref(struct prepares *ps, const struct spec *spec, char ret[72],
		 struct err *e);

/* Find or build it; the prepare stays readable by its id for a while. w (may
 * be NULL) is told when it is over. NULL with *f if it cannot even begin. */
struct prepare *prepare_need(struct prepares *ps, const struct spec *spec,
			     struct waiter *w, struct fault *f);
struct prepare *prepare_get(struct prepares *ps, const char *id);
/* Be told when it is over; from within if it is. */
void prepare_wait(struct prepare *p, struct waiter *w);

const char *prepare_id(const struct prepare *p);
enum prepare_phase prepare_phase(const struct prepare *p);
const char *prepare_phase_name(enum prepare_phase phase);
const struct fault *prepare_fault(const struct prepare *p);
void prepare_progress(const struct prepare *p, uint64_t *ret_done,
		      uint64_t *ret_total);
