/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/shape.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"

static const struct vm_shape incoming = {
	.mode = VM_INCOMING, .memory_mib = 512, .vcpus = 1, .tap = true
};

/* argv as one text, a word a line. */
static const char *lines(const struct vm_shape *s)
{
	static char text[8192];
	struct err e = { 0 };
	struct buf b;

	buf_init(&b, sizeof(text));
	T_INT(vm_argv(s, "/usr/bin/qemu-system-x86_64", &b, &e), 0);
	T_TRUE(buf_len(&b) < sizeof(text));
	memcpy(text, buf_data(&b), buf_len(&b));
	for (size_t i = 0; i < buf_len(&b); i++)
		if (!text[i])
			text[i] = '\n';
	text[buf_len(&b)] = '\0';
	buf_fini(&b);
	return text;
}

static int check(struct vm_shape s)
{
	struct err e = { 0 };
	int r = vm_shape_check(&s, &e);

	T_TRUE(r == 0 || (e.kind == ERR_INVALID && e.msg[0]));
	return r;
}

TEST(argv_of_a_waiting_vmm_is_this)
{
	T_STR(
	    lines(&incoming),
	    "/usr/bin/qemu-system-x86_64\n"
	    "-nodefaults\n-no-user-config\n-display\nnone\n"
	    "-M\nmicrovm,pit=on,pic=on,isa-serial=on,rtc=on,acpi=on,"
	    "ioapic2=off,memory-backend=m,mem-merge=off,"
	    "dump-guest-core=off\n"
	    "-cpu\nmax,-svm,-vmx,-la57,-erms\n-accel\ntcg,tb-size=64\n-smp\n1\n"
	    "-m\n512\n"
	    "-object\nmemory-backend-file,id=m,size=512M,"
	    "mem-path=/caisson/ram,share=on\n"
	    "-blockdev\ndriver=null-co,node-name=ph,size=4096,"
	    "read-zeroes=on\n"
	    "-device\nvirtio-blk-device,id=vd0,drive=ph\n"
	    "-device\nvirtio-serial-device,max_ports=2\n"
	    "-chardev\nsocket,id=chan,fd=5,server=on,wait=off\n"
	    "-device\nvirtserialport,chardev=chan,nr=1,"
	    "name=org.caisson.guest\n"
	    "-chardev\nsocket,id=com,fd=6,server=on,wait=off\n"
	    "-serial\nchardev:com\n"
	    "-object\nrng-builtin,id=rng\n"
	    "-device\nvirtio-rng-device,rng=rng\n"
	    "-netdev\ntap,id=net,fd=7,vhost=off\n"
	    "-device\nvirtio-net-device,netdev=net,mac=02:00:00:00:00:02,"
	    "host_mtu=60000\n"
	    "-chardev\nsocket,id=qmp,fd=4,server=on,wait=off\n"
	    "-mon\nchardev=qmp,mode=control\n"
	    "-action\nshutdown=pause,panic=pause,reboot=shutdown\n"
	    "-S\n-incoming\ndefer\n");
}

TEST(a_boot_names_descriptors_and_its_cmdline)
{
	struct vm_shape s = incoming;

	s.mode = VM_BOOT;
	s.cmdline = "console=ttyS0 a b";
	T_HAS(lines(&s), "-kernel\n/caisson/fd/8\n-initrd\n/caisson/fd/9\n"
			 "-append\nconsole=ttyS0 a b\n");
	T_TRUE(!strstr(lines(&s), "-incoming"));
}

TEST(no_device_discards_memory)
{
	T_TRUE(!strstr(lines(&incoming), "balloon"));
	T_TRUE(!strstr(lines(&incoming), "virtio-mem"));
	T_TRUE(!strstr(lines(&incoming), "free-page"));
}

TEST(kvm_is_asked_for_by_name)
{
	struct vm_shape s = incoming;

	s.kvm = true;
	T_HAS(lines(&s), "-accel\nkvm\n");
	T_TRUE(!strstr(lines(&s), "tcg"));
}

TEST(without_tap_there_is_no_network)
{
	struct vm_shape s = incoming;

	s.tap = false;
	T_TRUE(!strstr(lines(&s), "net"));
}

TEST(sizes_are_bounded)
{
	struct vm_shape s = incoming;

	T_INT(check(s), 0);
	s.memory_mib = 62;
	T_INT(check(s), -EINVAL);
	s.memory_mib = 129;
	T_INT(check(s), -EINVAL);
	s.memory_mib = UINT32_MAX - 1;
	T_INT(check(s), -EINVAL);
	s.memory_mib = 64;
	s.vcpus = 0;
	T_INT(check(s), -EINVAL);
	s.vcpus = 65;
	T_INT(check(s), -EINVAL);
}

TEST(a_boot_without_cmdline_is_refused)
{
	static char longer[VM_CMDLINE_MAX + 2];
	struct vm_shape s = incoming;

	s.mode = VM_BOOT;
	T_INT(check(s), -EINVAL);
	memset(longer, 'x', sizeof(longer) - 1);
	s.cmdline = longer;
	T_INT(check(s), -EINVAL);
}

TEST(boot_and_incoming_have_one_signature)
{
	struct vm_shape boot = incoming, other = incoming;
	struct buf a, b, c;

	boot.mode = VM_BOOT;
	boot.cmdline = "x";
	other.memory_mib = 1024;
	buf_init(&a, 65536);
	buf_init(&b, 65536);
	buf_init(&c, 65536);
	T_INT(vm_signature(&boot, &a, NULL), 0);
	T_INT(vm_signature(&incoming, &b, NULL), 0);
	T_INT(vm_signature(&other, &c, NULL), 0);
	T_STR(buf_cstr(&a), buf_cstr(&b));
	T_TRUE(strcmp(buf_cstr(&a), buf_cstr(&c)) != 0);
	buf_fini(&a);
	buf_fini(&b);
	buf_fini(&c);
}

TEST(memfd_is_sealed)
{
	struct err e = { 0 };
	int fd = vm_argv_memfd(&incoming, "/qemu", &e);
	char b[16];

	T_TRUE(fd >= 0);
	T_INT(read(fd, b, 6), 6);
	T_TRUE(memcmp(b, "/qemu", 6) == 0);
	T_INT(write(fd, "x", 1), -1);
	T_INT(ftruncate(fd, 0), -1);
	T_TRUE(fcntl(fd, F_GET_SEALS) & F_SEAL_SEAL);
	T_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
}

TEST(the_software_engine_is_told_its_clock)
{
	struct err e = { 0 };
	struct buf b;

	buf_init(&b, 4096);
	T_INT(vm_cmdline(false, 2100000, "caisson.root=raw", &b, &e), 0);
	T_HAS(buf_cstr(&b), " tsc=reliable ");
	T_HAS(buf_cstr(&b), " tsc_early_khz=2100000 ");
	T_HAS(buf_cstr(&b), " caisson.root=raw");
	buf_clear(&b);
	T_INT(vm_cmdline(false, 0, NULL, &b, &e), -EINVAL);
	T_HAS(e.msg, "TSC");
	buf_fini(&b);
}

TEST(mitigations_stay_on_under_kvm)
{
	struct buf b;

	buf_init(&b, 4096);
	T_INT(vm_cmdline(true, 0, NULL, &b, NULL), 0);
	T_TRUE(!strstr(buf_cstr(&b), "mitigations"));
	T_TRUE(!strstr(buf_cstr(&b), "nokaslr"));
	buf_fini(&b);
}
