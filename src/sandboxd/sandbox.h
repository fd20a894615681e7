/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sandboxes of this node: what was commanded, what is, and what must not be
 * done again.
 *
 * Commands are ordered by (generation, fence): one older than the newest seen
 * for that id is refused as stale. A sandbox that is gone leaves a tombstone
 * until the command's deadline and 60 s have passed, so that a create which was
 * overtaken by its end starts nothing. Repeating a command joins the first.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "sandboxd/fault.h"
#include "sandboxd/journal.h"
#include "sandboxd/spec.h"
#include "sandboxd/usage.h"

struct node;
struct start;
struct vm;

/* Whoever waits for an outcome; f NULL: success. */
struct waiter {
	struct list link; /* in no list: does not wait */
	void (*on_done)(struct waiter *w, const struct fault *f);
};

enum sandbox_state { SANDBOX_STARTING, SANDBOX_RUNNING, SANDBOX_ENDING };

enum timing {
	TIMING_REF,
	TIMING_PREPARE,
	TIMING_CLAIM,
	TIMING_STORE,
	TIMING_LOAD,
	TIMING_RENEW,
	TIMING_OPEN,
	TIMING_TOTAL,
	/* parts of LOAD as the monitor tells them; a warm VM continues and
	 * connects in RENEW */
	TIMING_QMP,
	TIMING_MAP,
	TIMING_DISK,
	TIMING_STATE,
	TIMING_CONT,
	TIMING_CONNECT,
	TIMING_MAX_,
};
extern const char *const timing_names[TIMING_MAX_];

struct sandbox {
	struct node *node;
	char id[32];
	uint64_t generation, fence, tomb_ms;
	char operation[32];
	struct spec spec;
	enum sandbox_state state;
	char trace[33];
	uint64_t deadline_ms;
	uint64_t timings_us[TIMING_MAX_];
	const char *path; /* how its VM was had: claim_path_names[] */

	struct start *start; /* while starting, by the engine */
	struct vm *vm;	     /* once claimed; NULL with the null engine */
	uint32_t memory_mib; /* admitted */

	bool is_failed; /* ends because the start failed: with `fault` */
	struct fault fault;
	const char *reason; /* why it ended */
	struct list ensures, ends;
	struct loop_timer grace;
	struct usage usage;
	struct loop_timer sample; /* while it runs, and has a VM */
};

struct tomb {
	struct list link;
	char id[32];
	uint64_t generation, fence, until_ms;
	bool is_failed; /* never ran: the same command may try again */
	char reason[32];
	struct usage usage;
};

/* Commands. on_done comes once, perhaps from within. trace may be NULL. */
void sandbox_ensure(struct node *n, const char *id, const struct command *cmd,
		    const struct spec *spec, const char *trace,
		    struct waiter *w);
void sandbox_end(struct node *n, const char *id, const struct command *cmd,
		 const char *trace, struct waiter *w);
struct sandbox *sandbox_get(struct node *n, const char *id);
/* What one that is gone had used; NULL if that is not known. */
const struct usage *sandbox_last_usage(struct node *n, const char *id);
const char *sandbox_observed(const struct sandbox *s);

/* From the engine. */
void sandbox_started(struct sandbox *s);
void sandbox_failed(struct sandbox *s, const struct fault *f);
void sandbox_gone(struct sandbox *s, const char *reason, const char *detail);
void sandbox_torn(struct sandbox *s);

/* Re-adoption: one that runs already. */
struct sandbox *sandbox_adopt(struct node *n, const struct journal *j);
/* ... and one that did not survive: leaves a tombstone and an event. */
void sandbox_lost(struct node *n, const struct journal *j, const char *reason,
		  const char *detail);

void sandboxes_init(struct node *n);
void sandboxes_fini(struct node *n);
