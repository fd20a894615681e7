/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ownership in the type: a local that owns something says so, and a hand-over
 * is visible (TAKE). Small fixed allocations abort when memory is gone (xnew,
 * xcalloc, xstrdup); sizes that a peer controls go through buf_reserve().
 */

#include <stddef.h>
#include <stdlib.h>

#define OWNED(fn) __attribute__((cleanup(fn)))

/* Define `name_p(T **p)` for OWNED from a destructor `T *name(T *)`. */
#define DEFINE_CLEANUP(type, fn)                                               \
	static inline __attribute__((unused)) void fn##_p(type **p)            \
	{                                                                      \
		if (*p)                                                        \
			fn(*p);                                                \
		*p = NULL;                                                     \
	}                                                                      \
	struct own_semicolon_

#define TAKE(p)                                                                \
	({                                                                     \
		__typeof__(p) *own_p_ = &(p);                                  \
		__typeof__(p) own_v_ = *own_p_;                                \
		*own_p_ = NULL;                                                \
		own_v_;                                                        \
	})

void own_free_p(void *p);  /* for OWNED(own_free_p) char *s */
void own_close_p(int *fd); /* closes if >= 0; keeps errno */
int take_fd(int *fd);	   /* returns *fd and sets it to -1 */
int fd_close(int fd);	   /* close unless negative, keep errno; returns -1 */

#define owned_fd  OWNED(own_close_p) int
#define owned_str OWNED(own_free_p) char *

/* Zeroed memory, never NULL (aborts). */
void *xcalloc(size_t n, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
#define xnew(type)	((type *)xcalloc(1, sizeof(type)))
#define xnew_n(type, n) ((type *)xcalloc((n), sizeof(type)))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(p, type, member)                                          \
	((type *)(void *)((char *)(p)-offsetof(type, member)))
