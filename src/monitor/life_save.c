/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "monitor/life.h"
#include "net/json.h"

static void fail_code(struct life *f, int r, const char *what)
{
	struct err e = { 0 };

	err_errno(&e, -r, "%s: %s", what, strerror(-r));
	life_fail(f, &e);
}

/* ---- the image writes itself; its pipe tells how it went ---- */

static void on_image(struct loop_io *io, unsigned events)
{
	struct life *f = container_of(io, struct life, image_io);
	struct shim_image_done done;
	uint8_t *p = buf_reserve(&f->image, 4096);
	ssize_t n = -1;
	int r;

	(void)events;
	if (!p) {
		fail_code(f, -EBADMSG, "the image said too much");
		return;
	}
	n = read(f->image_pipe, p, 4096);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		buf_commit(&f->image, (size_t)n);
	r = shim_image_parse(&f->image, n <= 0, vmlink_ram_bytes(f->vm), &done);
	if (r == SHIM_IMAGE_MORE)
		return;
	if (r < 0) {
		fail_code(f, r, "the memory image could not be written");
		return;
	}
	f->mem_bytes = done.bytes;
	f->times.image_us = life_lap(f);
	f->phase = MON_SAVED;
	life_done(f);
}

static void on_forked(void *arg, const struct shim_rep *rep,
		      const struct err *e)
{
	struct life *f = arg;

	(void)rep;
	if (f->stage != STAGE_FORK)
		return;
	if (e) {
		life_fail(f, e);
		return;
	}
	/* the lap goes on: image_us is fork and writing together */
	f->stage = STAGE_IMAGE;
	CHECK(loop_io_add(f->loop, &f->image_io, f->image_pipe, LOOP_IN,
			  on_image) == 0);
}

void life_saved_state(struct life *f)
{
	int p[2], fds[2], r;

	f->times.save_us = life_lap(f);
	life_stage(f, STAGE_FORK);
	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0) {
		fail_code(f, -errno, "no pipe for the image");
		return;
	}
	/* the image's writes may wait for us, our reads never */
	fcntl(p[1], F_SETFL, 0);
	f->image_pipe = p[0];
	fds[0] = f->fds[1];
	fds[1] = p[1];
	r = shim_client_call(vmlink_shim(f->vm), SHIM_IMAGE, 1, fds, 2,
			     life_left_ms(f), on_forked, f);
	fd_close(p[1]);
	if (r < 0)
		fail_code(f, r, "the interposer takes no requests");
}

/* ---- stop and device state ---- */

static void on_stopped(void *arg, json_t *ret, const struct err *e)
{
	struct life *f = arg;

	(void)ret;
	if (f->stage != STAGE_STOP)
		return;
	if (e)
		life_fail(f, e);
	else
		f->times.stop_us = life_lap(f);
}

static void on_step(void *arg, json_t *ret, const struct err *e)
{
	struct life *f = arg;

	(void)ret;
	if (e && f->stage == STAGE_STOP)
		life_fail(f, e);
}

static void stop(struct life *f)
{
	struct qmp *q = vmlink_qmp(f->vm);
	uint64_t ms = life_left_ms(f);
	json_t *args;
	int r;

	/* from here until the end nobody reads what the guest writes */
	guest_cork(f->guest);
	vmlink_cork(f->vm);
	data_open(f->data, false);
	life_stage(f, STAGE_STOP);
	r = qmp_call(q, "stop", NULL, -1, ms, on_stopped, f);
	if (r == 0) {
		args = json_object();
		json_set_take(args, "fdname", json_string("state"));
		r = qmp_call(q, "getfd", args, f->fds[0], ms, on_step, f);
	}
	if (r == 0) {
		args = json_object();
		json_set_take(args, "uri", json_string("fd:state"));
		r = qmp_call(q, "migrate", args, -1, ms, on_step, f);
	}
	if (r < 0)
		fail_code(f, r, "the VMM takes no commands");
}

/* ---- the guest's part ---- */

static void on_frozen(void *arg, int status, const char *body, size_t n,
		      const struct err *e)
{
	struct life *f = arg;
	owned_json v = NULL;
	const char *got;
	struct err bad = { 0 };

	if (f->stage != STAGE_FREEZE)
		return;
	v = life_answer(f, "freeze", status, body, n, e);
	if (!v)
		return;
	got = json_string_value(json_object_get(v, "frozen"));
	if (!got || strcmp(got, f->nonce) != 0) {
		err_set(&bad, -EPROTO, ERR_CONFLICT,
			"the guest's daemon froze for somebody else");
		life_fail(f, &bad);
		return;
	}
	f->times.freeze_us = life_lap(f);
	stop(f);
}

static void on_finished(void *arg, int status, const char *body, size_t n,
			const struct err *e)
{
	struct life *f = arg;
	owned_json v = NULL;
	json_t *args;

	if (f->stage != STAGE_FINISH)
		return;
	v = life_answer(f, "finish", status, body, n, e);
	if (!v)
		return;
	life_stage(f, STAGE_FREEZE);
	life_nonce(f);
	args = json_object();
	json_set_take(args, "nonce", json_string(f->nonce));
	life_call(f, "POST", "/g1/freeze", args, on_frozen);
}

void life_save(struct life *f)
{
	/* from the start of the files, whatever was done with them before */
	lseek(f->fds[0], 0, SEEK_SET);
	lseek(f->fds[1], 0, SEEK_SET);
	life_stage(f, STAGE_FINISH);
	life_call(f, "POST", "/g1/finish", json_object(), on_finished);
}
