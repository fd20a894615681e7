/* SPDX-License-Identifier: Apache-2.0 */
#include "storaged/storaged.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "storaged/internal.h"

/* Each handler answers, or leaves a job behind that will; r < 0 with *e is
 * answered by the caller. */
typedef int handler(struct client *c, const struct st_req *q, struct err *e);

static int done(struct client *c, const struct st_req *q,
		const struct st_rep *rep, int fd)
{
	client_answer(c, &q->hdr, NULL, rep, fd);
	return 0;
}

static int do_hello(struct client *c, const struct st_req *q, struct err *e)
{
	const struct st_rep rep = { .a = STORAGED_VERSION };

	(void)e;
	return done(c, q, &rep, -1);
}

static int do_open(struct client *c, const struct st_req *q, struct err *e)
{
	struct storaged *s = c->s;
	struct st_rep rep = { 0 };
	owned_fd fd = -1;
	struct job *j;
	int r = store_blob_open(&s->store, q->digest, &fd, &rep.size, e);

	if (r < 0)
		return r;
	if (r == STORE_VERIFIED)
		return done(c, q, &rep, fd);
	j = job_find(s, JOB_VERIFY, q->digest);
	if (!j) {
		j = job_new(s, JOB_VERIFY, e);
		if (!j)
			return e->code;
		memcpy(j->digest, q->digest, sizeof(j->digest));
	}
	return job_ask(j, c, &q->hdr, 0, e);
}

static int do_stat(struct client *c, const struct st_req *q, struct err *e)
{
	struct st_rep rep = { 0 };
	owned_fd fd = -1;
	int r = store_blob_open(&c->s->store, q->digest, &fd, &rep.size, e);

	return r < 0 ? r : done(c, q, &rep, -1);
}

static int do_draft_new(struct client *c, const struct st_req *q, struct err *e)
{
	struct st_rep rep = { 0 };
	owned_fd fd = -1;
	struct draft *d;
	int r;

	if (c->n_drafts == DRAFTS_MAX)
		return err_set(e, -EBUSY, ERR_EXHAUSTED,
			       "%d drafts are open; commit or drop some",
			       DRAFTS_MAX);
	random_bytes(&rep.id, sizeof(rep.id));
	rep.id |= 1; /* 0 means none */
	r = store_draft_new(&c->s->store, rep.id, &fd, e);
	if (r < 0)
		return r;
	d = xnew(struct draft);
	d->id = rep.id;
	list_add_tail(&c->drafts, &d->link);
	c->n_drafts++;
	return done(c, q, &rep, fd);
}

/* The caller's draft that no job reads, or NULL with *e. */
static struct draft *idle_draft(struct client *c, uint64_t id, struct err *e)
{
	struct draft *d = client_draft(c, id);

	if (!d)
		err_set(e, -ENOENT, ERR_NOT_FOUND,
			"no such draft on this connection");
	else if (d->is_busy)
		err_set(e, -EBUSY, ERR_CONFLICT, "the draft is being read");
	else
		return d;
	return NULL;
}

static int publish(struct client *c, const struct st_req *q, int dir,
		   const char *name, uint64_t draft, struct err *e)
{
	struct job *j;

	if (job_has_source(c->s, dir, name))
		return err_set(e, -EBUSY, ERR_CONFLICT, "%s is being read",
			       name);
	j = job_new(c->s, JOB_PUBLISH, e);
	if (!j)
		return e->code;
	j->dir = dir;
	snprintf(j->name, sizeof(j->name), "%s", name);
	if (draft)
		memcpy(j->digest, q->digest, sizeof(j->digest));
	return job_ask(j, c, &q->hdr, draft, e);
}

static int do_draft_commit(struct client *c, const struct st_req *q,
			   struct err *e)
{
	struct draft *d = idle_draft(c, q->id, e);
	char name[17];
	int r;

	if (!d)
		return e->code;
	store_draft_name(d->id, name);
	r = publish(c, q, c->s->store.drafts, name, d->id, e);
	d->is_busy = r == 0;
	return r;
}

static int do_draft_drop(struct client *c, const struct st_req *q,
			 struct err *e)
{
	struct draft *d = idle_draft(c, q->id, e);

	if (!d)
		return e->code;
	client_draft_drop(c, d);
	return done(c, q, NULL, -1);
}

static int do_overlay_new(struct client *c, const struct st_req *q,
			  struct err *e)
{
	owned_fd fd = -1;
	int r = store_overlay_new(&c->s->store, q->name, q->size, &fd, e);

	return r < 0 ? r : done(c, q, NULL, fd);
}

static int do_overlay_commit(struct client *c, const struct st_req *q,
			     struct err *e)
{
	struct storaged *s = c->s;

	if (faccessat(s->store.overlays, q->name, F_OK, 0) < 0)
		return err_set(e, -ENOENT, ERR_NOT_FOUND, "no overlay %s",
			       q->name);
	return publish(c, q, s->store.overlays, q->name, 0, e);
}

static int do_overlay_drop(struct client *c, const struct st_req *q,
			   struct err *e)
{
	struct storaged *s = c->s;
	int r;

	if (job_has_source(s, s->store.overlays, q->name))
		return err_set(e, -EBUSY, ERR_CONFLICT, "%s is being read",
			       q->name);
	r = store_throw(&s->store, s->store.overlays, q->name);
	if (r < 0)
		return err_errno(e, -r, "drop %s", q->name);
	jobs_sweep_later(s);
	return done(c, q, NULL, -1);
}

/* An answer with room for max bytes of text. */
static struct st_rep *rep_new(const struct st_req *q, size_t max)
{
	struct st_rep *rep = xcalloc(1, sizeof(*rep) + max);

	rep->hdr = q->hdr;
	return rep;
}

static int do_overlay_list(struct client *c, const struct st_req *q,
			   struct err *e)
{
	const size_t max = CHANNEL_MSG_MAX - sizeof(struct st_rep);
	OWNED(own_free_p) struct st_rep *rep = rep_new(q, max);
	uint32_t n = 0;
	int r =
	    store_overlay_list(&c->s->store, rep->text, max, &n, &rep->a, e);

	if (r == 0)
		client_answer_text(c, rep, n);
	return r;
}

static int do_ref_set(struct client *c, const struct st_req *q, struct err *e)
{
	struct job *j = job_new(c->s, JOB_REF_SET, e);

	if (!j)
		return e->code;
	memcpy(j->name, q->name, sizeof(j->name));
	j->text = xcalloc(1, q->text_n + 1);
	memcpy(j->text, q->text, q->text_n);
	j->text_n = q->text_n;
	return job_ask(j, c, &q->hdr, 0, e);
}

static int do_ref_get(struct client *c, const struct st_req *q, struct err *e)
{
	OWNED(own_free_p) struct st_rep *rep = rep_new(q, ST_REF_MAX);
	uint32_t n = 0;
	int r = store_ref_get(&c->s->store, q->name, rep->text, &n, e);

	if (r == 0)
		client_answer_text(c, rep, n);
	return r;
}

static int do_ref_drop(struct client *c, const struct st_req *q, struct err *e)
{
	int r = store_ref_drop(&c->s->store, q->name, e);

	return r < 0 ? r : done(c, q, NULL, -1);
}

static int do_space(struct client *c, const struct st_req *q, struct err *e)
{
	struct st_rep rep = { 0 };
	int r = store_space(&c->s->store, &rep.size, &rep.a, e);

	return r < 0 ? r : done(c, q, &rep, -1);
}

static handler *const handlers[ST_OP_MAX_] = {
	[ST_HELLO] = do_hello,
	[ST_OPEN] = do_open,
	[ST_STAT] = do_stat,
	[ST_DRAFT_NEW] = do_draft_new,
	[ST_DRAFT_COMMIT] = do_draft_commit,
	[ST_DRAFT_DROP] = do_draft_drop,
	[ST_OVERLAY_NEW] = do_overlay_new,
	[ST_OVERLAY_COMMIT] = do_overlay_commit,
	[ST_OVERLAY_DROP] = do_overlay_drop,
	[ST_OVERLAY_LIST] = do_overlay_list,
	[ST_REF_SET] = do_ref_set,
	[ST_REF_GET] = do_ref_get,
	[ST_REF_DROP] = do_ref_drop,
	[ST_SPACE] = do_space,
};

void storaged_handle(struct client *c, const struct st_req *q)
{
	struct storaged *s = c->s;
	struct err e = { 0 };

	if (handlers[q->hdr.op](c, q, &e) < 0)
		client_answer(c, &q->hdr, &e, NULL, -1);
	jobs_run(s);
}

int storaged_new(struct loop *l, const struct storaged_conf *conf,
		 struct storaged **ret, struct err *e)
{
	struct storaged *s = xnew(struct storaged);
	int r;

	s->loop = l;
	s->conf = *conf;
	s->listen = -1;
	list_init(&s->clients);
	list_init(&s->jobs);
	r = store_open(&s->store, conf->data, conf->floor_bytes, e);
	if (r < 0) {
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct storaged *storaged_free(struct storaged *s)
{
	if (!s)
		return NULL;
	loop_io_del(&s->listen_io);
	s->listen = fd_close(s->listen);
	clients_free(s);
	jobs_free(s);
	store_close(&s->store);
	free(s);
	return NULL;
}

int storaged_listen(struct storaged *s, struct err *e)
{
	owned_str path = xasprintf("%s/storaged.sock", s->conf.run);
	int r;

	s->listen = unix_listen(path, SOCK_SEQPACKET, 0600, e);
	if (s->listen < 0)
		return s->listen;
	if (s->conf.node_gid != getegid() &&
	    chown(path, (uid_t)-1, s->conf.node_gid) < 0)
		return err_errno(e, errno,
				 "give %s to the node's group: %m; storaged's "
				 "user must be a member of it",
				 path);
	if (chmod(path, 0660) < 0)
		return err_errno(e, errno, "chmod %s", path);
	r = loop_io_add(s->loop, &s->listen_io, s->listen, LOOP_IN,
			clients_accept);
	return r < 0 ? err_errno(e, -r, "watch %s", path) : 0;
}
