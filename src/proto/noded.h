/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sandboxd -> noded: typed operations on numbers and descriptors, over
 * SOCK_SEQPACKET at RUN/noded.sock (0660 root:caisson-node; noded also checks
 * the peer's uid). All structs are fixed, host byte order, same machine only.
 * Each request is answered by one message with the same op and seq.
 *
 * noded owns the names: everything of slot N lies in RUN/slots/N/ (root-owned;
 * the VMM's uid can create nothing in any directory):
 *   qmp chan ctl serial  listening stream sockets, inherited by the VMM; only
 *                        the slot's monitor uid may connect
 *   mon                  made at SPAWN_MONITOR: listening seqpacket socket;
 *                        only caisson-node may connect
 *   netns                bind mount that keeps the slot's network namespace
 * and its processes in the cgroup CGROUP/slot-N/{vmm,monitor} (v2 hierarchy).
 * Three uids per slot: BASE + 4*N (VMM), +1 (monitor), +2 (egress worker).
 */

#include <stdint.h>

#include "base/channel.h"

#define NODED_VERSION	1u
#define NODED_SLOTS_MAX 1024u

enum noded_op {
	NODED_HELLO = 1,
	NODED_SLOT_CREATE,   /* namespace, tap, rules, sockets, cgroup, dirs */
	NODED_SPAWN_MONITOR, /* may be repeated after the old one is gone */
	/* fds: argv memfd (all seals; NUL-terminated strings, argv[0] first, at
	 * most 64 KiB and 256 of them), then 0..4 extra */
	NODED_SPAWN_VMM,
	NODED_KILL,
	NODED_SLOT_DESTROY, /* kill, wait until empty, remove everything */
	NODED_LIST,
	NODED_KVM, /* answer carries a descriptor of /dev/kvm */
	NODED_OP_MAX_,
};

enum noded_who { NODED_WHO_ALL, NODED_WHO_VMM, NODED_WHO_MONITOR };

enum noded_engine { NODED_ENGINE_QEMU = 1, NODED_ENGINE_MAX_ };

#define NODED_SPAWN_KVM 1u /* flags: give the VMM /dev/kvm */

struct noded_req {
	struct channel_hdr hdr;
	uint32_t slot; /* < NODED_SLOTS_MAX; ignored by HELLO, LIST, KVM */
	uint32_t who;  /* KILL: enum noded_who */
	uint32_t engine, flags; /* SPAWN_VMM */
	uint32_t vcpus, mem_mib;
};

/* Answer of everything but LIST. fds: SPAWN_*: one pidfd; KVM: one. */
struct noded_rep {
	struct channel_hdr hdr;
	int32_t r; /* 0 or a negative errno */
	uint32_t slot;
	int32_t pid;	  /* SPAWN_*, in the host's pid namespace */
	uint32_t version; /* HELLO */
	uint64_t netns; /* SLOT_CREATE: inode of the slot's network namespace */
	char msg[200];	/* why, if r < 0 */
};

enum noded_slot_state { NODED_SLOT_FREE, NODED_SLOT_READY, NODED_SLOT_DYING };

struct noded_slot {
	uint32_t slot;
	uint32_t state;		      /* enum noded_slot_state */
	int32_t vmm_pid, monitor_pid; /* 0 = none alive */
	uint32_t oom_kills;	      /* of the slot's cgroup */
	uint32_t pad;
	uint64_t netns;
};

#define NODED_LIST_MAX 1024u
struct noded_list {
	struct channel_hdr hdr;
	int32_t r;
	uint32_t n;
	struct noded_slot slots[]; /* every slot that is not free */
};

/*
 * What a VMM process finds at exec. Fixed numbers, so argv is a constant of the
 * shape. Slot paths inside its mount namespace: nothing of the slot; the root
 * holds /usr read-only, /caisson/shim.so, /dev/{null,zero,urandom}(+kvm).
 * Environment: LD_PRELOAD=/caisson/shim.so CAISSON_SHIM=1.
 */
enum vmm_fd {
	VMM_FD_CTL = 3, /* interposer's control listener */
	VMM_FD_QMP,
	VMM_FD_CHAN,
	VMM_FD_SERIAL,
	VMM_FD_TAP,
	VMM_FD_EXTRA, /* first of the extra descriptors: kernel, initramfs */
};

/* What a monitor finds: its working directory is the slot's directory (connect
 * to "qmp", "chan", "ctl", "serial" by relative name). argv: caisson-monitor
 * --slot N --node-uid UID */
enum monitor_fd { MONITOR_FD_LISTEN = 3 };
