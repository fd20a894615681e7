/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a memory checkpoint depends on. QEMU loads a state under a wrong CPU
 * model without an error and the guest then hangs, so equality is ours to
 * check: the canonical text below is hashed by the caller, and a checkpoint is
 * used only where the hash is equal.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "vmm/shape.h"

#define CPU_WORDS 12u

struct compat {
	const char *vmm_version; /* first line of --version */
	const char *vmm_digest;	 /* SHA-256 of the binary, hex */
	const char *shim_digest;
	const char *kernel_digest; /* the guest's */
	const struct vm_shape *shape;
	uint32_t cpu[CPU_WORDS]; /* cpu_words(); ignored without KVM */
	uint32_t tsc_khz;
};

/* Lines `name=value`, in a fixed order, each ended by a newline. Refuses values
 * that hold a newline or are missing. */
int compat_text(const struct compat *c, struct buf *ret, struct err *e);

/* CPUID feature words of this host: leaves 1, 7.0, 7.1, 0xd.1, 0x80000001,
 * 0x80000008. The APIC id and other per-CPU fields are left out. */
void cpu_words(uint32_t ret[CPU_WORDS]);

/*
 * Frequency of the time stamp counter. From CPUID or /proc/cpuinfo where they
 * agree with a measurement of about 20 ms against CLOCK_MONOTONIC_RAW, so that
 * the value is the same at each start; else the measurement, rounded to 100
 * kHz. 0 if there is no constant TSC.
 */
uint32_t tsc_khz(void);
