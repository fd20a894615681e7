/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The bodies of an exec's calls, checked. Pure: text in, struct out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define EXEC_ID_MAX	   64
#define EXEC_KEEP_DEFAULT  (8u << 20)
#define EXEC_KEEP_MAX	   (64u << 20)
#define EXEC_KEEP_MIN	   4096
#define EXEC_TIMEOUT_MAX_S 604800 /* a week */
#define EXEC_BODY_MAX	   262144u

/* Of a terminal, in characters. */
struct exec_size {
	uint16_t cols, rows; /* at least 1 */
};

/* A signal to send: to the whole tree, or to its leader alone. */
struct exec_kill {
	int signo;
	bool tree;
};

struct exec_spec {
	char id[EXEC_ID_MAX];
	char **argv; /* NULL-terminated; a shell command is sh -c TEXT */
	size_t argc;
	char **env; /* "NAME=value", NULL-terminated */
	size_t n_env;
	char *cwd;  /* NULL = the user's home */
	char *user; /* NULL = the template's default */
	bool stdin_open;
	bool start_now; /* start "now"; else the first attach starts it */
	bool has_pty;	/* a terminal; stdin_open is then set */
	struct exec_size size;
	uint32_t timeout_ms; /* 0 = none */
	uint32_t keep_bytes;
	bool block; /* overflow "block" */
};

struct spec_error {
	char code[24];	/* invalid_field, unknown_field */
	char field[96]; /* "" if it is about the whole body */
};

/* 0, or -EINVAL with *e for people and *se for programs; ret is then empty. */
int spec_read(const void *body, size_t n, struct exec_spec *ret,
	      struct spec_error *se, struct err *e);
void spec_fini(struct exec_spec *s);

/* {cols, rows} and {name, scope}, of a request's body or of a frame. 0, or
 * -EINVAL with *e and the field in se. */
int spec_read_size(const void *body, size_t n, struct exec_size *ret,
		   struct spec_error *se, struct err *e);
int spec_read_kill(const void *body, size_t n, struct exec_kill *ret,
		   struct spec_error *se, struct err *e);

/* Number of a signal name ("TERM" or "SIGTERM"), or -1. */
int signal_number(const char *name);
/* "SIGTERM" into ret (at least 16 bytes); real-time ones as "SIGRTMIN+n". */
void signal_name(int signo, char *ret, size_t n);
