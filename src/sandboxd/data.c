/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/data.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "proto/data.h"
#include "sandboxd/engine.h"
#include "sandboxd/node.h"
#include "sandboxd/sandbox.h"

#define PREAMBLE_MS	2000u
#define PENDING_MAX	256u
#define ACCEPT_MAX	16
#define ACCEPT_RETRY_MS 100u

struct data {
	struct node *node;
	struct loop_io io;
	struct loop_timer retry;
	struct list pending;
	unsigned n_pending;
};

struct client {
	struct data *d;
	struct list link;
	struct loop_io io;
	struct loop_timer timer;
	struct data_preamble pre;
	size_t got;
};

/* The descriptor, no longer watched; the client is freed. */
static int client_release(struct client *c)
{
	int fd = c->io.fd;

	loop_io_del(&c->io);
	loop_timer_del(&c->timer);
	list_del(&c->link);
	c->d->n_pending--;
	free(c);
	return fd;
}

static void client_cut(struct client *c)
{
	fd_close(client_release(c));
}

static void on_late(struct loop_timer *t)
{
	client_cut(container_of(t, struct client, timer));
}

static void answer(struct client *c)
{
	struct node *n = c->d->node;
	struct sandbox *s = NULL;
	enum data_answer a = DATA_OK;
	char byte;
	int fd;

	if (c->pre.magic == DATA_MAGIC && c->pre.pad == 0 &&
	    memchr(c->pre.sandbox, '\0', sizeof(c->pre.sandbox)) &&
	    id_valid(c->pre.sandbox, "sb", 20))
		s = sandbox_get(n, c->pre.sandbox);
	if (!s)
		a = DATA_NO_SANDBOX;
	else if (s->state != SANDBOX_RUNNING)
		a = DATA_NOT_READY;
	byte = (char)a;
	fd = client_release(c);
	/* One byte into an empty socket: short only if the peer is gone. */
	if (send(fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1 ||
	    a != DATA_OK) {
		fd_close(fd);
		return;
	}
	n->engine->data_take(s, fd);
}

static void on_io(struct loop_io *io, unsigned events)
{
	struct client *c = container_of(io, struct client, io);
	char *p = (char *)&c->pre;
	ssize_t n =
	    recv(io->fd, p + c->got, sizeof(c->pre) - c->got, MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		client_cut(c);
		return;
	}
	c->got += (size_t)n;
	if (c->got == sizeof(c->pre))
		answer(c);
}

static void on_retry(struct loop_timer *t)
{
	struct data *d = container_of(t, struct data, retry);

	loop_io_set(&d->io, LOOP_IN);
}

/* Out of descriptors or memory: the listener stays readable, and asking again
 * at once would only burn the CPU that the others need to finish. */
static void pause_listening(struct data *d)
{
	log_warn("accept_failed", "errno=%d", errno);
	loop_io_set(&d->io, 0);
	loop_timer_set(d->node->loop, &d->retry, ACCEPT_RETRY_MS, on_retry);
}

static void on_listen(struct loop_io *io, unsigned events)
{
	struct data *d = container_of(io, struct data, io);
	struct client *c;
	int fd;

	(void)events;
	for (int i = 0; i < ACCEPT_MAX; i++) {
		fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0) {
			if (errno != EAGAIN && errno != EINTR &&
			    errno != ECONNABORTED)
				pause_listening(d);
			return;
		}
		if (d->n_pending >= PENDING_MAX ||
		    !node_lets_peer_in(d->node, fd)) {
			fd_close(fd);
			continue;
		}
		c = xnew(struct client);
		c->d = d;
		list_add_tail(&d->pending, &c->link);
		d->n_pending++;
		loop_timer_set(d->node->loop, &c->timer, PREAMBLE_MS, on_late);
		loop_io_add(d->node->loop, &c->io, fd, LOOP_IN, on_io);
	}
}

struct data *data_new_take(struct node *n, int listen_fd)
{
	struct data *d = xnew(struct data);

	d->node = n;
	list_init(&d->pending);
	loop_io_add(n->loop, &d->io, listen_fd, LOOP_IN, on_listen);
	return d;
}

struct data *data_free(struct data *d)
{
	int fd;

	if (!d)
		return NULL;
	while (!list_empty(&d->pending))
		client_cut(
		    list_entry(list_first(&d->pending), struct client, link));
	fd = d->io.fd;
	loop_timer_del(&d->retry);
	loop_io_del(&d->io);
	fd_close(fd);
	free(d);
	return NULL;
}
