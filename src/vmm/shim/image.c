/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/shim/image.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u
/* A run more costs a mapping at every restore, a page more costs 4 KiB. */
#define MERGE_GAP (UINT64_C(16) * PAGE)
/* More CPU time than writing any image takes; then it is stuck. */
#define IMAGE_CPU_S 300

/* Linux 6.7, include/uapi/linux/fs.h; older headers lack it. */
struct page_region {
	uint64_t start, end, categories;
};
struct pm_scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages,
	    category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define PAGEMAP_SCAN_	_IOWR('f', 16, struct pm_scan_arg)
#define PAGE_IS_FILE	(1u << 2)
#define PAGE_IS_PRESENT (1u << 3)
#define PAGE_IS_SWAPPED (1u << 4)
/* Documentation/admin-guide/mm/pagemap.rst */
#define PM_PRESENT (1ull << 63)
#define PM_SWAPPED (1ull << 62)
#define PM_FILE	   (1ull << 61)

/* What the image needs; built before the fork. */
static struct shim_run image_runs[SHIM_MAPS_MAX];

int shim_parse(const void *p, size_t n, size_t n_fds, struct shim_req *ret,
	       size_t *ret_runs)
{
	struct shim_req q;
	size_t want_fds = 0;

	if (n != sizeof(q))
		return -EBADMSG;
	memcpy(&q, p, sizeof(q));
	if (q.magic != SHIM_MAGIC || q.b != 0)
		return -EBADMSG;
	*ret_runs = 0;
	switch (q.op) {
	case SHIM_HELLO:
		if (q.a != 0)
			return -EBADMSG;
		break;
	case SHIM_MAP:
		if (q.a > SHIM_MAPS_MAX)
			return -EBADMSG;
		want_fds = 1;
		*ret_runs = (size_t)q.a;
		break;
	case SHIM_IMAGE:
		if (q.a > 1)
			return -EBADMSG;
		want_fds = 2;
		break;
	default:
		return -EBADMSG;
	}
	if (n_fds != want_fds)
		return -EBADMSG;
	*ret = q;
	return 0;
}

int shim_runs_check(const struct shim_run *runs, size_t n, uint64_t limit)
{
	uint64_t at = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t off = runs[i].offset, len = runs[i].length;

		if (off % PAGE || len % PAGE || len == 0 || off < at ||
		    off > limit || len > limit - off)
			return -EINVAL;
		at = off + len;
	}
	return 0;
}

static int map_one(const struct ram *ram, int fd, uint64_t off, size_t len)
{
	uint8_t *at = ram->base + off;

	if (mmap(at, len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd,
		 (off_t)off) == MAP_FAILED)
		return -errno;
	/* what QEMU had asked for, lost with the mapping that was here */
	if (madvise(at, len, MADV_DONTFORK) < 0 ||
	    madvise(at, len, MADV_DONTDUMP) < 0)
		return -errno;
	return 0;
}

int ram_map(const struct ram *ram, int fd, const struct shim_run *runs,
	    size_t n)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL), r;

	if (!ram->base)
		return -ENXIO;
	if (flags < 0 || fstat(fd, &st) < 0)
		return -errno;
	if ((flags & O_ACCMODE) != O_RDONLY || !S_ISREG(st.st_mode))
		return -EPERM;
	if (n == 0) {
		if ((uint64_t)st.st_size != ram->len)
			return -EINVAL;
		return map_one(ram, fd, 0, ram->len);
	}
	r = shim_runs_check(runs, n, ram->len);
	/* past the end of the file lies SIGBUS */
	if (r == 0)
		r = shim_runs_check(runs, n, (uint64_t)st.st_size);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = map_one(ram, fd, runs[i].offset, runs[i].length);
	return r;
}

struct collector {
	struct shim_run *runs;
	size_t n, max;
};

static int collect(struct collector *c, uint64_t off, uint64_t len)
{
	struct shim_run *last = c->n ? &c->runs[c->n - 1] : NULL;

	if (last && off - (last->offset + last->length) <= MERGE_GAP) {
		last->length = off + len - last->offset;
		return 0;
	}
	if (c->n == c->max)
		return -E2BIG;
	c->runs[c->n++] = (struct shim_run){ off, len };
	return 0;
}

/*
 * Changed = (PRESENT | SWAPPED) && !FILE. PRESENT alone loses the pages that
 * the kernel is just moving (compaction: their entry has the form of a swap
 * entry) and all those that are swapped out.
 */
static int scan_fast(const struct ram *ram, struct collector *c)
{
	struct page_region v[512];
	uint64_t start = (uint64_t)(uintptr_t)ram->base;
	struct pm_scan_arg a = {
		.size = sizeof(a),
		.start = start,
		.end = start + ram->len,
		.vec = (uint64_t)(uintptr_t)v,
		.vec_len = sizeof(v) / sizeof(v[0]),
		.category_inverted = PAGE_IS_FILE,
		.category_mask = PAGE_IS_FILE,
		.category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
		.return_mask = PAGE_IS_PRESENT,
	};

	while (a.start < a.end) {
		int n = ioctl(ram->pagemap, PAGEMAP_SCAN_, &a);

		if (n < 0)
			return -errno;
		for (int i = 0; i < n; i++) {
			int r = collect(c, v[i].start - start,
					v[i].end - v[i].start);
			if (r < 0)
				return r;
		}
		if (a.walk_end <= a.start)
			return -EIO;
		a.start = a.walk_end;
	}
	return 0;
}

static int scan_slow(const struct ram *ram, struct collector *c)
{
	static uint64_t v[8192];
	uint64_t first = (uint64_t)(uintptr_t)ram->base / PAGE;
	size_t pages = ram->len / PAGE;

	for (size_t at = 0; at < pages;) {
		size_t want = pages - at < 8192 ? pages - at : 8192;
		ssize_t n =
		    pread(ram->pagemap, v, want * 8, (off_t)((first + at) * 8));

		if (n <= 0 || n % 8)
			return n < 0 ? -errno : -EIO;
		for (size_t i = 0; i < (size_t)n / 8; i++) {
			int r = 0;

			if ((v[i] & (PM_PRESENT | PM_SWAPPED)) &&
			    !(v[i] & PM_FILE))
				r = collect(c, (at + i) * PAGE, PAGE);
			if (r < 0)
				return r;
		}
		at += (size_t)n / 8;
	}
	return 0;
}

ssize_t ram_changed(const struct ram *ram, bool slow, struct shim_run *runs,
		    size_t max)
{
	struct collector c = { .runs = runs, .max = max };
	int r = -ENOTTY;

	if (!ram->base)
		return -ENXIO;
	if (ram->pagemap < 0)
		return -ENOTSUP;
	if (!slow)
		r = scan_fast(ram, &c);
	if (r == -ENOTTY || r == -EINVAL) {
		c.n = 0;
		r = scan_slow(ram, &c);
	}
	return r < 0 ? r : (ssize_t)c.n;
}

static bool page_is_zero(const uint8_t *p)
{
	const uint64_t *w = (const void *)p;

	for (size_t i = 0; i < PAGE / 8; i += 8)
		if (w[i] | w[i + 1] | w[i + 2] | w[i + 3] | w[i + 4] |
		    w[i + 5] | w[i + 6] | w[i + 7])
			return false;
	return true;
}

static int put(int fd, const void *p, size_t n, int64_t off)
{
	const uint8_t *b = p;

	while (n) {
		ssize_t w = off < 0 ? write(fd, b, n) : pwrite(fd, b, n, off);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return w < 0 ? -errno : -EIO;
		b += w;
		n -= (size_t)w;
		if (off >= 0)
			off += w;
	}
	return 0;
}

/* Pages of the run that are not zero (or all of them), in long writes. */
static int write_run(const struct ram *ram, int fd, const struct shim_run *run,
		     bool skip_zero, uint64_t *bytes)
{
	uint64_t at = run->offset, end = run->offset + run->length;

	while (at < end) {
		uint64_t from = at;
		int r;

		if (skip_zero && page_is_zero(ram->base + at)) {
			at += PAGE;
			continue;
		}
		while (at < end && at - from < (8u << 20) &&
		       !(skip_zero && page_is_zero(ram->base + at)))
			at += PAGE;
		r = put(fd, ram->base + from, at - from, (int64_t)from);
		if (r < 0)
			return r;
		*bytes += at - from;
	}
	return 0;
}

static void close_all_but(unsigned a, unsigned b)
{
	unsigned lo = a < b ? a : b, hi = a < b ? b : a;

	if (lo > 0)
		syscall(SYS_close_range, 0u, lo - 1, 0);
	if (hi > lo + 1)
		syscall(SYS_close_range, lo + 1, hi - 1, 0);
	syscall(SYS_close_range, hi + 1, ~0u, 0);
}

__attribute__((noreturn)) static void image_main(const struct ram *ram,
						 int file, int done_pipe,
						 bool is_base, size_t n_runs)
{
	struct rlimit cpu = { IMAGE_CPU_S, IMAGE_CPU_S };
	struct shim_image_done done = { .magic = SHIM_MAGIC, .n_runs = n_runs };

	/* no image outlives its VMM, none holds a socket or disk of it */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CPU, &cpu);
	close_all_but((unsigned)file, (unsigned)done_pipe);
	for (size_t i = 0; i < n_runs && done.r == 0; i++)
		done.r =
		    write_run(ram, file, &image_runs[i], is_base, &done.bytes);
	if (done.r < 0)
		done.n_runs = 0;
	if (put(done_pipe, &done, sizeof(done), -1) == 0)
		put(done_pipe, image_runs, done.n_runs * sizeof(image_runs[0]),
		    -1);
	_exit(0);
}

pid_t ram_image(const struct ram *ram, int file, int done_pipe, bool is_base)
{
	struct stat st;
	ssize_t n = 1;
	long pid;
	int flags = fcntl(file, F_GETFL);

	if (!ram->base)
		return -ENXIO;
	if (flags < 0 || fstat(file, &st) < 0)
		return -errno;
	if ((flags & O_ACCMODE) != O_RDWR || !S_ISREG(st.st_mode))
		return -EPERM;
	if (is_base)
		image_runs[0] = (struct shim_run){ 0, ram->len };
	else
		n = ram_changed(ram, false, image_runs, SHIM_MAPS_MAX);
	if (n < 0)
		return (pid_t)n;
	if (ftruncate(file, (off_t)ram->len) < 0)
		return -errno;

	if (madvise(ram->base, ram->len, MADV_DOFORK) < 0)
		return -errno;
	/* a raw clone: pthread_atfork() handlers would take the VMM's locks. No
	 * exit signal: the VMM need not know. */
	pid = syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (pid == 0)
		image_main(ram, file, done_pipe, is_base, (size_t)n);
	if (pid < 0)
		pid = -errno;
	if (madvise(ram->base, ram->len, MADV_DONTFORK) < 0)
		return -errno;
	return (pid_t)pid;
}

void ram_reap(void)
{
	while (waitpid(-1, NULL, WNOHANG | __WCLONE) > 0)
		;
}
