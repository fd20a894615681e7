/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/outlet.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

#define TTY_PIECE  512u
#define FILE_PIECE 65536u

enum { KIND_FILE, KIND_PIPE, KIND_TTY, KIND_SOCKET };

struct piece {
	struct list link;
	int which;
	size_t n, at;
	uint64_t offset;
	uint8_t bytes[];
};

static int kind_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return KIND_FILE;
	if (S_ISFIFO(st.st_mode))
		return KIND_PIPE;
	if (S_ISSOCK(st.st_mode))
		return KIND_SOCKET;
	return isatty(fd) ? KIND_TTY : KIND_FILE;
}

void outlet_init(struct outlet *o, struct loop *l, int fd_out, int fd_err,
		 void (*on_progress)(struct outlet *, uint64_t),
		 void (*on_broken)(struct outlet *))
{
	*o = (struct outlet){ .loop = l,
			      .on_progress = on_progress,
			      .on_broken = on_broken };
	for (int w = 0; w < OUTLET_FDS; w++) {
		int fd = w ? fd_err : fd_out;

		o->ports[w].owner = o;
		o->ports[w].fd = fd;
		o->ports[w].kind = kind_of(fd);
	}
	list_init(&o->pieces);
}

static struct piece *first(struct outlet *o)
{
	return list_entry(list_first(&o->pieces), struct piece, link);
}

static void unwatch(struct outlet *o)
{
	for (int w = 0; w < OUTLET_FDS; w++)
		loop_io_del(&o->ports[w].io);
}

static void drop_piece(struct outlet *o, struct piece *p)
{
	o->n_bytes -= p->n - p->at;
	list_del(&p->link);
	free(p);
}

void outlet_fini(struct outlet *o)
{
	while (!list_empty(&o->pieces))
		drop_piece(o, first(o));
	unwatch(o);
	loop_defer_del(&o->more);
}

static ssize_t write_piece(const struct outlet *o, const struct piece *p)
{
	static const size_t most[] = { [KIND_FILE] = FILE_PIECE,
				       [KIND_PIPE] = PIPE_BUF,
				       [KIND_TTY] = TTY_PIECE,
				       [KIND_SOCKET] = FILE_PIECE };
	int kind = o->ports[p->which].kind, fd = o->ports[p->which].fd;
	size_t n = p->n - p->at;
	ssize_t r;

	n = n > most[kind] ? most[kind] : n;
	do {
		r = kind == KIND_SOCKET ? send(fd, p->bytes + p->at, n,
					       MSG_DONTWAIT | MSG_NOSIGNAL)
					: write(fd, p->bytes + p->at, n);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

static void on_more(struct loop_defer *d);
static void on_writable(struct loop_io *io, unsigned events);

/* Wait until the descriptor of the first piece may be written. */
static void wait_for(struct outlet *o)
{
	struct outlet_port *port;
	struct piece *p;

	if (list_empty(&o->pieces)) {
		unwatch(o);
		return;
	}
	p = first(o);
	port = &o->ports[p->which];
	loop_io_del(&o->ports[1 - p->which].io);
	if (p->n > p->at && port->kind != KIND_FILE) {
		if (port->io.loop || loop_io_add(o->loop, &port->io, port->fd,
						 LOOP_OUT, on_writable) == 0)
			return;
		/* what cannot be waited for is always writable */
		port->kind = KIND_FILE;
	}
	loop_defer_add(o->loop, &o->more, on_more);
}

static void advance(struct outlet *o)
{
	struct piece *p;
	uint64_t offset = 0;
	bool progress = false;
	ssize_t r = 0;

	if (o->broken || list_empty(&o->pieces))
		return;
	p = first(o);
	if (p->n > p->at)
		r = write_piece(o, p);
	if (r < 0 && r != -EAGAIN) {
		o->broken = true;
		o->error = (int)r;
		unwatch(o);
		o->on_broken(o);
		return;
	}
	if (r > 0) {
		p->at += (size_t)r;
		o->n_bytes -= (size_t)r;
	}
	if (p->at == p->n) {
		offset = p->offset;
		progress = true;
		drop_piece(o, p);
	}
	wait_for(o);
	if (progress)
		o->on_progress(o, offset);
}

static void on_more(struct loop_defer *d)
{
	advance(container_of(d, struct outlet, more));
}

static void on_writable(struct loop_io *io, unsigned events)
{
	(void)events;
	advance(container_of(io, struct outlet_port, io)->owner);
}

void outlet_put(struct outlet *o, int which, const void *p, size_t n,
		uint64_t offset)
{
	struct piece *piece;

	if (o->broken)
		return;
	piece = xcalloc(sizeof(*piece) + n, 1);
	piece->which = which;
	piece->n = n;
	piece->offset = offset;
	if (n > 0)
		memcpy(piece->bytes, p, n);
	o->n_bytes += n;
	list_add_tail(&o->pieces, &piece->link);
	wait_for(o);
}
