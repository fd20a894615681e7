/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/restore.h"

#include <fcntl.h>
#include <string.h>

#include "base/own.h"
#include "proto/storaged.h"
#include "sandboxd/node.h"
#include "sandboxd/vm.h"

/* A little more for ourselves: the monitor knows better why. */
#define ANSWER_EXTRA_MS 50u

void restore_init(struct restore *r)
{
	memset(r, 0, sizeof(*r));
	for (int i = 0; i < F_MAX_; i++)
		r->fds[i] = -1;
}

static void close_files(struct restore *r)
{
	for (int i = 0; i < F_MAX_; i++) {
		call_cancel(&r->opens[i]);
		r->fds[i] = fd_close(r->fds[i]);
	}
}

void restore_stop(struct restore *r)
{
	call_cancel(&r->ask);
	close_files(r);
}

bool restore_is_unusable(const struct err *e)
{
	return e->code == -ENOENT || e->code == -EBADMSG;
}

static void open_failed(struct restore *r, const struct err *e)
{
	close_files(r);
	r->on_opened(r, e);
}

static void on_open(struct call *c, const struct answer *a, enum restore_file i)
{
	struct restore *r = container_of(c - i, struct restore, opens[0]);
	struct err e = { 0 };

	if (a->e) {
		open_failed(r, a->e);
		return;
	}
	if (a->n_fds != 1) {
		err_set(&e, -EPROTO, ERR_INTERNAL, "no descriptor came");
		open_failed(r, &e);
		return;
	}
	r->fds[i] = take_fd(&a->fds[0]);
	for (int k = 0; k < F_MAX_; k++)
		if (r->fds[k] < 0)
			return;
	r->on_opened(r, NULL);
}

static void on_state(struct call *c, const struct answer *a)
{
	on_open(c, a, F_STATE);
}

static void on_memory(struct call *c, const struct answer *a)
{
	on_open(c, a, F_MEMORY);
}

static void on_root(struct call *c, const struct answer *a)
{
	on_open(c, a, F_ROOT);
}

static void on_layer(struct call *c, const struct answer *a)
{
	on_open(c, a, F_LAYER);
}

static void on_overlay(struct call *c, const struct answer *a)
{
	struct restore *r = container_of(c, struct restore, opens[F_OVERLAY]);

	if (!a->e && a->n_fds == 1) /* what it holds is read from it */
		r->vm->source.disk_fd = fcntl(a->fds[0], F_DUPFD_CLOEXEC, 3);
	on_open(c, a, F_OVERLAY);
}

static void drop_overlay(struct vm *v)
{
	struct st_req req = { .hdr.op = ST_OVERLAY_DROP };

	v->source.disk_fd = fd_close(v->source.disk_fd);
	memcpy(req.name, v->id, sizeof(v->id));
	peer_send(v->node->storaged, &req, sizeof(req), NULL, 0);
}

/* The store answers in order, and each is one round trip. */
void restore_open(struct restore *r, struct vm *v, const struct checkpoint *ck,
		  uint64_t timeout_ms,
		  void (*on_opened)(struct restore *, const struct err *))
{
	static void (*const done[F_MAX_])(struct call *,
					  const struct answer *) = {
		on_state, on_memory, on_root, on_layer, on_overlay,
	};
	const char *const digests[F_MAX_] = { ck->state, ck->memory, ck->root,
					      ck->layer, NULL };

	r->vm = v;
	r->on_opened = on_opened;
	if (v->has_overlay)
		drop_overlay(v); /* of a first try */
	for (int i = 0; i < F_MAX_; i++) {
		struct st_req req = { .hdr.op = ST_OPEN };

		if (i != F_OVERLAY) {
			memcpy(req.digest, digests[i], ST_DIGEST_MAX);
		} else {
			req.hdr.op = ST_OVERLAY_NEW;
			memcpy(req.name, v->id, sizeof(v->id));
			req.size = ck->disk_bytes;
			v->has_overlay = true;
		}
		peer_call(v->node->storaged, &r->opens[i], &req, sizeof(req),
			  NULL, 0, timeout_ms, done[i]);
	}
}

static void on_answer(struct call *c, const struct answer *a)
{
	struct restore *r = container_of(c, struct restore, ask);

	close_files(r);
	r->on_loaded(r, a);
}

int restore_load(struct restore *r, uint32_t flags, uint64_t timeout_ms,
		 void (*on_loaded)(struct restore *, const struct answer *))
{
	struct mon_req req = { .hdr.op = MON_LOAD,
			       .n_disks = 3,
			       .flags = flags,
			       .deadline_ms = (uint32_t)timeout_ms };

	req.disks[1].qcow2 = 1;
	req.disks[2].qcow2 = 1;
	req.disks[2].writable = 1;
	r->on_loaded = on_loaded;
	return vm_call(r->vm, &r->ask, &req, r->fds, F_MAX_,
		       timeout_ms + ANSWER_EXTRA_MS, on_answer);
}
