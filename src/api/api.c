/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/auth.h"
#include "api/data.h"
#include "api/h-audit-queue.h"
#include "api/h-event.h"
#include "api/limit.h"
#include "api/node.h"
#include "api/req.h"
#include "api/stats.h"
#include "api/task.h"
#include "api/wait.h"
#include "base/log.h"
#include "base/own.h"
#include "base/text.h"

/* ---- addresses ---- */

static int parse_port(const char *s, uint16_t *ret)
{
	char *end;
	unsigned long v;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	v = strtoul(s, &end, 10);
	if (*end || v > 65535)
		return -EINVAL;
	*ret = (uint16_t)v;
	return 0;
}

static socklen_t parse_address(const char *text, struct sockaddr_storage *ret)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	const char *colon = strrchr(text, ':');
	char host[64];
	uint16_t port;
	size_t n;

	if (!colon || parse_port(colon + 1, &port) < 0)
		return 0;
	n = (size_t)(colon - text);
	memset(ret, 0, sizeof(*ret));
	if (n > 2 && text[0] == '[' && text[n - 1] == ']' &&
	    n - 2 < sizeof(host)) {
		snprintf(host, sizeof(host), "%.*s", (int)(n - 2), text + 1);
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		return inet_pton(AF_INET6, host, &in6->sin6_addr) == 1
			   ? sizeof(*in6)
			   : 0;
	}
	if (n >= sizeof(host))
		return 0;
	snprintf(host, sizeof(host), "%.*s", (int)n, text);
	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	return inet_pton(AF_INET, host, &in->sin_addr) == 1 ? sizeof(*in) : 0;
}

int api_bind(const char *text, struct err *e)
{
	struct sockaddr_storage sa;
	socklen_t n = parse_address(text, &sa);
	owned_fd fd = -1;
	int one = 1;

	if (!n)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "\"%s\": expected ADDRESS:PORT such as "
			       "127.0.0.1:7700 or [::1]:7700",
			       text);
	fd =
	    socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(e, errno, "socket: %m");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&sa, n) < 0 || listen(fd, 512) < 0)
		return err_errno(e, errno,
				 "listen on %s: %m (another caisson? choose "
				 "another address)",
				 text);
	return take_fd(&fd);
}

/* ---- the key of idempotent bodies ---- */

static struct pg_stmt st_hello = {
	"api_hello", "SELECT secret, schema_version FROM caisson.api_hello()",
	0, 0
};

static void on_hello_again(struct loop_timer *t);

static void on_hello(void *arg, const struct pg_result *res,
		     const struct err *e)
{
	struct api *a = arg;

	if (a->stopping)
		return;
	if (!e && pg_rows(res) == 1 &&
	    text_unhex(pg_text(res, 0, 0), sizeof(a->secret), a->secret)) {
		a->has_secret = true;
		log_info("ready", "schema=%s owner=%s",
			 pg_text(res, 0, 1) ? pg_text(res, 0, 1) : "?",
			 a->owner);
		nodes_refresh(a->nodes);
		return;
	}
	log_warn("database_not_ready", "error=%s",
		 e ? e->msg : "the schema is missing: caisson migrate");
	loop_timer_set(a->loop, &a->hello_timer, 500, on_hello_again);
}

static void ask_hello(struct api *a)
{
	if (pg_query(a->db, &st_hello, NULL, 5000, on_hello, a, NULL) < 0)
		loop_timer_set(a->loop, &a->hello_timer, 500, on_hello_again);
}

static void on_hello_again(struct loop_timer *t)
{
	ask_hello(container_of(t, struct api, hello_timer));
}

/* ---- life ---- */

struct api *api_new(struct loop *l, const struct api_conf *conf)
{
	struct api *a = xnew(struct api);

	a->loop = l;
	a->conf = *conf;
	memcpy(a->owner, "api_", 4);
	random_id(a->owner + 4, 20);
	list_init(&a->reqs);
	list_init(&a->tasks);
	a->waits = map_new();
	stats_init();
	a->db = pg_pool_new(l, &(struct pg_pool_conf){
				   .conninfo = conf->conninfo,
				   .program = "caisson-api",
				   .conns = conf->db_conns,
			       });
	a->auth = auth_cache_new(a);
	if (conf->rate_per_s)
		a->rate = limit_new(conf->rate_per_s, 2.0 * conf->rate_per_s);
	a->audit = audit_queue_new(a);
	a->events = event_hub_new(a);
	a->nodes = nodes_new(a);
	a->datas = datas_new(a);
	ask_hello(a);
	return a;
}

static uint16_t port_of(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} sa = { .v6 = { 0 } };
	socklen_t n = sizeof(sa);

	if (getsockname(fd, &sa.any, &n) < 0)
		return 0;
	if (sa.any.sa_family == AF_INET6)
		return ntohs(sa.v6.sin6_port);
	return sa.any.sa_family == AF_INET ? ntohs(sa.v4.sin_port) : 0;
}

void api_listen_take(struct api *a, int control_fd, int data_fd)
{
	static const struct http_limits lim = { .conns = 4096 };

	a->data_port = port_of(data_fd);
	a->control = http_server_new_take(a->loop, control_fd, HTTP_AUTO, &lim,
					  &req_control_ops, a);
	a->data = http_server_new_take(a->loop, data_fd, HTTP_AUTO, &lim,
				       &req_data_ops, a);
}

struct api *api_free(struct api *a)
{
	if (!a)
		return NULL;
	a->stopping = true;
	loop_timer_del(&a->hello_timer);
	wait_fini(a);
	task_fini(a);
	/* what waits for the database is told here and still looks around */
	a->db = pg_pool_free(a->db);
	a->nodes = nodes_free(a->nodes);
	a->datas = datas_free(a->datas);
	if (a->control)
		http_server_free(a->control);
	if (a->data)
		http_server_free(a->data);
	loop_timer_del(&a->sweep_timer);
	event_hub_free(a->events);
	audit_queue_free(a->audit);
	auth_cache_free(a->auth);
	limit_free(a->rate);
	map_free(a->waits);
	free(a);
	return NULL;
}
