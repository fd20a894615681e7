/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "sandboxd/spec.h"
#include "sandboxd/test-fakes-int.h"

/* ---- storaged ---- */

static int some_file(void)
{
	int fd = memfd_create("fake", MFD_CLOEXEC);

	T_TRUE(fd >= 0);
	T_INT(ftruncate(fd, 1 << 20), 0);
	return fd;
}

static void some_digest(const char *what, uint64_t n, char *ret)
{
	char text[160], hex[72];

	snprintf(text, sizeof(text), "%s %llu", what, (unsigned long long)n);
	spec_hash(text, hex);
	memcpy(ret, hex, ST_DIGEST_MAX);
}

static size_t list_overlays(struct fakes *f, char *to, size_t max)
{
	const char *key;
	void *value;
	size_t n = 0;

	for (size_t pos = 0; map_next(f->overlays, &pos, &key, &value);) {
		size_t len = strlen(key) + 1;

		T_TRUE(n + len <= max);
		memcpy(to + n, key, len);
		n += len;
	}
	return n;
}

static void ref_get(struct fakes *f, const struct st_req *req,
		    struct st_rep *rep)
{
	const char *text = map_get(f->refs, req->name);

	if (!text) {
		rep->r = -ENOENT;
		rep->kind = ERR_NOT_FOUND;
		return;
	}
	rep->text_n = (uint32_t)strlen(text);
	memcpy(rep->text, text, rep->text_n);
}

static void store_work(struct fakes *f, const struct st_req *req,
		       struct st_rep *rep, int *ret_fd)
{
	switch (req->hdr.op) {
	case ST_OPEN:
		if (map_get(f->missing, req->digest)) {
			rep->r = -ENOENT;
			rep->kind = ERR_NOT_FOUND;
		} else {
			*ret_fd = some_file();
		}
		break;
	case ST_DRAFT_NEW:
		rep->id = ++f->next_draft;
		f->drafts++;
		*ret_fd = some_file();
		break;
	case ST_DRAFT_COMMIT:
		some_digest("draft", req->id, rep->digest);
		f->drafts--;
		break;
	case ST_DRAFT_DROP:
		f->drafts--;
		break;
	case ST_OVERLAY_NEW:
		if (map_set(f->overlays, req->name, f))
			rep->r = -EEXIST;
		*ret_fd = some_file();
		break;
	case ST_OVERLAY_COMMIT:
		if (!map_del(f->overlays, req->name))
			rep->r = -ENOENT;
		some_digest(req->name, 0, rep->digest);
		break;
	case ST_OVERLAY_DROP:
		map_del(f->overlays, req->name);
		break;
	case ST_OVERLAY_LIST:
		rep->text_n = (uint32_t)list_overlays(f, rep->text, ST_REF_MAX);
		break;
	case ST_REF_SET:
		free(map_set(f->refs, req->name,
			     xstrndup(req->text, req->text_n)));
		break;
	case ST_REF_GET:
		ref_get(f, req, rep);
		break;
	case ST_REF_DROP:
		free(map_del(f->refs, req->name));
		break;
	default:
		break;
	}
}

static void on_store_msg(struct channel *c, void *msg, size_t n, int *fds,
			 size_t n_fds)
{
	struct fakes *f = channel_owner(c);
	const struct st_req *req = msg;
	enum fake_mode mode = fake_use(f, FAKE_STORE, req->hdr.op);
	struct st_rep *rep;
	int fd = -1;

	(void)n;
	(void)fds;
	(void)n_fds;
	if (mode == FAKE_SILENT)
		return;
	if (mode == FAKE_CLOSE) {
		f->store = channel_free(f->store);
		return;
	}
	rep = xcalloc(1, sizeof(*rep) + ST_REF_MAX);
	rep->hdr = req->hdr;
	if (mode == FAKE_ERROR) {
		rep->r = fake_error(f, FAKE_STORE, req->hdr.op);
		snprintf(rep->msg, sizeof(rep->msg), "storaged says no");
	} else {
		store_work(f, req, rep, &fd);
	}
	channel_send(c, rep, sizeof(*rep) + rep->text_n, fd >= 0 ? &fd : NULL,
		     fd >= 0);
	free(rep);
	fd_close(fd);
}

static void on_store_close(struct channel *c, const struct err *e)
{
	struct fakes *f = channel_owner(c);

	(void)e;
	f->store = NULL;
	channel_free(c);
}

static const struct channel_ops store_ops = { on_store_msg, on_store_close };

void fake_on_store_accept(struct loop_io *io, unsigned events)
{
	static const struct channel_op table[ST_OP_MAX_] = {
		[ST_HELLO... ST_SPACE] = { sizeof(struct st_req),
					   sizeof(struct st_req) + ST_REF_MAX,
					   0, 0 },
	};
	struct fakes *f = container_of(io, struct fakes, store_io);
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0)
		return;
	if (f->store)
		channel_free(f->store);
	f->store =
	    channel_new_take(f->loop, fd, table, ST_OP_MAX_, &store_ops, f);
}

/* ---- monitors ---- */

static void monitor_work(struct fake_slot *s, const struct mon_req *req,
			 int *fds, size_t n_fds, struct mon_rep *rep)
{
	struct fakes *f = s->f;

	switch (req->hdr.op) {
	case MON_BOOT:
		s->phase = MON_CONNECTED;
		break;
	case MON_LOAD:
		f->last_load = *req;
		f->last_load_fds = (unsigned)n_fds;
		rep->times.load_us = 1500;
		s->phase = MON_CONNECTED;
		break;
	case MON_RENEW:
		f->last_renew = *req;
		s->phase = MON_CONFIRMED;
		break;
	case MON_OPEN:
		s->phase = MON_OPENED;
		break;
	case MON_SAVE:
		T_INT(n_fds, 2);
		rep->mem_bytes = 4096;
		s->phase = MON_SAVED;
		break;
	case MON_DATA:
		T_INT(n_fds, 1);
		f->data_fds++;
		T_INT(write(fds[0], "D", 1), 1);
		break;
	default:
		break;
	}
	rep->phase = s->phase;
}

static void on_monitor_msg(struct channel *c, void *msg, size_t n, int *fds,
			   size_t n_fds)
{
	struct fake_slot *s = channel_owner(c);
	const struct mon_req *req = msg;
	struct mon_rep rep = { .hdr = req->hdr };
	enum fake_mode mode = fake_use(s->f, FAKE_MONITOR, req->hdr.op);

	(void)n;
	if (mode == FAKE_SILENT)
		return;
	if (mode == FAKE_CLOSE) {
		s->chan = channel_free(s->chan);
		return;
	}
	if (mode == FAKE_ERROR) {
		rep.r = fake_error(s->f, FAKE_MONITOR, req->hdr.op);
		snprintf(rep.msg, sizeof(rep.msg), "monitor says no");
	} else {
		monitor_work(s, req, fds, n_fds, &rep);
	}
	if (req->hdr.op != MON_DATA)
		channel_send(c, &rep, sizeof(rep), NULL, 0);
}

static void on_monitor_close(struct channel *c, const struct err *e)
{
	struct fake_slot *s = channel_owner(c);

	(void)e;
	s->chan = NULL;
	channel_free(c);
}

static const struct channel_ops monitor_ops = { on_monitor_msg,
						on_monitor_close };

void fake_on_monitor_accept(struct loop_io *io, unsigned events)
{
	static const struct channel_op table[MON_OP_MAX_] = {
		[MON_STATUS... MON_QUIT] = { sizeof(struct mon_req),
					     sizeof(struct mon_req), 0, 16 },
	};
	struct fake_slot *s = container_of(io, struct fake_slot, mon);
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0)
		return;
	if (s->chan)
		channel_free(s->chan);
	s->chan = channel_new_take(s->f->loop, fd, table, MON_OP_MAX_,
				   &monitor_ops, s);
}

void fake_monitor_gone(struct fakes *f, uint32_t slot, uint32_t reason,
		       const char *msg)
{
	struct mon_rep rep = { .hdr.op = MON_EV_GONE,
			       .phase = MON_GONE,
			       .reason = reason };

	snprintf(rep.msg, sizeof(rep.msg), "%s", msg);
	f->slots[slot].phase = MON_GONE;
	T_TRUE(f->slots[slot].chan != NULL);
	T_INT(channel_send(f->slots[slot].chan, &rep, sizeof(rep), NULL, 0), 0);
}
