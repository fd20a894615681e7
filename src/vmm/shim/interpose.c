/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmm/shim/interpose.h"

/*
 * The C library's names, replaced. Everything but the two kinds of names in
 * proto/shim.h goes straight to the kernel; there is no dlsym() on these paths
 * (fopen of other files apart), since the loader calls them before we are
 * ready.
 *
 * Our functions carry the library's symbols but names of their own, since its
 * headers rename theirs (64-bit offsets, fortification). off_t has 64 bits, so
 * each *64 is the same function.
 */
#define EXPORT(symbol) __asm__(symbol) __attribute__((visibility("default")))
#define ALSO(symbol, same)                                                     \
	__asm__(".globl " symbol "\n.set " symbol ", " same "\n"               \
		".type " symbol ", @function\n")
int shim_open(const char *path, int flags, ...) EXPORT("open");
int shim_openat(int dir, const char *path, int flags, ...) EXPORT("openat");
int shim_open_2(const char *path, int flags) EXPORT("__open_2");
int shim_openat_2(int dir, const char *path, int flags) EXPORT("__openat_2");
FILE *shim_fopen(const char *path, const char *mode) EXPORT("fopen");
void *shim_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
    EXPORT("mmap");
ALSO("open64", "open");
ALSO("openat64", "openat");
ALSO("__open64_2", "__open_2");
ALSO("__openat64_2", "__openat_2");
ALSO("fopen64", "fopen");
ALSO("mmap64", "mmap");

/* The file that stands for RAM until it is mapped; empty and never written. */
static dev_t ram_dev;
static ino_t ram_ino;
static struct ram *ram;

void interpose_ram(struct ram *r)
{
	ram = r;
}

static int open_ram(void)
{
	struct stat st;
	int fd;

	if (ram_ino) {
		errno = EBUSY;
		return -1;
	}
	fd = memfd_create("ram", MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0) {
		close(fd);
		return -1;
	}
	ram_dev = st.st_dev;
	ram_ino = st.st_ino;
	return fd;
}

/* The descriptor that a name stands for, -1 with errno, or -2: a plain file. */
static int special(const char *path)
{
	const size_t n = sizeof(SHIM_FD_PREFIX) - 1;
	int number = 0, fd;

	if (strcmp(path, SHIM_RAM_PATH) == 0)
		return open_ram();
	if (strncmp(path, SHIM_FD_PREFIX, n) != 0)
		return -2;
	for (path += n; *path; path++) {
		if (*path < '0' || *path > '9' || number > 9999) {
			errno = ENOENT;
			return -1;
		}
		number = number * 10 + (*path - '0');
	}
	fd = fcntl(number, F_DUPFD_CLOEXEC, 3);
	/* a duplicate shares its offset with the one opened before */
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

static int open_any(int dir, const char *path, int flags, mode_t mode)
{
	int fd = path ? special(path) : -2;

	if (fd != -2)
		return fd;
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

#define MODE_ARG(flags)                                                        \
	({                                                                     \
		mode_t m_ = 0;                                                 \
		if ((flags) & (O_CREAT | __O_TMPFILE)) {                       \
			va_list ap_;                                           \
			va_start(ap_, flags);                                  \
			m_ = va_arg(ap_, mode_t);                              \
			va_end(ap_);                                           \
		}                                                              \
		m_;                                                            \
	})

int shim_open(const char *path, int flags, ...)
{
	return open_any(AT_FDCWD, path, flags, MODE_ARG(flags));
}

int shim_open_2(const char *path, int flags)
{
	return open_any(AT_FDCWD, path, flags, 0);
}

int shim_openat(int dir, const char *path, int flags, ...)
{
	return open_any(dir, path, flags, MODE_ARG(flags));
}

int shim_openat_2(int dir, const char *path, int flags)
{
	return open_any(dir, path, flags, 0);
}

FILE *shim_fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *);
	int fd = special(path);
	FILE *f;

	if (fd == -1)
		return NULL;
	if (fd >= 0) {
		f = fdopen(fd, mode);
		if (!f)
			close(fd);
		return f;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "fopen64");
	if (!real) {
		errno = ENOSYS;
		return NULL;
	}
	return real(path, mode);
}

static bool is_ram(int fd)
{
	struct stat st;

	return ram_ino && fd >= 0 && fstat(fd, &st) == 0 &&
	       st.st_dev == ram_dev && st.st_ino == ram_ino;
}

void *shim_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
	bool take = ram && (flags & MAP_SHARED) && is_ram(fd);
	void *p;

	if (take) {
		if (ram->base || off != 0) {
			errno = EBUSY;
			return MAP_FAILED;
		}
		flags &= ~(MAP_SHARED | MAP_SHARED_VALIDATE | MAP_SYNC);
		flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
		fd = -1;
	}
	p = (void *)syscall(SYS_mmap, at, n, prot, flags, fd, off);
	if (take && p != MAP_FAILED) {
		ram->len = n;
		__atomic_store_n(&ram->base, (uint8_t *)p, __ATOMIC_RELEASE);
	}
	return p;
}
