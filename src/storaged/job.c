/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long work: a queue of jobs, a few of them in worker processes at a time. The
 * same artifact is hashed once for all who ask meanwhile.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "storaged/internal.h"

/* Far above what 16 TiB/s-less disks need for the largest artifact, and short
 * of for ever. */
#define TIMEOUT_MS (UINT64_C(3600) * 1000)

struct job *job_new(struct storaged *s, enum job_kind kind, struct err *e)
{
	struct job *j;

	if (s->n_jobs >= JOBS_MAX) {
		err_set(e, -EBUSY, ERR_EXHAUSTED,
			"%d jobs wait already; try again later", JOBS_MAX);
		return NULL;
	}
	j = xnew(struct job);
	j->s = s;
	j->kind = kind;
	j->worker.sock = -1;
	list_add_tail(&s->jobs, &j->link);
	s->n_jobs++;
	return j;
}

static void job_free(struct job *j)
{
	worker_stop(&j->worker);
	list_del(&j->link);
	j->s->n_jobs--;
	j->s->n_running -= j->is_running;
	free(j->text);
	free(j);
}

int job_ask(struct job *j, struct client *c, const struct channel_hdr *hdr,
	    uint64_t draft, struct err *e)
{
	if (j->n_askers == ASKERS_MAX)
		return err_set(e, -EBUSY, ERR_EXHAUSTED,
			       "too many wait for the same artifact");
	j->askers[j->n_askers++] = (struct asker){ c, *hdr, draft };
	return 0;
}

struct job *job_find(struct storaged *s, enum job_kind kind, const char *digest)
{
	struct job *j;

	list_for_each (j, &s->jobs, link) {
		if (j->kind == kind && strcmp(j->digest, digest) == 0)
			return j;
	}
	return NULL;
}

bool job_has_source(struct storaged *s, int dir, const char *name)
{
	struct job *j;

	list_for_each (j, &s->jobs, link) {
		if (j->kind == JOB_PUBLISH && j->dir == dir &&
		    strcmp(j->name, name) == 0)
			return true;
	}
	return false;
}

/* In the worker. */
static int work(void *arg, struct worker_report *rep, int *ret_fds,
		size_t *ret_n_fds, struct err *e)
{
	struct job *j = arg;
	const struct store *store = &j->s->store;

	(void)ret_fds;
	*ret_n_fds = 0;
	switch (j->kind) {
	case JOB_VERIFY:
		return store_blob_verify(store, j->digest, e);
	case JOB_PUBLISH:
		return store_publish(store, j->dir, j->name, j->digest,
				     rep->data, &rep->a, e);
	case JOB_REF_SET:
		return store_ref_set(store, j->name, j->text, j->text_n, e);
	case JOB_SWEEP:
		store_sweep(store);
		return 0;
	}
	return -EINVAL;
}

/* A verified artifact is opened again: the verdict belongs to what is there
 * now. */
static void answer_open(struct job *j, const struct asker *a)
{
	struct st_rep rep = { 0 };
	struct err e = { 0 };
	owned_fd fd = -1;
	int r = store_blob_open(&j->s->store, j->digest, &fd, &rep.size, &e);

	if (r == STORE_UNVERIFIED)
		err_set(&e, -EBADMSG, ERR_INTERNAL,
			"artifact %.12s... changes while it is read",
			j->digest);
	client_answer(a->client, &a->hdr, e.code < 0 ? &e : NULL, &rep, fd);
}

static void answer(struct job *j, const struct asker *a,
		   const struct worker_report *w, const struct err *e)
{
	struct st_rep rep = { .size = w->a };
	struct draft *d;

	if (!a->client)
		return;
	if (j->kind == JOB_VERIFY && !e) {
		answer_open(j, a);
		return;
	}
	d = client_draft(a->client, a->draft);
	if (d) {
		d->is_busy = false;
		if (!e)
			client_draft_drop(a->client, d);
	}
	memcpy(rep.digest, w->data, sizeof(rep.digest));
	rep.digest[sizeof(rep.digest) - 1] = 0;
	client_answer(a->client, &a->hdr, e, &rep, -1);
}

static void on_done(struct worker *w, const struct worker_report *rep, int *fds,
		    size_t n_fds)
{
	struct job *j = container_of(w, struct job, worker);
	struct storaged *s = j->s;
	struct err e = { 0 };

	(void)fds;
	(void)n_fds;
	if (rep->r < 0) {
		err_set(&e, rep->r, (enum err_kind)rep->kind, "%s", rep->msg);
		log_warn("job_failed", "kind=%d error=%s", j->kind, e.msg);
	} else if (j->kind == JOB_PUBLISH) {
		log_info("published", "digest=%s size=%llu", rep->data,
			 (unsigned long long)rep->a);
		jobs_sweep_later(s);
	}
	/* a draft whose client went while it was read */
	if (j->kind == JOB_PUBLISH && rep->r < 0 && j->n_askers == 1 &&
	    !j->askers[0].client && j->dir == s->store.drafts) {
		store_throw(&s->store, j->dir, j->name);
		jobs_sweep_later(s);
	}
	for (unsigned i = 0; i < j->n_askers; i++)
		answer(j, &j->askers[i], rep, rep->r < 0 ? &e : NULL);
	job_free(j);
	jobs_run(s);
}

static void start(struct job *j)
{
	struct storaged *s = j->s;
	struct worker_report rep = { 0 };
	struct err e = { 0 };

	j->is_running = true;
	s->n_running++;
	if (j->kind == JOB_SWEEP)
		s->has_trash = false;
	if (worker_start(s->loop, &j->worker, work, j, TIMEOUT_MS, on_done,
			 &e) == 0)
		return;
	log_error("job_start", "error=%s", e.msg);
	for (unsigned i = 0; i < j->n_askers; i++)
		answer(j, &j->askers[i], &rep, &e);
	job_free(j);
}

void jobs_run(struct storaged *s)
{
	struct job *j, *tmp;

	if (s->has_trash && !job_find(s, JOB_SWEEP, ""))
		job_new(s, JOB_SWEEP, NULL);
	list_for_each_safe (j, tmp, &s->jobs, link) {
		if (s->n_running >= RUNNING_MAX)
			return;
		if (!j->is_running)
			start(j);
	}
}

void jobs_sweep_later(struct storaged *s)
{
	s->has_trash = true;
}

void jobs_forget(struct storaged *s, const struct client *c)
{
	struct job *j;

	list_for_each (j, &s->jobs, link) {
		for (unsigned i = 0; i < j->n_askers; i++)
			if (j->askers[i].client == c)
				j->askers[i].client = NULL;
	}
}

void jobs_free(struct storaged *s)
{
	while (!list_empty(&s->jobs))
		job_free(list_entry(list_first(&s->jobs), struct job, link));
}
