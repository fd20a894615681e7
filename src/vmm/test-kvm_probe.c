/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/kvm_probe.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/test.h"

TEST(no_device_is_no_kvm)
{
	struct kvm_verdict v;

	kvm_probe(-1, &v);
	T_TRUE(!v.is_usable);
	T_HAS(v.reason, "/dev/kvm");
}

TEST(another_device_is_no_kvm)
{
	struct kvm_verdict v;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	kvm_probe(fd, &v);
	close(fd);
	T_TRUE(!v.is_usable);
	T_HAS(v.reason, "not KVM");
}

TEST(the_verdict_names_its_reason)
{
	struct kvm_verdict v;
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		test_skip("no /dev/kvm here");
	kvm_probe(fd, &v);
	close(fd);
	printf("# %s: %s\n", v.is_usable ? "usable" : "unusable", v.reason);
	T_TRUE(strlen(v.reason) > 10);
	T_TRUE(!v.is_usable || v.elapsed_us <= 50000);
}
