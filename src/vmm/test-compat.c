/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/compat.h"

#include <string.h>

#include "base/test.h"

static const struct vm_shape shape = { .mode = VM_INCOMING,
				       .memory_mib = 128,
				       .vcpus = 1 };

static struct compat sample(void)
{
	return (struct compat){
		.vmm_version = "QEMU emulator version 7.2.22",
		.vmm_digest = "aa",
		.shim_digest = "bb",
		.kernel_digest = "cc",
		.shape = &shape,
		.cpu = { 1, 2, 3 },
		.tsc_khz = 2100000,
	};
}

static const char *text(const struct compat *c)
{
	static char out[8192];
	struct err e = { 0 };
	struct buf b;

	buf_init(&b, sizeof(out));
	T_INT(compat_text(c, &b, &e), 0);
	snprintf(out, sizeof(out), "%s", buf_cstr(&b));
	buf_fini(&b);
	return out;
}

TEST(text_is_canonical)
{
	struct compat c = sample();

	T_HAS(text(&c), "format=1\nvmm=QEMU emulator version 7.2.22\n"
			"vmm_sha256=aa\nshim_sha256=bb\ndevices=-M microvm,");
	T_HAS(text(&c), "\nengine=tcg\nkernel_sha256=cc\ntsc_khz=2100000\n"
			"cpu=\n");
}

TEST(each_part_changes_the_text)
{
	static const struct vm_shape bigger = { .mode = VM_INCOMING,
						.memory_mib = 256,
						.vcpus = 1 };
	struct compat c = sample(), changed[7];
	char base[8192];

	snprintf(base, sizeof(base), "%s", text(&c));
	for (int i = 0; i < 7; i++)
		changed[i] = sample();
	changed[0].vmm_version = "QEMU emulator version 7.2.23";
	changed[1].vmm_digest = "ab";
	changed[2].shim_digest = "bc";
	changed[3].kernel_digest = "cd";
	changed[4].shape = &bigger;
	changed[5].tsc_khz++;
	changed[6].kernel_digest = "c";
	for (int i = 0; i < 7; i++)
		T_TRUE(strcmp(base, text(&changed[i])) != 0);
}

TEST(the_hosts_cpu_counts_under_kvm_alone)
{
	static const struct vm_shape kvm = {
		.mode = VM_INCOMING, .memory_mib = 128, .vcpus = 1, .kvm = true
	};
	struct compat a = sample(), b = sample();
	char first[8192];

	b.cpu[1] = 77;
	snprintf(first, sizeof(first), "%s", text(&a));
	T_STR(text(&b), first);
	a.shape = b.shape = &kvm;
	snprintf(first, sizeof(first), "%s", text(&a));
	T_TRUE(strcmp(text(&b), first) != 0);
	T_HAS(first, "cpu=000000010000000200000003");
}

TEST(missing_and_broken_values_are_refused)
{
	struct compat c = sample();
	struct err e = { 0 };
	struct buf b;

	buf_init(&b, 8192);
	c.vmm_digest = NULL;
	T_INT(compat_text(&c, &b, &e), -EINVAL);
	T_HAS(e.msg, "vmm_sha256");
	c = sample();
	c.kernel_digest = "";
	T_INT(compat_text(&c, &b, &e), -EINVAL);
	c = sample();
	c.vmm_version = "QEMU\nengine=kvm";
	T_INT(compat_text(&c, &b, &e), -EINVAL);
	buf_fini(&b);
}

TEST(tsc_frequency_is_the_same_each_time)
{
	uint32_t khz = tsc_khz();

	if (!khz)
		test_skip("no constant TSC");
	T_TRUE(khz > 500000 && khz < 10000000);
	T_INT(tsc_khz(), khz);
}

TEST(cpu_words_are_stable)
{
	uint32_t a[CPU_WORDS], b[CPU_WORDS];

	cpu_words(a);
	cpu_words(b);
	T_TRUE(memcmp(a, b, sizeof(a)) == 0);
	T_TRUE(a[2] != 0);
}
