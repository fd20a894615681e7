/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For tests with a real VMM: what sandboxd and noded do, without them. A rig is
 * a slot: its directory with listening sockets, a caisson-monitor and a QEMU
 * with the descriptors of proto/noded.h, and a channel to the monitor. Calls
 * block with a deadline.
 */

#include <stdbool.h>

#include "base/channel.h"
#include "base/loop.h"
#include "net/http.h"
#include "proto/monitor.h"
#include "vmm/shape.h"

#define RIG_MEMORY_MIB 128u

struct rig {
	struct loop *loop;
	char dir[256];
	pid_t monitor, vmm;
	int monitor_pidfd, vmm_pidfd;
	struct channel *chan;
	bool has_rep, has_gone;
	uint32_t flags; /* of the requests */
	struct mon_rep rep, gone;
	struct http_conn *http;
	/* of the last HTTP call */
	bool http_over;
	int status;
	char body[65536];
};

/* Skips the test with a reason unless QEMU and the artifacts are here. */
void rig_need(void);
/* Do VMs have a network card? */
bool rig_has_taps(void);
/* Path of a file of the artifacts. */
const char *rig_artifact(const char *name);
/* A file of the shared work directory, which lives as long as the program. */
int rig_open(const char *name, int flags);
/* A qcow2 overlay of the root disk's size, O_RDWR. */
int rig_overlay(const char *name);

/* extra: one more device as "-device VALUE", and a second QMP socket "qmp2" in
 * the rig's directory; NULL for none. */
void rig_start(struct rig *r, enum vm_mode mode, const char *extra);
void rig_stop(struct rig *r);
void rig_connect(struct rig *r); /* (again) to the monitor */

/* One request; the answer is r->rep. */
void rig_ask(struct rig *r, enum mon_op op, const int *fds, size_t n_fds);
/* Boot with root disk and a fresh overlay, renew, open. */
void rig_boot(struct rig *r, const char *overlay);
/* Load what rig_save() left under this name. */
void rig_load(struct rig *r, const char *name, const char *overlay);
/* ... whatever the answer is. */
void rig_try_load(struct rig *r, const char *name, const char *overlay);
void rig_save(struct rig *r, const char *name);
/* RENEW and OPEN; all must work. */
void rig_renew_open(struct rig *r, const char *sandbox);
void rig_wait_gone(struct rig *r);

/* Data plane. */
void rig_data(struct rig *r);
void rig_http(struct rig *r, const char *method, const char *path,
	      const char *body);
/* PUT of raw bytes. */
void rig_put(struct rig *r, const char *path, const void *p, size_t n);
/* Run a shell command; its output frames as lines are in r->body. */
void rig_sh(struct rig *r, const char *command);
/* Its stdout, decoded. */
const char *rig_out(struct rig *r, const char *command);
/* A digest of the file's content. */
uint64_t rig_sum(const char *name);
void rig_print_times(const char *what, const struct mon_times *t);
