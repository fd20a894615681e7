/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * sandboxd -> monitor, over SOCK_SEQPACKET on the slot's `mon` socket (sandboxd
 * connects; the monitor checks the peer's uid; one connection at a time, a
 * newer one replaces the older). Fixed structs. A request is answered once with
 * its op and seq; events have seq 0. The monitor parses what guest and VMM
 * write and is believed for nothing but this one sandbox: strings from it are
 * shown, not parsed.
 *
 * Order of a life: [BOOT | LOAD] -> RENEW -> OPEN -> DATA... -> QUIT, or for
 * templates BOOT -> RENEW -> OPEN -> DATA... -> SAVE -> QUIT.
 */

#include <stdint.h>

#include "base/channel.h"

#define MON_VERSION   1u
#define MON_DISKS_MAX 8u
#define MON_ID_MAX    32u
#define MON_HOST_MAX  64u

enum mon_op {
	MON_STATUS = 1,
	/* Cold boot of a VMM started with -S and a kernel. fds: the disks.
	 * Attach disks, cont, connect, wait for guestd (deadline_ms). */
	MON_BOOT,
	/* Restore into a VMM started with -incoming defer -S. fds: state file,
	 * memory base, then the disks (memory layers come later). Map, attach
	 * disks, load, cont, connect, HELLO. */
	MON_LOAD,
	/* New identity, entropy, clock; answered when guestd confirmed. The
	 * workload stays frozen and the data plane closed. */
	MON_RENEW,
	/* Thaw the workload and accept DATA from now on. */
	MON_OPEN,
	/* One client connection for this sandbox (fds: stream socket): the
	 * monitor serves HTTP/2 on it (doc/guest-protocol.md, "data plane"). No
	 * answer. Before OPEN it is answered 409 on the connection. */
	MON_DATA,
	/* Checkpoint: freeze, stop, device state -> fds[0], memory image ->
	 * fds[1] (both O_RDWR regular files, empty). The VM stays stopped. */
	MON_SAVE,
	MON_QUIT,    /* QMP quit; answered before the VMM is gone */
	MON_EV_GONE, /* event: this VM will never serve again */
	MON_OP_MAX_,
};

enum mon_phase {
	MON_EMPTY,   /* no VMM connected yet */
	MON_WAITING, /* VMM up, nothing loaded */
	MON_LOADING,
	MON_CONNECTED, /* guestd answers; not confirmed */
	MON_CONFIRMED,
	MON_OPENED,
	MON_SAVED,
	MON_GONE,
};

/* Why a VM ended, in the words of the sandbox record. */
enum mon_reason {
	MON_REASON_NONE,
	MON_REASON_REQUEST,  /* QUIT */
	MON_REASON_VMM_EXIT, /* the VMM's sockets closed: killed or crashed */
	MON_REASON_GUEST_PANIC,	   /* QMP GUEST_PANICKED */
	MON_REASON_GUEST_SHUTDOWN, /* the guest switched itself off */
	MON_REASON_GUEST_LOST,	   /* guestd does not answer */
	MON_REASON_VMM_ERROR,	   /* internal-error, io-error */
	MON_REASON_GUEST_OOM,	   /* its kernel panicked for lack of memory */
	MON_REASON_MAX_,
};

struct mon_disk {
	uint8_t qcow2; /* 0 = raw */
	uint8_t writable;
	uint8_t pad[6];
};

struct mon_req {
	struct channel_hdr hdr;
	uint32_t deadline_ms;
	uint32_t n_disks; /* base first */
	struct mon_disk disks[MON_DISKS_MAX];
	/* RENEW: */
	char sandbox[MON_ID_MAX]; /* "sb…", NUL-terminated */
	char hostname[MON_HOST_MAX];
	uint32_t flags; /* LOAD: MON_WARM, MON_PROBE */
	uint32_t pad;
};

/* Flags of LOAD. WARM: this VM will wait for its sandbox: it is walked through
 * a renewal that nobody keeps, so that nothing of a create runs for the first
 * time, and its CPUs are stopped until RENEW. Its workload stays frozen, its
 * phase is CONNECTED. PROBE, with WARM: in that life of nobody it also runs a
 * command, whose record is deleted, and is frozen again; a command that fails
 * fails the LOAD. */
#define MON_WARM  1u
#define MON_PROBE 2u

/* What each step of a request took, microseconds; 0 = not done. */
struct mon_times {
	uint32_t qmp_us, map_us, disk_us, load_us, cont_us, connect_us,
	    renew_us, thaw_us, freeze_us, stop_us, save_us, image_us;
};

struct mon_rep {
	struct channel_hdr hdr;
	int32_t r;	 /* 0 or -errno */
	uint32_t phase;	 /* enum mon_phase */
	uint32_t reason; /* enum mon_reason, with phase GONE and MON_EV_GONE */
	uint32_t kind;	 /* enum err_kind if r < 0 */
	uint64_t mem_bytes; /* SAVE: page bytes written */
	struct mon_times times;
	char msg[1024]; /* why; printable; may hold the serial log's tail */
};
