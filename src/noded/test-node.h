/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A real caisson-noded for a test, with a RUN and a cgroup of its own, and the
 * means to ask it. Needs root; skips otherwise. */

#include <sys/types.h>

#include "base/test.h"
#include "proto/noded.h"

#define TEST_UID_BASE 400000

struct node_answer {
	struct noded_rep rep;
	int fd; /* closed by the next question */
};

extern struct node_answer got;
extern union node_list {
	struct noded_list list;
	char mem[65536];
} listed;
extern char node_run[256]; /* RUN */
extern int node_sock;

void node_start(void);
void node_start_nft(const char *nft);
void node_start_chroot(void);  /* noded sees a small root that is no mount */
void node_crash(void);	       /* SIGKILL */
void node_restart(void);       /* after node_crash() */
int node_exit_of_second(void); /* start another on the same RUN */
/* Crash, clean up, and check that nothing is left. */
void node_end(void);

int ask(uint32_t op, uint32_t slot);
int ask_kill(uint32_t slot, uint32_t who);
int ask_list(void); /* how many slots */
/* words: one string, split at blanks; extra -1 = none. */
int ask_vmm(uint32_t slot, const char *words, int extra, uint32_t flags);
int ask_vmm_fd(uint32_t slot, int argv_fd, int extra, uint32_t flags);
int argv_fd(const char *words, int seals);

/* Start a test-jailed in a slot made for it: what it said first. */
const char *jailed_says(uint32_t slot, const char *what, int *ret_fd);
int mounts_below_run(void);
int cgroups_left(void); /* -1: ours is gone */
