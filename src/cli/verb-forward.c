/* SPDX-License-Identifier: Apache-2.0 */

/* forward, open, ssh-config: a guest's ports from here. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cli/cli.h"
#include "cli/jget.h"
#include "cli/launch.h"
#include "cli/portspec.h"
#include "cli/sandbox.h"
#include "cli/tunnel.h"
#include "net/json.h"

#define LISTENERS_MAX 64u
#define TUNNELS_MAX   512u

struct forward;

struct listener {
	struct loop_io io;
	struct forward *owner;
	struct portspec spec;
	int fd;
};

struct carried {
	struct list link;
	struct forward *owner;
	struct tunnel *tunnel;
	uint16_t port;
};

struct forward {
	struct cli *cli;
	struct client *client;
	struct loop *loop;
	const char *word; /* as the user calls it */
	char *sandbox;
	struct listener listeners[LISTENERS_MAX];
	size_t n_listeners;
	struct list tunnels;
	size_t n_tunnels;
	struct loop_signal signals[2];
	bool only_one; /* --stdio: the first tunnel's end is ours */
	int ret;
};

static int forward_init(struct forward *f, struct cli *c, const char *word)
{
	int ret = CLI_OK;

	*f = (struct forward){ .cli = c, .word = word };
	list_init(&f->tunnels);
	f->loop = loop_new();
	f->client = cli_client(c, &ret);
	if (f->client)
		f->sandbox = sandbox_resolve(c, f->client, word, &ret);
	return f->sandbox ? CLI_OK : ret;
}

static void forward_fini(struct forward *f)
{
	while (!list_empty(&f->tunnels)) {
		struct carried *x =
		    list_entry(list_first(&f->tunnels), struct carried, link);

		list_del(&x->link);
		tunnel_free(x->tunnel);
		free(x);
	}
	for (size_t i = 0; i < f->n_listeners; i++) {
		loop_io_del(&f->listeners[i].io);
		fd_close(f->listeners[i].fd);
	}
	for (size_t i = 0; i < ARRAY_SIZE(f->signals); i++)
		loop_signal_del(&f->signals[i]);
	client_free(f->client);
	free(f->sandbox);
	loop_free(f->loop);
}

static void stop(struct forward *f, int ret)
{
	f->ret = ret;
	loop_stop(f->loop, 0);
}

static void on_over(void *arg, struct tunnel *t, bool opened,
		    const struct fault *fault, const struct err *e)
{
	struct carried *x = arg;
	struct forward *f = x->owner;
	uint16_t port = x->port;

	(void)t;
	list_del(&x->link);
	free(x);
	f->n_tunnels--;
	if (f->only_one) {
		stop(f, fault ? cli_fault(f->cli, fault)
			: e   ? cli_fail(f->cli, e)
			      : CLI_OK);
	} else if (fault && (fault->status == 404 || fault->status == 410 ||
			     fault->status == 401 || fault->status == 403)) {
		/* no later connection would fare better */
		stop(f, cli_fault(f->cli, fault));
	} else if (fault) {
		fprintf(stderr, "caisson: port %u: %s\n", (unsigned)port,
			fault->message);
	} else if (e && (!opened || f->cli->verbose)) {
		fprintf(stderr, "caisson: port %u: %s\n", (unsigned)port,
			e->msg);
	}
}

static void carry_take(struct forward *f, uint16_t port, int in, int out)
{
	struct carried *x = xnew(struct carried);

	x->owner = f;
	x->port = port;
	list_add_tail(&f->tunnels, &x->link);
	f->n_tunnels++;
	x->tunnel = tunnel_new_take(f->loop, client_context(f->client),
				    f->sandbox, port, in, out, on_over, x);
}

/* ---- listening ---- */

static void on_accept(struct loop_io *io, unsigned events)
{
	struct listener *l = container_of(io, struct listener, io);
	struct forward *f = l->owner;
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int out;

	(void)events;
	if (fd < 0)
		return;
	out = f->n_tunnels < TUNNELS_MAX ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	if (out < 0) {
		fprintf(stderr,
			"caisson: port %u: %zu connections are open, no more "
			"are taken\n",
			(unsigned)l->spec.port, f->n_tunnels);
		fd_close(fd);
		return;
	}
	carry_take(f, l->spec.port, fd, out);
}

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t address_of(const char *bind_to, uint16_t port,
			    union address *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, bind_to, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(port);
		return sizeof(ret->v4);
	}
	if (inet_pton(AF_INET6, bind_to, &ret->v6.sin6_addr) == 1) {
		ret->v6.sin6_family = AF_INET6;
		ret->v6.sin6_port = htons(port);
		return sizeof(ret->v6);
	}
	return 0;
}

/* The port that was had, or a negative errno with *e. */
static int listen_on(struct forward *f, const char *bind_to,
		     const struct portspec *spec, struct err *e)
{
	struct listener *l = &f->listeners[f->n_listeners];
	union address a;
	socklen_t n = address_of(bind_to, spec->local, &a);
	int on = 1;
	owned_fd fd = -1;

	if (n == 0)
		return err_set(e, -EINVAL, ERR_INVALID,
			       "--bind %.64s: expected an address in numbers",
			       bind_to);
	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    0);
	if (fd < 0)
		return err_errno(e, errno, "socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, &a.any, n) < 0 || listen(fd, 128) < 0)
		return err_errno(e, errno,
				 "cannot listen on %s port %u (another one: "
				 "LOCAL:%u, any: 0:%u)",
				 bind_to, (unsigned)spec->local,
				 (unsigned)spec->port, (unsigned)spec->port);
	n = sizeof(a);
	if (getsockname(fd, &a.any, &n) < 0)
		return err_errno(e, errno, "getsockname");
	l->owner = f;
	l->spec = *spec;
	l->fd = take_fd(&fd);
	f->n_listeners++;
	CHECK(loop_io_add(f->loop, &l->io, l->fd, LOOP_IN, on_accept) == 0);
	/* both families have the port at the same place */
	return ntohs(a.v4.sin_port);
}

static void on_signal(struct loop_signal *s)
{
	(void)s;
	loop_stop(s->loop, 0);
}

static int serve(struct forward *f)
{
	CHECK(loop_signal_add(f->loop, &f->signals[0], SIGINT, on_signal) == 0);
	CHECK(loop_signal_add(f->loop, &f->signals[1], SIGTERM, on_signal) ==
	      0);
	loop_run(f->loop);
	return f->ret;
}

static void announce(const struct forward *f, const char *bind_to, int local,
		     uint16_t port)
{
	bool v6 = strchr(bind_to, ':') != NULL;
	owned_json v = NULL;
	owned_str text = NULL;

	if (f->cli->json) {
		v = json_pack("{s:s,s:i,s:s,s:i}", "address", bind_to,
			      "local_port", local, "sandbox", f->sandbox,
			      "port", (int)port);
		text = json_text(v);
		printf("%s\n", text);
	} else {
		printf("%s%s%s:%d -> %s:%u\n", v6 ? "[" : "", bind_to,
		       v6 ? "]" : "", local, f->word, (unsigned)port);
	}
	fflush(stdout);
}

static int forward_ports(struct cli *c, const char *bind_to, char **words,
			 size_t n)
{
	struct forward f;
	struct portspec spec;
	struct err e = { 0 };
	int ret, local = 0;

	for (size_t i = 1; i < n; i++) {
		if (portspec_parse(words[i], &spec, &e) < 0)
			return cli_fail(c, &e);
	}
	ret = forward_init(&f, c, words[0]);
	for (size_t i = 1; ret == CLI_OK && i < n; i++) {
		CHECK(portspec_parse(words[i], &spec, &e) == 0);
		local = listen_on(&f, bind_to, &spec, &e);
		if (local < 0)
			ret = cli_fail(c, &e);
		else
			announce(&f, bind_to, local, spec.port);
	}
	if (ret == CLI_OK)
		ret = serve(&f);
	forward_fini(&f);
	return ret;
}

static int forward_stdio(struct cli *c, const char *word, const char *port)
{
	struct forward f;
	struct portspec spec;
	struct err e = { 0 };
	int ret, in, out;

	if (portspec_parse(port, &spec, &e) < 0)
		return cli_fail(c, &e);
	ret = forward_init(&f, c, word);
	if (ret == CLI_OK) {
		in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		/* ours were the only others: a closed pipe shall be seen */
		close(STDOUT_FILENO);
		f.only_one = true;
		carry_take(&f, spec.port, in, out);
		ret = serve(&f);
	}
	forward_fini(&f);
	return ret;
}

int verb_forward(struct cli *c, int argc, char **argv)
{
	const char *bind_to = "127.0.0.1";
	bool stdio = false;
	const struct arg_opt opts[] = {
		{ "bind", 0, ARG_STR, &bind_to, "ADDR",
		  "listen on this address (127.0.0.1: this machine only)", 0,
		  0 },
		{ "stdio", 0, ARG_FLAG, &stdio, NULL,
		  "one connection, over standard input and output", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "forward [options] SB [LOCAL:]PORT...",
		.summary = "Ports of a sandbox's loopback on this machine, "
			   "until Ctrl-C.",
		.more = "Each connection here is one there. LOCAL 0 takes any "
			"free port and says which.\n\n"
			"  caisson forward box 8080\n"
			"  caisson forward box 9000:80 0:5432\n"
			"  ssh -o ProxyCommand='caisson forward --stdio box "
			"22' root@box\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (argc - rest < 2)
		return cli_usage("forward: caisson forward SB [LOCAL:]PORT...");
	if (stdio && (argc - rest != 2 || strchr(argv[rest + 1], ':')))
		return cli_usage("forward --stdio: one sandbox, one PORT");
	if ((size_t)(argc - rest) > LISTENERS_MAX)
		return cli_usage("forward: at most %u ports",
				 LISTENERS_MAX - 1);
	if (stdio)
		return forward_stdio(c, argv[rest], argv[rest + 1]);
	return forward_ports(c, bind_to, argv + rest, (size_t)(argc - rest));
}

/* ---- open ---- */

/* A browser, if there is a display and xdg-open; whether it works is its own
 * business. */
static void browse(const char *url)
{
	const char *path = getenv("PATH");
	const char *argv[] = { NULL, url, NULL };
	struct spawn s = { .argv = argv,
			   .envp = (const char *const *)(void *)environ,
			   .exe_fd = -1,
			   .stdio = { -1, -1, -1 } };
	struct err e = { 0 };

	if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY"))
		return;
	while (path && *path) {
		size_t n = strcspn(path, ":");
		owned_str exe = xasprintf("%.*s/xdg-open", (int)n, path);
		int pidfd = -1;
		pid_t pid;

		path += n + (path[n] == ':');
		if (exe[0] != '/' || access(exe, X_OK) < 0)
			continue;
		argv[0] = exe;
		if (spawn_start(&s, &pid, &pidfd, &e) == 0)
			fd_close(pidfd);
		return;
	}
}

static int open_port(struct cli *c, const char *word, const char *port,
		     const char *scheme, const char *page, bool quiet)
{
	struct forward f;
	struct portspec spec;
	struct err e = { 0 };
	owned_str url = NULL;
	int ret, local;

	if (portspec_parse(port, &spec, &e) < 0)
		return cli_fail(c, &e);
	if (!strchr(port, ':'))
		spec.local = 0;
	ret = forward_init(&f, c, word);
	if (ret == CLI_OK) {
		local = listen_on(&f, "127.0.0.1", &spec, &e);
		if (local < 0) {
			ret = cli_fail(c, &e);
		} else {
			url = xasprintf("%s://127.0.0.1:%d/%s", scheme, local,
					*page == '/' ? page + 1 : page);
			if (c->json)
				print_json_line("url", json_string(url));
			else
				printf("%s\n", url);
			fflush(stdout);
			if (!quiet)
				browse(url);
			ret = serve(&f);
		}
	}
	forward_fini(&f);
	return ret;
}

int verb_open(struct cli *c, int argc, char **argv)
{
	const char *scheme = "http", *page = "/";
	bool quiet = false;
	const struct arg_opt opts[] = {
		{ "scheme", 0, ARG_STR, &scheme, "S", "http or https", 0, 0 },
		{ "path", 0, ARG_STR, &page, "PATH", "page to open (/)", 0, 0 },
		{ "print", 0, ARG_FLAG, &quiet, NULL,
		  "print the URL, open nothing", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "open [options] SB [LOCAL:]PORT",
		.summary = "A web server of a sandbox in the browser here, "
			   "until Ctrl-C.",
		.more = "Without a display the URL is printed only.\n\n"
			"  caisson open box 8080\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (argc - rest != 2)
		return cli_usage("open: caisson open SB PORT");
	if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
		return cli_usage("open: --scheme is http or https");
	return open_port(c, argv[rest], argv[rest + 1], scheme, page, quiet);
}

/* ---- ssh-config ---- */

static int ssh_config(struct cli *c, const char *word, const char *user,
		      int64_t port)
{
	owned_str id = NULL;
	owned_str command = NULL;
	owned_json v = NULL;
	char exe[PATH_MAX];
	struct client *cl;
	ssize_t n;
	int ret;

	cl = cli_client(c, &ret);
	if (!cl)
		return ret;
	id = sandbox_resolve(c, cl, word, &ret);
	client_free(cl);
	if (!id)
		return ret;
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	if (n <= 0 || strpbrk(exe, "\"%\n"))
		snprintf(exe, sizeof(exe), "caisson");
	command = xasprintf("\"%s\" forward --stdio%s%s %s %d", exe,
			    c->context ? " --context " : "",
			    c->context ? c->context : "", id, (int)port);
	if (c->json) {
		v = json_pack("{s:s,s:s,s:s,s:s,s:s}", "host", word, "hostname",
			      id, "user", user, "proxy_command", command,
			      "host_key_alias", id);
		return cli_print_json(v);
	}
	/* the key is the sandbox's, whatever its name meant yesterday */
	printf("Host %s\n"
	       "  HostName %s\n"
	       "  User %s\n"
	       "  HostKeyAlias %s\n"
	       "  CheckHostIP no\n"
	       "  ProxyCommand %s\n",
	       word, id, user, id, command);
	return CLI_OK;
}

int verb_ssh_config(struct cli *c, int argc, char **argv)
{
	const char *user = "root";
	int64_t port = 22;
	const struct arg_opt opts[] = {
		{ "user", 'u', ARG_STR, &user, "NAME", "log in as (root)", 0,
		  0 },
		{ "port", 0, ARG_INT, &port, "N", "where its sshd listens (22)",
		  1, 65535 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "ssh-config [options] SB",
		.summary = "A Host block for ~/.ssh/config: ssh, scp, rsync "
			   "and editors reach the sandbox.",
		.more = "The sandbox must run an sshd that listens on its "
			"loopback.\n\n"
			"  caisson ssh-config box >> ~/.ssh/config && ssh "
			"box\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	if (argc - rest != 1)
		return cli_usage("ssh-config: which sandbox? caisson "
				 "ssh-config SB");
	if (strpbrk(argv[rest], " \t\r\n\"#*?!") || strpbrk(user, " \t\r\n\"#"))
		return cli_usage("ssh-config: a word that ssh would read "
				 "otherwise");
	return ssh_config(c, argv[rest], user, port);
}
