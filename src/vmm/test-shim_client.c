/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/shim_client.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/test.h"

struct fake {
	struct loop *loop;
	struct shim_client *c;
	int peer;
	unsigned n_done, n_close;
	int r;
	uint64_t a;
};

static void on_close(void *owner, const struct err *e)
{
	struct fake *f = owner;

	(void)e;
	f->n_close++;
}

static void on_done(void *arg, const struct shim_rep *rep, const struct err *e)
{
	struct fake *f = arg;

	f->n_done++;
	f->r = e ? e->code : 0;
	f->a = rep ? rep->a : 0;
}

static void start(struct fake *f)
{
	int p[2];

	memset(f, 0, sizeof(*f));
	T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p), 0);
	f->loop = loop_new();
	f->peer = p[1];
	f->c = shim_client_new_take(f->loop, p[0], on_close, f);
}

static void stop(struct fake *f)
{
	shim_client_free(f->c);
	close(f->peer);
	loop_free(f->loop);
}

static void spin(struct fake *f)
{
	for (int i = 0; i < 10; i++)
		loop_once(f->loop, 5);
}

static void answer(struct fake *f, uint32_t magic, uint32_t op, int r)
{
	struct shim_rep rep = { .magic = magic, .op = op, .r = r, .a = 7 };
	struct shim_req q;

	T_INT(recv(f->peer, &q, sizeof(q), 0), sizeof(q));
	T_INT(q.magic, SHIM_MAGIC);
	T_INT(write(f->peer, &rep, 5), 5); /* in two pieces */
	spin(f);
	T_INT(f->n_done, 0);
	T_INT(write(f->peer, (char *)&rep + 5, sizeof(rep) - 5),
	      sizeof(rep) - 5);
	spin(f);
}

TEST(a_call_is_answered_once)
{
	struct fake f;

	start(&f);
	T_INT(shim_client_call(f.c, SHIM_HELLO, 0, NULL, 0, 1000, on_done, &f),
	      0);
	T_INT(shim_client_call(f.c, SHIM_HELLO, 0, NULL, 0, 1000, on_done, &f),
	      -EBUSY);
	answer(&f, SHIM_MAGIC, SHIM_HELLO, 0);
	T_INT(f.n_done, 1);
	T_INT(f.a, 7);
	T_INT(f.n_close, 0);
	stop(&f);
}

TEST(an_error_is_the_calls_not_the_connections)
{
	struct fake f;

	start(&f);
	T_INT(shim_client_call(f.c, SHIM_HELLO, 0, NULL, 0, 1000, on_done, &f),
	      0);
	answer(&f, SHIM_MAGIC, SHIM_HELLO, -EPERM);
	T_INT(f.r, -EPERM);
	T_INT(f.n_close, 0);
	stop(&f);
}

TEST(another_ops_answer_ends_the_connection)
{
	struct fake f;

	start(&f);
	T_INT(shim_client_call(f.c, SHIM_HELLO, 0, NULL, 0, 1000, on_done, &f),
	      0);
	answer(&f, SHIM_MAGIC, SHIM_MAP, 0);
	T_INT(f.r, -EBADMSG);
	T_INT(f.n_close, 1);
	T_INT(shim_client_call(f.c, SHIM_HELLO, 0, NULL, 0, 1000, on_done, &f),
	      -EPIPE);
	stop(&f);
}

TEST(silence_is_a_timeout)
{
	struct fake f;

	start(&f);
	T_INT(shim_client_call(f.c, SHIM_HELLO, 0, NULL, 0, 20, on_done, &f),
	      0);
	for (int i = 0; i < 2000 && !f.n_done; i++)
		loop_once(f.loop, 10);
	T_INT(f.r, -ETIMEDOUT);
	stop(&f);
}

static int parse(const struct shim_image_done *d, size_t n, size_t runs,
		 bool eof)
{
	struct shim_run none = { 0, 4096 };
	struct shim_image_done out;
	struct buf b;
	int r;

	buf_init(&b, 1 << 20);
	buf_put(&b, d, n);
	for (size_t i = 0; i < runs; i++)
		buf_put(&b, &none, sizeof(none));
	r = shim_image_parse(&b, eof, 1 << 20, &out);
	buf_fini(&b);
	return r;
}

TEST(an_image_is_done_when_all_of_it_came)
{
	struct shim_image_done d = { SHIM_MAGIC, 0, 2, 8192 };

	T_INT(parse(&d, sizeof(d) - 1, 0, false), SHIM_IMAGE_MORE);
	T_INT(parse(&d, sizeof(d), 1, false), SHIM_IMAGE_MORE);
	T_INT(parse(&d, sizeof(d), 2, false), SHIM_IMAGE_DONE);
	T_INT(parse(&d, sizeof(d), 1, true), -EPIPE);
	T_INT(parse(&d, 0, 0, true), -EPIPE);
}

TEST(what_no_image_says_is_refused)
{
	struct shim_image_done bad[] = {
		{ SHIM_MAGIC + 1, 0, 0, 0 },
		{ SHIM_MAGIC, 1, 0, 0 },
		{ SHIM_MAGIC, -4096, 0, 0 },
		{ SHIM_MAGIC, 0, SHIM_MAPS_MAX + 1, 0 },
		{ SHIM_MAGIC, 0, 0, (1 << 20) + 1 },
	};
	struct shim_image_done full = { SHIM_MAGIC, -ENOSPC, 0, 0 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		T_INT(parse(&bad[i], sizeof(bad[i]), 0, true), -EBADMSG);
	T_INT(parse(&full, sizeof(full), 0, true), -ENOSPC);
}
