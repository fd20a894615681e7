/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A VM's life as sequences of asynchronous steps: boot, load, renew, open,
 * save, quit. One at a time, each under the deadline of its request. A boot,
 * load or save that fails leaves a VM that nobody may use: phase GONE.
 *
 * The order of a save is fixed: finish, freeze, cork, stop, device state,
 * image. Whoever reads the channel between stop and image makes the VMM drain
 * the guest's ring, and the checkpoint would not load.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"
#include "monitor/data.h"
#include "monitor/guest.h"
#include "monitor/vmlink.h"
#include "proto/monitor.h"

struct life_ops {
	/* The answer to the request given to life_start(). */
	void (*on_done)(void *owner, const struct mon_rep *rep);
	/* This VM will never serve again, and no request told so. */
	void (*on_gone)(void *owner, const struct mon_rep *rep);
};

enum stage {
	STAGE_NONE,
	STAGE_READY,  /* waiting for the VMM */
	STAGE_ATTACH, /* disks, and memory for a load */
	STAGE_STATE,  /* device state on its way */
	STAGE_CONT,
	STAGE_CONNECT, /* channel, session, hello */
	STAGE_WARM,    /* a life for nobody, then stop */
	STAGE_RENEW,
	STAGE_THAW,
	STAGE_FINISH,
	STAGE_FREEZE,
	STAGE_STOP, /* stop and device state */
	STAGE_FORK,
	STAGE_IMAGE, /* the image is writing itself */
	STAGE_QUIT,
	STAGE_MAX_,
};

struct life {
	struct loop *loop;
	const struct life_ops *ops;
	void *owner;
	struct vmlink *vm;
	struct guest *guest;
	struct data *data;
	enum mon_phase phase;
	enum mon_reason reason;
	char detail[ERR_MSG_MAX];
	bool is_thawed; /* guestd said "running" */
	bool is_parked; /* warm, and its CPUs are stopped */
	unsigned warm_step;

	/* the request at work; stage NONE if there is none */
	enum stage stage;
	struct mon_req req;
	int fds[CHANNEL_FDS_MAX];
	size_t n_fds;
	struct mon_times times;
	uint64_t lap_us, deadline_us;
	struct loop_timer timer;
	bool is_mapped, is_attached;
	char nonce[33];
	int image_pipe;
	struct loop_io image_io;
	struct buf image;
	uint64_t mem_bytes;
};

void life_init(struct life *f, struct loop *l, const struct life_ops *ops,
	       void *owner);
void life_fini(struct life *f);

/* Why this request may not start now, as -EBUSY, -EINVAL or -EPERM; else 0 and
 * on_done follows, maybe from within. fds are taken over if 0. */
int life_start_take(struct life *f, const struct mon_req *req, int *fds,
		    size_t n_fds, struct err *e);
/* Fill in phase, reason, times and detail. */
void life_report(const struct life *f, struct mon_rep *rep);

/* ---- between life.c, life_restore.c, life_warm.c and life_save.c ---- */

void life_stage(struct life *f, enum stage s);
uint32_t life_lap(struct life *f); /* microseconds since the stage began */
uint64_t life_left_ms(const struct life *f);
void life_done(struct life *f);
void life_fail(struct life *f, const struct err *e);
/* POST (or GET without body) to guestd; consumes body. */
void life_call(struct life *f, const char *method, const char *path,
	       json_t *body_take,
	       void (*done)(void *arg, int status, const char *body, size_t n,
			    const struct err *e));
/* The answer's object, or NULL after life_fail(). New reference. */
json_t *life_answer(struct life *f, const char *what, int status,
		    const char *body, size_t n, const struct err *e);
void life_nonce(struct life *f);
/* The request's -errno with a text. */
void life_fail_code(struct life *f, int r, const char *what);
/* What renews the guest as f->req.sandbox, with a new nonce. */
json_t *life_renew_body(struct life *f);

void life_attach(struct life *f);
void life_vm_ready(struct life *f);
void life_migration(struct life *f, const char *status);
void life_guest_up(struct life *f);
void life_renew(struct life *f);
void life_open(struct life *f);
void life_warm(struct life *f);
void life_save(struct life *f);
void life_saved_state(struct life *f);
