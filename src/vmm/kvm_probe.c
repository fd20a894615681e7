/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/kvm_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"

/* A real CPU needs well under a millisecond, an emulator at a few MIPS ten
 * times the limit. */
#define LIMIT_US     50000u
#define KILL_MS	     2000
#define LOOP_COUNT   2000000
#define GUEST_MEMORY 0x200000u

/* Guest physical layout: one 2 MiB page, mapped one to one. */
#define AT_GDT	  0x1000u
#define AT_IDT	  0x2000u
#define AT_PML4	  0x3000u
#define AT_PDPT	  0x4000u
#define AT_PD	  0x5000u
#define AT_RESULT 0x6000
#define AT_XSAVE  0x8000
#define AT_CODE	  0x10000u
#define AT_STACK  0x20000u

#define STR_(x) #x
#define STR(x)	STR_(x)

/* Each step leaves its number at AT_RESULT, so that a death can be named. */
enum step {
	STEP_START = 1,
	STEP_CX16,
	STEP_SSE2,
	STEP_XSAVE,
	STEP_INT3,
	STEP_LOOP,
	STEP_DONE,
};

struct result {
	uint32_t step;
	uint32_t int3_count;
	uint64_t pad;
	uint64_t cx16[2]; /* 16-byte aligned */
};

#define RESULT STR(AT_RESULT)
#define XSAVE  STR(AT_XSAVE)
#define LOOPS  STR(LOOP_COUNT)

/* The guest. Position independent; addresses are the layout's. */
__asm__(".pushsection .rodata\n"
	".globl kvm_probe_guest, kvm_probe_guest_int3, kvm_probe_guest_end\n"
	"kvm_probe_guest:\n"
	"	movl $1, " RESULT "\n"
	/* {1,2} -> {3,4} */
	"	movl $1, %eax\n"
	"	movl $2, %edx\n"
	"	movl $3, %ebx\n"
	"	movl $4, %ecx\n"
	"	movl $" RESULT ", %edi\n"
	"	lock cmpxchg16b 16(%rdi)\n"
	"	jnz 1f\n"
	"	movl $2, " RESULT "\n"
	"	pcmpeqd %xmm0, %xmm0\n"
	"	paddq %xmm0, %xmm0\n"
	"	movq %xmm0, %rax\n"
	"	cmpq $-2, %rax\n"
	"	jne 1f\n"
	"	movl $3, " RESULT "\n"
	/* x87 and SSE state out, changed, and back */
	"	xorl %ecx, %ecx\n"
	"	xorl %edx, %edx\n"
	"	movl $3, %eax\n"
	"	xsetbv\n"
	"	xorl %edx, %edx\n"
	"	movl $3, %eax\n"
	"	movl $" XSAVE ", %edi\n"
	"	xsave (%rdi)\n"
	"	pxor %xmm0, %xmm0\n"
	"	xrstor (%rdi)\n"
	"	movq %xmm0, %rax\n"
	"	cmpq $-2, %rax\n"
	"	jne 1f\n"
	"	movl $4, " RESULT "\n"
	"	int3\n"
	"	cmpl $1, " RESULT "+4\n"
	"	jne 1f\n"
	"	movl $5, " RESULT "\n"
	"	movl $" LOOPS ", %ecx\n"
	"2:	decl %ecx\n"
	"	jnz 2b\n"
	"	movl $7, " RESULT "\n"
	"1:	hlt\n"
	"kvm_probe_guest_int3:\n"
	"	incl " RESULT "+4\n"
	"	iretq\n"
	"kvm_probe_guest_end:\n"
	".popsection\n");
extern const char kvm_probe_guest[], kvm_probe_guest_int3[],
    kvm_probe_guest_end[];

static const char *const step_names[] = {
	[0] = "the first instruction",
	[STEP_START] = "lock cmpxchg16b",
	[STEP_CX16] = "an SSE2 instruction",
	[STEP_SSE2] = "xsave/xrstor",
	[STEP_XSAVE] = "int3",
	[STEP_INT3] = "a counted loop",
};

static void fill(uint8_t *mem)
{
	uint64_t *gdt = (void *)(mem + AT_GDT);
	uint32_t *idt = (void *)(mem + AT_IDT + (size_t)3 * 16);
	struct result *res = (void *)(mem + AT_RESULT);
	/* three labels of one piece of text, but three objects in C */
	uintptr_t begin = (uintptr_t)kvm_probe_guest;
	uintptr_t int3 = (uintptr_t)kvm_probe_guest_int3 - begin;
	uintptr_t size = (uintptr_t)kvm_probe_guest_end - begin;
	uint32_t handler = AT_CODE + (uint32_t)int3;

	*(uint64_t *)(void *)(mem + AT_PML4) = AT_PDPT | 3;
	*(uint64_t *)(void *)(mem + AT_PDPT) = AT_PD | 3;
	*(uint64_t *)(void *)(mem + AT_PD) = 0x83; /* 2 MiB, writable */
	gdt[1] = 0x00af9b000000ffffull;		   /* 64-bit code */
	gdt[2] = 0x00cf93000000ffffull;		   /* data */
	/* Intel SDM vol. 3, 6.14.1: present 64-bit interrupt gate */
	idt[0] = (handler & 0xffff) | 8u << 16;
	idt[1] = (handler & 0xffff0000u) | 0x8e00;
	res->cx16[0] = 1;
	res->cx16[1] = 2;
	memcpy(mem + AT_CODE, kvm_probe_guest, size);
}

static struct kvm_segment segment(uint16_t selector, uint8_t type, bool code)
{
	return (struct kvm_segment){
		.limit = 0xffffffff,
		.selector = selector,
		.type = type,
		.present = 1,
		.db = !code,
		.s = 1,
		.l = code,
		.g = 1,
	};
}

static int set_registers(int vcpu)
{
	struct kvm_sregs s;
	struct kvm_regs r = { .rip = AT_CODE, .rsp = AT_STACK, .rflags = 2 };

	if (ioctl(vcpu, KVM_GET_SREGS, &s) < 0)
		return -errno;
	s.cs = segment(8, 11, true);
	s.ds = s.es = s.fs = s.gs = s.ss = segment(16, 3, false);
	s.gdt.base = AT_GDT;
	s.gdt.limit = 3 * 8 - 1;
	s.idt.base = AT_IDT;
	s.idt.limit = 256 * 16 - 1;
	s.cr3 = AT_PML4;
	s.cr4 = 1u << 5 | 1u << 9 | 1u << 10 | 1u << 18; /* PAE OSFX OSXSAVE */
	s.cr0 = 1u << 31 | 1u << 16 | 1u << 5 | 1u << 1 | 1u;
	s.efer = 1u << 8 | 1u << 10; /* LME LMA */
	if (ioctl(vcpu, KVM_SET_SREGS, &s) < 0 ||
	    ioctl(vcpu, KVM_SET_REGS, &r) < 0)
		return -errno;
	return 0;
}

static int set_cpuid(int kvm, int vcpu)
{
	enum { ENTRIES = 200 };
	OWNED(own_free_p)
	struct kvm_cpuid2 *c =
	    xcalloc(1, sizeof(*c) + ENTRIES * sizeof(struct kvm_cpuid_entry2));

	c->nent = ENTRIES;
	if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, c) < 0 ||
	    ioctl(vcpu, KVM_SET_CPUID2, c) < 0)
		return -errno;
	return 0;
}

/* In the child: build the guest and run it. The verdict is told by reason. */
static const char *set_up(int kvm, uint8_t *mem, int *ret_vcpu,
			  struct kvm_run **ret_run)
{
	struct kvm_userspace_memory_region region = {
		.memory_size = GUEST_MEMORY,
		.userspace_addr = (uintptr_t)mem,
	};
	int vm, vcpu, size;

	if (ioctl(kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
		return "it is not KVM, or its API version is not 12";
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm < 0)
		return "it cannot create a VM";
	if (ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000ul) < 0 ||
	    ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return "it cannot map memory into a VM";
	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (vcpu < 0 || size < (int)sizeof(struct kvm_run))
		return "it cannot create a CPU";
	*ret_run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED,
			vcpu, 0);
	if (*ret_run == MAP_FAILED)
		return "it cannot map a CPU's state";
	if (set_cpuid(kvm, vcpu) < 0)
		return "it cannot describe a CPU";
	if (set_registers(vcpu) < 0)
		return "it cannot set a CPU's registers for 64-bit mode";
	*ret_vcpu = vcpu;
	return NULL;
}

static void judge(const struct kvm_run *run, const struct result *res, int r,
		  struct kvm_verdict *v)
{
	const char *at = res->step < ARRAY_SIZE(step_names)
			     ? step_names[res->step]
			     : "its end";

	if (r < 0)
		snprintf(v->reason, sizeof(v->reason),
			 "the probe guest could not be run (%s) at %s",
			 strerror(-r), at);
	else if (run->exit_reason == KVM_EXIT_INTERNAL_ERROR)
		snprintf(v->reason, sizeof(v->reason),
			 "KVM internal error, suberror %u, at %s: the host "
			 "emulates guest code instead of running it",
			 run->internal.suberror, at);
	else if (run->exit_reason != KVM_EXIT_HLT)
		snprintf(v->reason, sizeof(v->reason),
			 "the probe guest left with exit reason %u at %s",
			 run->exit_reason, at);
	else if (res->step != STEP_DONE || res->cx16[0] != 3 ||
		 res->cx16[1] != 4)
		snprintf(v->reason, sizeof(v->reason),
			 "the probe guest got a wrong result from %s", at);
	else if (v->elapsed_us > LIMIT_US)
		snprintf(v->reason, sizeof(v->reason),
			 "the probe guest took %u us, more than %u: the host "
			 "emulates guest code",
			 v->elapsed_us, LIMIT_US);
	else
		v->is_usable = true;
	if (v->is_usable)
		snprintf(v->reason, sizeof(v->reason),
			 "the probe guest ran in %u us", v->elapsed_us);
}

static void run_guest(int kvm, struct kvm_verdict *v)
{
	uint8_t *mem = mmap(NULL, GUEST_MEMORY, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kvm_run *run = NULL;
	const char *why;
	uint64_t t0;
	int vcpu = -1, r;

	if (mem == MAP_FAILED) {
		snprintf(v->reason, sizeof(v->reason), "no memory to probe");
		return;
	}
	fill(mem);
	why = set_up(kvm, mem, &vcpu, &run);
	if (why) {
		snprintf(v->reason, sizeof(v->reason), "/dev/kvm: %s", why);
		return;
	}
	t0 = now_mono_us();
	do
		r = ioctl(vcpu, KVM_RUN, 0) < 0 ? -errno : 0;
	while (r == -EINTR);
	v->elapsed_us = (unsigned)(now_mono_us() - t0);
	judge(run, (const void *)(mem + AT_RESULT), r, v);
}

static void wait_child(pid_t pid, int fd, struct kvm_verdict *ret)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct kvm_verdict v = { 0 };
	int n;

	do
		n = poll(&p, 1, KILL_MS);
	while (n < 0 && errno == EINTR);
	if (n == 1 && read(fd, &v, sizeof(v)) == sizeof(v)) {
		v.reason[sizeof(v.reason) - 1] = '\0';
		*ret = v;
	} else if (n == 1) {
		snprintf(ret->reason, sizeof(ret->reason),
			 "the probe guest's process died");
	} else {
		snprintf(ret->reason, sizeof(ret->reason),
			 "the probe guest did not end within %d ms", KILL_MS);
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void kvm_probe(int kvm_fd, struct kvm_verdict *ret)
{
	int p[2];
	pid_t pid;

	memset(ret, 0, sizeof(*ret));
	if (kvm_fd < 0) {
		snprintf(ret->reason, sizeof(ret->reason),
			 "there is no /dev/kvm");
		return;
	}
	if (pipe2(p, O_CLOEXEC) < 0) {
		snprintf(ret->reason, sizeof(ret->reason),
			 "no descriptors to probe");
		return;
	}
	pid = fork();
	if (pid == 0) {
		struct kvm_verdict v = { 0 };

		alarm(KILL_MS / 1000 + 1);
		run_guest(kvm_fd, &v);
		_exit(write_all(p[1], &v, sizeof(v)) < 0);
	}
	fd_close(p[1]);
	if (pid < 0)
		snprintf(ret->reason, sizeof(ret->reason),
			 "no process to probe");
	else
		wait_child(pid, p[0], ret);
	fd_close(p[0]);
}
