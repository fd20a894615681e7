/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/shim/image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/test.h"

#define PAGE  4096u
#define PAGES 4096u /* 16 MiB */
#define LEN   ((size_t)PAGE * PAGES)

static struct ram ram_new(void)
{
	struct ram r = { .len = LEN };

	r.base = mmap(NULL, LEN, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	T_TRUE(r.base != MAP_FAILED);
	T_INT(madvise(r.base, LEN, MADV_DONTFORK), 0);
	r.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	return r;
}

static void ram_drop(struct ram *r)
{
	munmap(r->base, r->len);
	if (r->pagemap >= 0)
		close(r->pagemap);
}

/* A file of RAM's length whose page i begins with tag + i; -1 flags: read
 * only, as the monitor passes it. */
static int base_file(uint64_t tag, int flags)
{
	static int count;
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/f%d", test_tmpdir(), count++);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	T_TRUE(fd >= 0);
	T_INT(ftruncate(fd, LEN), 0);
	for (uint64_t i = 0; tag && i < PAGES; i++) {
		uint64_t v = tag + i;

		T_INT(pwrite(fd, &v, 8, (off_t)(i * PAGE)), 8);
	}
	if (flags == O_RDWR)
		return fd;
	close(fd);
	fd = open(path, flags | O_CLOEXEC);
	T_TRUE(fd >= 0);
	return fd;
}

static uint64_t file_sum(int fd)
{
	static uint64_t b[8192];
	uint64_t sum = 14695981039346656037ull;
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, b, sizeof(b), at)) > 0) {
		for (size_t i = 0; i < (size_t)n / 8; i++)
			sum = (sum ^ b[i]) * 1099511628211ull;
		at += n;
	}
	return sum;
}

static uint64_t word(const struct ram *r, uint64_t page)
{
	uint64_t v;

	memcpy(&v, r->base + page * PAGE, 8);
	return v;
}

/* Take an image and wait for its end; the caller's done and runs. */
static void image(const struct ram *r, int file, bool is_base,
		  struct shim_image_done *done, struct shim_run *runs,
		  size_t max)
{
	int p[2];
	pid_t pid;

	T_INT(pipe2(p, O_CLOEXEC), 0);
	pid = ram_image(r, file, p[1], is_base);
	close(p[1]);
	T_TRUE(pid > 0);
	T_INT(read(p[0], done, sizeof(*done)), sizeof(*done));
	T_INT(done->magic, SHIM_MAGIC);
	T_TRUE(done->n_runs <= max);
	T_INT(read(p[0], runs, max * sizeof(*runs)),
	      done->n_runs * sizeof(*runs));
	close(p[0]);
	T_INT(waitpid(pid, NULL, __WCLONE), pid);
}

TEST(hello_is_parsed)
{
	struct shim_req q = { SHIM_MAGIC, SHIM_HELLO, 0, 0 }, out;
	size_t runs = 9;

	T_INT(shim_parse(&q, sizeof(q), 0, &out, &runs), 0);
	T_INT(runs, 0);
	T_INT(out.op, SHIM_HELLO);
}

TEST(broken_requests_are_refused)
{
	const struct {
		struct shim_req q;
		size_t n, fds;
	} bad[] = {
		{ { SHIM_MAGIC, SHIM_HELLO, 0, 0 }, 31, 0 },
		{ { SHIM_MAGIC, SHIM_HELLO, 0, 0 }, 32, 1 },
		{ { SHIM_MAGIC, SHIM_HELLO, 1, 0 }, 32, 0 },
		{ { SHIM_MAGIC + 1, SHIM_HELLO, 0, 0 }, 32, 0 },
		{ { SHIM_MAGIC, 0, 0, 0 }, 32, 0 },
		{ { SHIM_MAGIC, SHIM_OP_MAX_, 0, 0 }, 32, 0 },
		{ { SHIM_MAGIC, SHIM_MAP, 0, 0 }, 32, 0 },
		{ { SHIM_MAGIC, SHIM_MAP, SHIM_MAPS_MAX + 1, 0 }, 32, 1 },
		{ { SHIM_MAGIC, SHIM_MAP, UINT64_MAX, 0 }, 32, 1 },
		{ { SHIM_MAGIC, SHIM_MAP, 0, 7 }, 32, 1 },
		{ { SHIM_MAGIC, SHIM_IMAGE, 2, 0 }, 32, 2 },
		{ { SHIM_MAGIC, SHIM_IMAGE, 1, 0 }, 32, 1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct shim_req out;
		size_t runs;

		T_INT(shim_parse(&bad[i].q, bad[i].n, bad[i].fds, &out, &runs),
		      -EBADMSG);
	}
}

TEST(runs_must_ascend_inside_ram)
{
	struct shim_run ok[] = { { 0, PAGE },
				 { PAGE, PAGE },
				 { LEN - PAGE, PAGE } };
	struct shim_run overlap[] = { { 0, 2 * PAGE }, { PAGE, PAGE } };
	struct shim_run back[] = { { PAGE, PAGE }, { 0, PAGE } };
	struct shim_run empty[] = { { 0, 0 } };
	struct shim_run odd[] = { { 1, PAGE } };
	struct shim_run past[] = { { LEN - PAGE, 2 * PAGE } };
	struct shim_run wrap[] = { { PAGE, UINT64_MAX - PAGE + 1 } };

	T_INT(shim_runs_check(ok, 3, LEN), 0);
	T_INT(shim_runs_check(overlap, 2, LEN), -EINVAL);
	T_INT(shim_runs_check(back, 2, LEN), -EINVAL);
	T_INT(shim_runs_check(empty, 1, LEN), -EINVAL);
	T_INT(shim_runs_check(odd, 1, LEN), -EINVAL);
	T_INT(shim_runs_check(past, 1, LEN), -EINVAL);
	T_INT(shim_runs_check(wrap, 1, LEN), -EINVAL);
}

TEST(writes_reach_neither_base_nor_sibling)
{
	struct ram a = ram_new(), b = ram_new();
	int fd = base_file(1000, O_RDONLY);
	uint64_t sum = file_sum(fd);

	T_INT(ram_map(&a, fd, NULL, 0), 0);
	T_INT(ram_map(&b, fd, NULL, 0), 0);
	memset(a.base, 0xee, LEN);
	T_INT(word(&b, 7), 1007);
	T_TRUE(file_sum(fd) == sum);
	/* what a balloon does: punch the file, drop the page */
	T_INT(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, LEN),
	      -1);
	T_INT(errno, EBADF);
	T_INT(madvise(a.base, LEN, MADV_DONTNEED), 0);
	T_INT(word(&b, 7), 1007);
	T_TRUE(file_sum(fd) == sum);
	close(fd);
	ram_drop(&a);
	ram_drop(&b);
}

TEST(a_writable_base_is_refused)
{
	struct ram r = ram_new();
	int fd = base_file(1, O_RDWR);

	T_INT(ram_map(&r, fd, NULL, 0), -EPERM);
	close(fd);
	ram_drop(&r);
}

TEST(a_base_of_another_length_is_refused)
{
	struct ram r = ram_new();
	int fd = base_file(1, O_RDONLY);

	r.len = LEN / 2;
	T_INT(ram_map(&r, fd, NULL, 0), -EINVAL);
	r.len = LEN;
	ram_drop(&r);
	close(fd);
}

TEST(a_pipe_is_no_base)
{
	struct ram r = ram_new();
	int p[2];

	T_INT(pipe2(p, O_CLOEXEC), 0);
	T_INT(ram_map(&r, p[0], NULL, 0), -EPERM);
	close(p[0]);
	close(p[1]);
	ram_drop(&r);
}

TEST(runs_past_the_layers_end_are_refused)
{
	struct ram r = ram_new();
	struct shim_run run = { LEN - PAGE, PAGE };
	int w = base_file(1, O_RDWR), fd;
	char path[64];

	T_INT(ftruncate(w, LEN - PAGE), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", w);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	T_INT(ram_map(&r, fd, &run, 1), -EINVAL);
	close(fd);
	close(w);
	ram_drop(&r);
}

TEST(base_image_holds_everything_but_zeros)
{
	struct ram r = ram_new();
	int file = base_file(0, O_RDWR);
	struct shim_image_done done;
	struct shim_run runs[4];
	struct stat st;
	uint8_t page[PAGE];

	T_INT(ftruncate(file, 0), 0);
	memset(r.base + 5 * PAGE, 5, PAGE);
	memset(r.base + 6 * PAGE, 0, PAGE); /* touched, but zero */
	r.base[LEN - 1] = 1;
	image(&r, file, true, &done, runs, 4);
	T_INT(done.r, 0);
	T_INT(done.bytes, 2 * PAGE);
	T_INT(done.n_runs, 1);
	T_INT(fstat(file, &st), 0);
	T_INT(st.st_size, LEN);
	T_TRUE(st.st_blocks * 512 < 1 << 20);
	T_INT(pread(file, page, PAGE, 5 * PAGE), PAGE);
	T_TRUE(memcmp(page, r.base + 5 * PAGE, PAGE) == 0);
	T_INT(pread(file, page, PAGE, LEN - PAGE), PAGE);
	T_INT(page[PAGE - 1], 1);
	close(file);
	ram_drop(&r);
}

TEST(base_image_of_a_mapped_base_is_whole)
{
	struct ram r = ram_new();
	int fd = base_file(1000, O_RDONLY), file = base_file(0, O_RDWR);
	struct shim_image_done done;
	struct shim_run runs[4];
	uint64_t v;

	T_INT(ram_map(&r, fd, NULL, 0), 0);
	r.base[9 * PAGE + 100] = 0x77;
	image(&r, file, true, &done, runs, 4);
	T_INT(done.r, 0);
	for (uint64_t i = 0; i < PAGES; i++) {
		T_INT(pread(file, &v, 8, (off_t)(i * PAGE)), 8);
		T_INT(v, 1000 + i);
	}
	T_INT(pread(file, &v, 1, 9 * PAGE + 100), 1);
	T_INT(v & 0xff, 0x77);
	close(fd);
	close(file);
	ram_drop(&r);
}

TEST(image_is_frozen_while_the_source_writes_on)
{
	struct ram r = ram_new();
	int file = base_file(0, O_RDWR), p[2];
	struct shim_image_done done;
	pid_t pid;
	uint64_t v;

	for (uint64_t i = 0; i < PAGES; i++)
		memset(r.base + i * PAGE, 1, 8);
	T_INT(pipe2(p, O_CLOEXEC), 0);
	pid = ram_image(&r, file, p[1], true);
	T_TRUE(pid > 0);
	for (uint64_t i = 0; i < PAGES; i++)
		memset(r.base + i * PAGE, 2, 8);
	T_INT(read(p[0], &done, sizeof(done)), sizeof(done));
	T_INT(done.r, 0);
	for (uint64_t i = 0; i < PAGES; i++) {
		T_INT(pread(file, &v, 8, (off_t)(i * PAGE)), 8);
		T_TRUE(v == 0x0101010101010101ull);
	}
	waitpid(pid, NULL, __WCLONE);
	close(p[0]);
	close(p[1]);
	close(file);
	ram_drop(&r);
}

TEST(layer_image_holds_the_changed_pages)
{
	struct ram r = ram_new(), child = ram_new();
	int fd = base_file(1000, O_RDONLY), file = base_file(0, O_RDWR), ro;
	struct shim_image_done done;
	struct shim_run runs[16];
	char path[64];

	if (r.pagemap < 0)
		test_skip("no /proc/self/pagemap");
	T_INT(ram_map(&r, fd, NULL, 0), 0);
	T_INT(word(&r, 50), 1050); /* reading changes nothing */
	for (uint64_t i = 100; i < 110; i++)
		memset(r.base + i * PAGE, 0xab, PAGE);
	memset(r.base + 3000 * PAGE, 0, PAGE); /* zeros are content here */
	image(&r, file, false, &done, runs, 16);
	T_INT(done.r, 0);
	T_INT(done.n_runs, 2);
	T_INT(runs[0].offset, 100 * PAGE);
	T_INT(runs[0].length, 10 * PAGE);
	T_INT(runs[1].offset, 3000 * PAGE);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	T_INT(ram_map(&child, fd, NULL, 0), 0);
	T_INT(ram_map(&child, ro, runs, done.n_runs), 0);
	T_TRUE(memcmp(child.base, r.base, LEN) == 0);
	close(ro);
	close(fd);
	close(file);
	ram_drop(&r);
	ram_drop(&child);
}

TEST(pages_near_each_other_are_one_run)
{
	struct ram r = ram_new(), child = ram_new();
	int fd = base_file(1000, O_RDONLY), file = base_file(0, O_RDWR), ro;
	struct shim_image_done done;
	struct shim_run runs[16];
	char path[64];

	if (r.pagemap < 0)
		test_skip("no /proc/self/pagemap");
	T_INT(ram_map(&r, fd, NULL, 0), 0);
	/* the unchanged pages between them are part of it */
	for (uint64_t i = 100; i < 140; i += 10)
		memset(r.base + i * PAGE, 0xab, PAGE);
	image(&r, file, false, &done, runs, 16);
	T_INT(done.r, 0);
	T_INT(done.n_runs, 1);
	T_INT(runs[0].offset, 100 * PAGE);
	T_INT(runs[0].length, 31 * PAGE);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	T_INT(ram_map(&child, fd, NULL, 0), 0);
	T_INT(ram_map(&child, ro, runs, done.n_runs), 0);
	T_TRUE(memcmp(child.base, r.base, LEN) == 0);
	close(ro);
	close(fd);
	close(file);
	ram_drop(&r);
	ram_drop(&child);
}

TEST(both_scanners_agree)
{
	static struct shim_run fast[SHIM_MAPS_MAX], slow[SHIM_MAPS_MAX];
	struct ram r = ram_new();
	int fd = base_file(1000, O_RDONLY);
	ssize_t n;

	if (r.pagemap < 0)
		test_skip("no /proc/self/pagemap");
	T_INT(ram_map(&r, fd, NULL, 0), 0);
	for (uint64_t i = 3; i < PAGES; i += 61)
		r.base[i * PAGE] = 9;
	n = ram_changed(&r, false, fast, SHIM_MAPS_MAX);
	T_TRUE(n > 10);
	T_INT(ram_changed(&r, true, slow, SHIM_MAPS_MAX), n);
	T_TRUE(memcmp(fast, slow, (size_t)n * sizeof(fast[0])) == 0);
	T_INT(ram_changed(&r, false, fast, 3), -E2BIG);
	close(fd);
	ram_drop(&r);
}

/* The kernel moves and writes out pages while we look: none may be missed. */
static void hunt(int advice)
{
	static struct shim_run runs[SHIM_MAPS_MAX];
	struct ram r = ram_new();
	int fd = base_file(1000, O_RDONLY);

	if (r.pagemap < 0)
		test_skip("no /proc/self/pagemap");
	T_INT(ram_map(&r, fd, NULL, 0), 0);
	for (int round = 0; round < 20; round++) {
		ssize_t n;
		int c;

		memset(r.base, round + 1, LEN / 2);
		if (advice)
			madvise(r.base, LEN, advice);
		c = open("/proc/sys/vm/compact_memory", O_WRONLY | O_CLOEXEC);
		if (c >= 0 && write(c, "1", 1) < 0)
			T_TRUE(errno > 0);
		if (c >= 0)
			close(c);
		n = ram_changed(&r, round & 1, runs, SHIM_MAPS_MAX);
		T_INT(n, 1);
		T_INT(runs[0].offset, 0);
		T_INT(runs[0].length, LEN / 2);
	}
	close(fd);
	ram_drop(&r);
}

TEST(no_page_is_missed_while_memory_is_compacted)
{
	hunt(0);
}

TEST(no_page_is_missed_after_page_out)
{
	hunt(MADV_PAGEOUT);
}

TEST(layers_without_pagemap_are_refused)
{
	struct ram r = ram_new();
	int file = base_file(0, O_RDWR), keep = r.pagemap;

	r.pagemap = -1;
	T_INT(ram_image(&r, file, file, false), -ENOTSUP);
	r.pagemap = keep;
	close(file);
	ram_drop(&r);
}

TEST(an_image_needs_a_regular_writable_file)
{
	struct ram r = ram_new();
	int ro = base_file(1, O_RDONLY), p[2];

	T_INT(pipe2(p, O_CLOEXEC), 0);
	T_INT(ram_image(&r, ro, p[1], true), -EPERM);
	T_INT(ram_image(&r, p[1], p[1], true), -EPERM);
	close(ro);
	close(p[0]);
	close(p[1]);
	ram_drop(&r);
}

TEST(nothing_works_before_ram_is_there)
{
	struct ram r = { .pagemap = -1 };
	struct shim_run run;

	T_INT(ram_map(&r, 0, NULL, 0), -ENXIO);
	T_INT(ram_image(&r, 0, 0, true), -ENXIO);
	T_INT(ram_changed(&r, false, &run, 1), -ENXIO);
}
