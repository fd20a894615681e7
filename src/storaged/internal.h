/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What storaged.c, client.c and job.c share. */

#include <stdbool.h>

#include "base/channel.h"
#include "base/list.h"
#include "base/own.h"
#include "base/worker.h"
#include "storaged/storaged.h"
#include "storaged/store.h"

#define CLIENTS_MAX 16
#define DRAFTS_MAX  64 /* per client */
#define JOBS_MAX    64
#define RUNNING_MAX 4
#define ASKERS_MAX  64 /* of one job */

struct client {
	struct storaged *s;
	struct channel *channel;
	struct list link, drafts;
	unsigned n_drafts;
};

struct draft {
	struct list link;
	uint64_t id;
	bool is_busy; /* a job reads it */
};

enum job_kind { JOB_VERIFY, JOB_PUBLISH, JOB_REF_SET, JOB_SWEEP };

struct asker {
	struct client *client; /* NULL: gone */
	struct channel_hdr hdr;
	uint64_t draft; /* JOB_PUBLISH of a draft */
};

struct job {
	struct list link;
	struct storaged *s;
	struct worker worker;
	enum job_kind kind;
	bool is_running;
	int dir;		    /* PUBLISH: of the source */
	char name[ST_NAME_MAX];	    /* PUBLISH: source; REF_SET */
	char digest[ST_DIGEST_MAX]; /* VERIFY; PUBLISH: expected */
	char *text;
	size_t text_n;
	unsigned n_askers;
	struct asker askers[ASKERS_MAX];
};

struct storaged {
	struct loop *loop;
	struct storaged_conf conf;
	struct store store;
	int listen;
	struct loop_io listen_io;
	struct list clients, jobs;
	unsigned n_clients, n_jobs, n_running;
	bool has_trash; /* thrown away since the last sweep began */
};

/* client.c */
void client_free(struct client *c);
void client_answer(struct client *c, const struct channel_hdr *hdr,
		   const struct err *e, const struct st_rep *rep, int fd);
void client_answer_text(struct client *c, struct st_rep *rep, size_t text_n);
struct draft *client_draft(struct client *c, uint64_t id);
void client_draft_drop(struct client *c, struct draft *d);
void clients_accept(struct loop_io *io, unsigned events);
void clients_free(struct storaged *s);

/* job.c */
struct job *job_new(struct storaged *s, enum job_kind kind, struct err *e);
/* -EBUSY if too many wait for it. */
int job_ask(struct job *j, struct client *c, const struct channel_hdr *hdr,
	    uint64_t draft, struct err *e);
struct job *job_find(struct storaged *s, enum job_kind kind,
		     const char *digest);
bool job_has_source(struct storaged *s, int dir, const char *name);
void jobs_run(struct storaged *s);
void jobs_forget(struct storaged *s, const struct client *c);
void jobs_free(struct storaged *s);
/* Something was thrown away. */
void jobs_sweep_later(struct storaged *s);

/* storaged.c */
void storaged_handle(struct client *c, const struct st_req *q);
