/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The shape of a VM: what must be known before its VMM starts, and nothing that
 * may come later (disks, memory content, identity). VMMs wait per shape.
 *
 * The command line is a function of the shape alone, with fixed descriptor
 * numbers (proto/noded.h, enum vmm_fd), so it can be compared: a memory
 * checkpoint loads only into the same devices. Pure; no I/O but the memfd.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define VM_MEMORY_MIN_MIB 64u
#define VM_MEMORY_MAX_MIB 262144u
#define VM_VCPUS_MAX	  64u
#define VM_CMDLINE_MAX	  2000u

enum vm_mode {
	VM_BOOT,     /* kernel and initramfs as VMM_FD_EXTRA + 0, + 1 */
	VM_INCOMING, /* waits for a checkpoint */
};

struct vm_shape {
	enum vm_mode mode;
	unsigned memory_mib, vcpus;
	bool kvm;	     /* else the software engine */
	bool tap;	     /* VMM_FD_TAP is there */
	const char *cmdline; /* BOOT: vm_cmdline() or the caller's own */
};

/* ERR_INVALID names the field. */
int vm_shape_check(const struct vm_shape *s, struct err *e);

/* argv of the VMM, each word ended by NUL. exe is argv[0]. */
int vm_argv(const struct vm_shape *s, const char *exe, struct buf *ret,
	    struct err *e);
/* The same as a sealed memfd (CLOEXEC, at offset 0); or -errno. */
int vm_argv_memfd(const struct vm_shape *s, const char *exe, struct err *e);

/*
 * Kernel command line. tsc_khz matters on the software engine: without it the
 * guest calibrates against an emulated timer, and boots hang or end on a
 * clocksource that loses time. more may be NULL.
 */
int vm_cmdline(bool kvm, uint32_t tsc_khz, const char *more, struct buf *ret,
	       struct err *e);

/*
 * The devices of this shape as text: equal for BOOT and INCOMING, so that a
 * checkpoint of the one loads into the other. Part of the compatibility key.
 */
int vm_signature(const struct vm_shape *s, struct buf *ret, struct err *e);
