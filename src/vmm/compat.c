/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/compat.h"

#include <cpuid.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "base/own.h"
#include "base/text.h"

static int line(struct buf *b, const char *name, const char *value,
		struct err *e)
{
	if (!value || !*value || strchr(value, '\n'))
		return err_set(e, -EINVAL, ERR_INVALID,
			       "compatibility key: %s is missing or has a line "
			       "break",
			       name);
	return buf_printf(b, "%s=%s\n", name, value);
}

int compat_text(const struct compat *c, struct buf *ret, struct err *e)
{
	struct buf sig;
	int r;

	buf_init(&sig, 65536);
	r = vm_signature(c->shape, &sig, e);
	if (r == 0)
		r = line(ret, "format", "1", e);
	if (r == 0)
		r = line(ret, "vmm", c->vmm_version, e);
	if (r == 0)
		r = line(ret, "vmm_sha256", c->vmm_digest, e);
	if (r == 0)
		r = line(ret, "shim_sha256", c->shim_digest, e);
	if (r == 0)
		r = line(ret, "devices", buf_cstr(&sig), e);
	if (r == 0)
		r = line(ret, "engine", c->shape->kvm ? "kvm" : "tcg", e);
	if (r == 0)
		r = line(ret, "kernel_sha256", c->kernel_digest, e);
	if (r == 0)
		r = buf_printf(ret, "tsc_khz=%u\ncpu=", c->tsc_khz);
	/* the translator's CPU is the VMM build's, not the host's */
	for (unsigned i = 0; r == 0 && c->shape->kvm && i < CPU_WORDS; i++)
		r = buf_printf(ret, "%08x", c->cpu[i]);
	if (r == 0)
		r = buf_puts(ret, "\n");
	buf_fini(&sig);
	return r;
}

void cpu_words(uint32_t ret[CPU_WORDS])
{
	unsigned a, b, c, d;

	memset(ret, 0, CPU_WORDS * sizeof(ret[0]));
	if (__get_cpuid(1, &a, &b, &c, &d)) {
		ret[0] = a; /* family, model, stepping */
		ret[1] = c;
		ret[2] = d;
	}
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		ret[3] = b;
		ret[4] = c;
		ret[5] = d;
	}
	if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) {
		ret[6] = a;
		ret[7] = d;
	}
	if (__get_cpuid_count(0xd, 1, &a, &b, &c, &d))
		ret[8] = a;
	if (__get_cpuid(0x80000001, &a, &b, &c, &d)) {
		ret[9] = c;
		ret[10] = d;
	}
	if (__get_cpuid(0x80000008, &a, &b, &c, &d))
		ret[11] = b;
}

static uint64_t raw_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Both clocks at one instant: of several tries the one that was quickest, hence
 * not interrupted. */
static void sample(uint64_t *ret_tsc, uint64_t *ret_ns)
{
	uint64_t best = UINT64_MAX;

	*ret_tsc = *ret_ns = 0;
	for (int i = 0; i < 32; i++) {
		uint64_t t0 = __rdtsc(), ns = raw_ns(), t1 = __rdtsc();

		if (t1 - t0 < best) {
			best = t1 - t0;
			*ret_tsc = t0 + (t1 - t0) / 2;
			*ret_ns = ns;
		}
	}
}

static uint32_t measure_khz(void)
{
	struct timespec wait = { .tv_nsec = 20000000 };
	uint64_t tsc0, tsc1, ns0, ns1;

	sample(&tsc0, &ns0);
	nanosleep(&wait, NULL);
	sample(&tsc1, &ns1);
	if (ns1 <= ns0 || tsc1 <= tsc0)
		return 0;
	return (uint32_t)((double)(tsc1 - tsc0) * 1e6 / (double)(ns1 - ns0));
}

static bool close_to(uint32_t a, uint32_t b)
{
	uint32_t d = a > b ? a - b : b - a;

	return d < b / 5000; /* 200 ppm */
}

/* Linux prints the TSC's own frequency here in a VM, and the current clock of
 * the core on metal; the caller compares. */
static uint32_t cpuinfo_khz(void)
{
	owned_str text = NULL;
	size_t n;
	char *p;

	if (file_read("/proc/cpuinfo", 1 << 20, &text, &n, NULL) < 0)
		return 0;
	p = strstr(text, "cpu MHz");
	p = p ? strchr(p, ':') : NULL;
	return p ? (uint32_t)(strtod(p + 1, NULL) * 1000 + 0.5) : 0;
}

uint32_t tsc_khz(void)
{
	unsigned a, b, c, d;
	uint32_t got, known;

	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & (1u << 8)))
		return 0;
	got = measure_khz();
	if (!got)
		return 0;
	/* Intel SDM, leaf 15H: crystal * EBX / EAX */
	if (__get_cpuid(0x15, &a, &b, &c, &d) && a && b && c) {
		known = (uint32_t)((uint64_t)c * b / a / 1000);
		if (close_to(got, known))
			return known;
	}
	known = cpuinfo_khz();
	if (known && close_to(got, known))
		return known;
	return (got + 50) / 100 * 100;
}
