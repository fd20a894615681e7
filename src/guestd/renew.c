/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/renew.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/random.h>

#include "base/log.h"
#include "base/own.h"
#include "base/text.h"
#include "guestd/netif.h"
#include "net/json.h"

#define SECOND_NS    1000000000ll
#define CLOCK_MIN_NS 1000000ll
/* As many as two thousand connects a second need while they linger. */
#define PORTS_MIN 20000

int64_t renew_realtime_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec;
}

static void read_name(struct json_reader *r, const char *name, char *ret,
		      size_t size, const char *allowed)
{
	const char *v = NULL;

	json_required(r, name);
	if (!json_str(r, name, size - 1, &v))
		return;
	if (!*v || v[strspn(v, allowed)])
		json_field_error(r, name, "expected some of: %s", allowed);
	else
		snprintf(ret, size, "%s", v);
}

static void read_entropy(struct json_reader *r, struct renew *ret)
{
	const char *v = NULL;
	uint8_t raw[RENEW_ENTROPY_BYTES + 8];

	json_required(r, "entropy");
	if (!json_str(r, "entropy", 88, &v))
		return;
	/* 64 bytes are 88 characters; anything else is refused before decoding
	 * so that raw cannot run over */
	if (strlen(v) != 88 || text_unbase64(v, 88, raw) != RENEW_ENTROPY_BYTES)
		json_field_error(r, "entropy", "expected 64 bytes in base64");
	else
		memcpy(ret->entropy, raw, RENEW_ENTROPY_BYTES);
	explicit_bzero(raw, sizeof(raw));
}

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define DIGITS	"0123456789"
#define UPPER	"ABCDEFGHIJKLMNOPQRSTUVWXYZ"

int renew_read(const void *body, size_t n, struct renew *ret,
	       char ret_field[96], struct err *e)
{
	owned_json root = NULL;
	struct json_reader r;
	int64_t low = 0, high = 0;
	int res;

	*ret = (struct renew){ 0 };
	ret_field[0] = '\0';
	res = json_parse(body, n, &root, e);
	if (res < 0)
		return res;
	json_reader_init(&r, root, "", e);
	read_name(&r, "sandbox", ret->sandbox, sizeof(ret->sandbox),
		  LETTERS DIGITS);
	read_name(&r, "hostname", ret->hostname, sizeof(ret->hostname),
		  LETTERS UPPER DIGITS "-.");
	read_name(&r, "machine_id", ret->machine_id, sizeof(ret->machine_id),
		  "abcdef" DIGITS);
	read_name(&r, "nonce", ret->nonce, sizeof(ret->nonce),
		  LETTERS UPPER DIGITS "+/=_-");
	read_entropy(&r, ret);
	json_required(&r, "realtime_ns");
	json_int(&r, "realtime_ns", 0, INT64_MAX, &ret->realtime_ns);
	json_required(&r, "port_low");
	json_required(&r, "port_high");
	json_int(&r, "port_low", 1024, 65535 - PORTS_MIN, &low);
	json_int(&r, "port_high", 1024 + PORTS_MIN, 65535, &high);
	if (r.r == 0 && strlen(ret->machine_id) != 32)
		json_field_error(&r, "machine_id",
				 "expected 32 hexadecimal digits");
	if (r.r == 0 && high - low < PORTS_MIN)
		json_field_error(&r, "port_high",
				 "expected at least port_low + %d", PORTS_MIN);
	ret->port_low = (int)low;
	ret->port_high = (int)high;
	res = json_reader_end(&r);
	if (res < 0)
		snprintf(ret_field, 96, "%.95s", r.field);
	return res;
}

static int add_entropy(int random_fd, const uint8_t *p, size_t n)
{
	/* the struct ends in the bytes */
	struct rand_pool_info *pool = xcalloc(1, sizeof(*pool) + n);
	int r = 0;

	pool->entropy_count = (int)(n * 8);
	pool->buf_size = (int)n;
	memcpy(pool->buf, p, n);
	if (ioctl(random_fd, RNDADDENTROPY, pool) < 0 ||
	    ioctl(random_fd, RNDRESEEDCRNG) < 0)
		r = -errno;
	explicit_bzero(pool, sizeof(*pool) + n);
	free(pool);
	return r;
}

int renew_clock(const struct guestd *g, int64_t realtime_ns, struct err *e)
{
	int64_t off = realtime_ns - renew_realtime_ns();
	struct timespec t = { .tv_sec = realtime_ns / SECOND_NS,
			      .tv_nsec = realtime_ns % SECOND_NS };

	if (g->root_less || (off > -CLOCK_MIN_NS && off < CLOCK_MIN_NS))
		return 0;
	if (clock_settime(CLOCK_REALTIME, &t) < 0)
		return err_errno(e, errno, "set the clock");
	return 0;
}

/* Replace the content of a tmpfs file that is mounted over a name in /etc. */
static int rewrite(int fd, const char *text)
{
	size_t n = strlen(text);

	if (fd < 0)
		return 0;
	if (pwrite(fd, text, n, 0) != (ssize_t)n || ftruncate(fd, (off_t)n) < 0)
		return -errno;
	return 0;
}

static int set_names(const struct held *h, const struct renew *r)
{
	char text[256];
	int a, b, c;

	snprintf(text, sizeof(text), "%s\n", r->machine_id);
	a = rewrite(h->machine_id, text);
	snprintf(text, sizeof(text), "%s\n", r->hostname);
	b = rewrite(h->hostname, text);
	snprintf(text, sizeof(text), "127.0.0.1\tlocalhost\n127.0.1.1\t%s\n",
		 r->hostname);
	c = rewrite(h->hosts, text);
	if (sethostname(r->hostname, strlen(r->hostname)) < 0)
		return -errno;
	return a < 0 ? a : b < 0 ? b : c;
}

static int set_ports(const struct held *h, const struct renew *r)
{
	char text[32];
	owned_fd fd = openat(h->proc, "sys/net/ipv4/ip_local_port_range",
			     O_WRONLY | O_CLOEXEC);

	/* the kernel wants ends of different parity, and grumbles otherwise */
	snprintf(text, sizeof(text), "%d %d", r->port_low,
		 (r->port_low ^ r->port_high) & 1 ? r->port_high
						  : r->port_high - 1);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

int renew_apply(const struct guestd *g, const struct renew *r, struct err *e)
{
	int entropy, names, ports, sockets, clock;

	if (g->root_less)
		return 0; /* those are the host's */
	entropy = add_entropy(g->held.random, r->entropy, sizeof(r->entropy));
	clock = renew_clock(g, r->realtime_ns, e);
	names = set_names(&g->held, r);
	ports = set_ports(&g->held, r);
	sockets = netif_destroy_sockets();
	if (entropy < 0)
		return err_errno(e, -entropy, "reseed the random generator");
	if (clock < 0)
		return clock;
	if (names < 0)
		return err_errno(e, -names, "set the host's names");
	if (ports < 0)
		return err_errno(e, -ports, "set the local port range");
	if (sockets < 0)
		return err_errno(e, -sockets, "destroy the old sockets");
	if (sockets > 0)
		log_info("sockets_destroyed", "count=%d", sockets);
	return 0;
}
