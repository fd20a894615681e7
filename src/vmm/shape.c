/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/shape.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "proto/noded.h"
#include "proto/shim.h"

/* Translated code per VM. The default grows to 128 MiB after a few imports, 32
 * MiB makes them 2.5 times slower. */
#define TB_SIZE_MIB "64"

/* The interposer's and the jail's numbers are written out below as text. */
_Static_assert(VMM_FD_QMP == 4 && VMM_FD_CHAN == 5 && VMM_FD_SERIAL == 6 &&
		   VMM_FD_TAP == 7 && VMM_FD_EXTRA == 8,
	       "argv names descriptors by number");

int vm_shape_check(const struct vm_shape *s, struct err *e)
{
	if (s->memory_mib < VM_MEMORY_MIN_MIB ||
	    s->memory_mib > VM_MEMORY_MAX_MIB || s->memory_mib % 2)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "memory_mib %u: expected an even number of %u "
			       "to %u",
			       s->memory_mib, VM_MEMORY_MIN_MIB,
			       VM_MEMORY_MAX_MIB);
	if (s->vcpus < 1 || s->vcpus > VM_VCPUS_MAX)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "vcpus %u: expected 1 to %u", s->vcpus,
			       VM_VCPUS_MAX);
	if (s->mode != VM_BOOT)
		return 0;
	if (!s->cmdline)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "cmdline: a VM that boots needs one");
	if (strlen(s->cmdline) > VM_CMDLINE_MAX)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "cmdline: longer than %u bytes", VM_CMDLINE_MAX);
	return 0;
}

static void word(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s) + 1);
}

static void pair(struct buf *b, const char *option, const char *value)
{
	word(b, option);
	word(b, value);
}

__attribute__((format(printf, 3, 4))) static void
pairf(struct buf *b, const char *option, const char *fmt, ...)
{
	va_list ap;

	word(b, option);
	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
	buf_put(b, "", 1);
}

/* What decides whether a checkpoint loads. */
static void devices(const struct vm_shape *s, struct buf *b)
{
	/* Without PIT and PIC the TSC cannot be calibrated, with the second
	 * IOAPIC the timer interrupt never arrives; ACPI names the virtio
	 * transports to a stock kernel. */
	pair(b, "-M",
	     "microvm,pit=on,pic=on,isa-serial=on,rtc=on,acpi=on,ioapic2=off,"
	     "memory-backend=m,mem-merge=off,dump-guest-core=off");
	/* No virtualisation inside. No 5-level paging: Debian's 6.1 kernel
	 * then refuses to read its own direct map in places, prints every path
	 * as "xxxx", and static glibc programs abort over /proc/self/exe.
	 * Without ERMS on the software engine: it emulates "rep movsb" byte by
	 * byte, and kernel and C library copy and clear by it, where they are
	 * told that it is fast; by words it is four to six times faster. */
	pair(b, "-cpu",
	     s->kvm ? "max,-svm,-vmx,-la57" : "max,-svm,-vmx,-la57,-erms");
	pair(b, "-accel", s->kvm ? "kvm" : "tcg,tb-size=" TB_SIZE_MIB);
	pairf(b, "-smp", "%u", s->vcpus);
	pairf(b, "-m", "%u", s->memory_mib);
	pairf(b, "-object",
	      "memory-backend-file,id=m,size=%uM,mem-path=" SHIM_RAM_PATH
	      ",share=on",
	      s->memory_mib);
	/* there is no hotplug on this machine: a placeholder keeps the place */
	pair(b, "-blockdev",
	     "driver=null-co,node-name=ph,size=4096,read-zeroes=on");
	pair(b, "-device", "virtio-blk-device,id=vd0,drive=ph");
	pair(b, "-device", "virtio-serial-device,max_ports=2");
	pair(b, "-chardev", "socket,id=chan,fd=5,server=on,wait=off");
	pair(b, "-device",
	     "virtserialport,chardev=chan,nr=1,name=org.caisson.guest");
	pair(b, "-chardev", "socket,id=com,fd=6,server=on,wait=off");
	pair(b, "-serial", "chardev:com");
	pair(b, "-object", "rng-builtin,id=rng");
	pair(b, "-device", "virtio-rng-device,rng=rng");
	if (!s->tap)
		return;
	pair(b, "-netdev", "tap,id=net,fd=7,vhost=off");
	pair(b, "-device",
	     "virtio-net-device,netdev=net,mac=02:00:00:00:00:02,"
	     "host_mtu=60000");
}

int vm_argv(const struct vm_shape *s, const char *exe, struct buf *ret,
	    struct err *e)
{
	int r = vm_shape_check(s, e);

	if (r < 0)
		return r;
	word(ret, exe);
	word(ret, "-nodefaults");
	word(ret, "-no-user-config");
	pair(ret, "-display", "none");
	devices(s, ret);
	pair(ret, "-chardev", "socket,id=qmp,fd=4,server=on,wait=off");
	pair(ret, "-mon", "chardev=qmp,mode=control");
	/* facts stay readable until the monitor has collected them */
	pair(ret, "-action", "shutdown=pause,panic=pause,reboot=shutdown");
	word(ret, "-S");
	if (s->mode == VM_INCOMING) {
		pair(ret, "-incoming", "defer");
		return 0;
	}
	pair(ret, "-kernel", SHIM_FD_PREFIX "8");
	pair(ret, "-initrd", SHIM_FD_PREFIX "9");
	pair(ret, "-append", s->cmdline);
	return 0;
}

int vm_argv_memfd(const struct vm_shape *s, const char *exe, struct err *e)
{
	struct buf b;
	owned_fd fd = -1;
	int r;

	buf_init(&b, 65536);
	r = vm_argv(s, exe, &b, e);
	if (r < 0)
		goto out;
	fd = memfd_create("argv", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) {
		r = err_errno(e, errno, "argv of the VMM: %m");
		goto out;
	}
	r = write_all(fd, buf_data(&b), buf_len(&b));
	if (r == 0 && (lseek(fd, 0, SEEK_SET) < 0 ||
		       fcntl(fd, F_ADD_SEALS,
			     F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW |
				 F_SEAL_WRITE) < 0))
		r = -errno;
	if (r < 0)
		err_errno(e, -r, "argv of the VMM: cannot seal it");
out:
	buf_fini(&b);
	return r < 0 ? r : take_fd(&fd);
}

int vm_cmdline(bool kvm, uint32_t tsc_khz, const char *more, struct buf *ret,
	       struct err *e)
{
	size_t at = buf_len(ret);

	buf_puts(ret, "console=ttyS0 quiet reboot=t panic=-1 "
		      "random.trust_cpu=on net.ifnames=0");
	if (!kvm) {
		if (tsc_khz == 0)
			return err_set(e, -EINVAL, ERR_INVALID,
				       "tsc_khz: the software engine needs "
				       "the host's TSC frequency");
		/* Mitigations protect guest processes from each other by
		 * features of a CPU that the translator does not have. */
		buf_printf(ret,
			   " no_timer_check nokaslr mitigations=off"
			   " tsc=reliable tsc_early_khz=%u",
			   tsc_khz);
	}
	if (more && *more)
		buf_printf(ret, " %s", more);
	if (buf_len(ret) - at > VM_CMDLINE_MAX)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "cmdline: longer than %u bytes", VM_CMDLINE_MAX);
	return 0;
}

int vm_signature(const struct vm_shape *s, struct buf *ret, struct err *e)
{
	struct vm_shape any = *s;
	struct buf b;
	int r;

	any.mode = VM_INCOMING;
	r = vm_shape_check(&any, e);
	if (r < 0)
		return r;
	buf_init(&b, 65536);
	devices(&any, &b);
	for (size_t i = 0; i < buf_len(&b); i++)
		if (buf_data(&b)[i] == '\0')
			buf_data(&b)[i] = ' ';
	r = buf_put(ret, buf_data(&b), buf_len(&b) ? buf_len(&b) - 1 : 0);
	buf_fini(&b);
	return r;
}
