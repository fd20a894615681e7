/* SPDX-License-Identifier: Apache-2.0 */

/* up, and the hidden supervise. */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "cli/cg.h"
#include "cli/cli.h"
#include "cli/host.h"
#include "cli/logfile.h"
#include "cli/pginit.h"
#include "cli/sigs.h"
#include "cli/stop.h"
#include "cli/supervise.h"
#include "cli/upstatus.h"

#define NOTIFY_FD 3 /* where the supervisor finds the pipe to us */

struct up {
	struct cli *cli;
	struct stack s;
	bool foreground;
	int pidfd;	  /* of the supervisor that we started */
	char failed[512]; /* "UNIT WORDS", "" = none */
	bool is_up;
};

static void say(const char *line)
{
	fprintf(stderr, "caisson: %s\n", line);
}

/* Where the context goes; the key stays out of everybody's sight. */
static int write_context(const struct stack *s, struct err *e)
{
	owned_str key_path = xasprintf("%s/operator.key", s->data);
	struct context_file f = { 0 };
	struct context c = { 0 };
	owned_str key = NULL;
	size_t n;
	int r;

	r = file_read(key_path, 256, &key, &n, e);
	if (r < 0)
		return r;
	key[strcspn(key, "\n")] = '\0';
	c.name = xstrdup(s->context);
	c.url = xasprintf("http://%s", s->control);
	c.data_url = xasprintf("http://%s", s->data_listen);
	c.key = TAKE(key);
	r = context_locate(&f, e);
	if (r == 0)
		r = context_load(&f, e);
	if (r == 0) {
		context_put(&f, &c, true);
		r = context_save(&f, e);
	}
	context_fini(&c);
	context_file_fini(&f);
	return r;
}

/* One line of the supervisor's. */
static void on_line(struct up *u, const char *line)
{
	const char *ms;

	if (!strcmp(line, "up")) {
		u->is_up = true;
	} else if (!strncmp(line, "failed ", 7)) {
		snprintf(u->failed, sizeof(u->failed), "%s", line + 7);
	} else if (!strncmp(line, "unit ", 5) && u->cli->verbose) {
		line += 5;
		ms = strchr(line, ' ');
		if (ms)
			fprintf(stderr, "caisson: %.*s ready after%s ms\n",
				(int)(ms - line), line, ms);
	}
}

static void read_lines(struct up *u, int fd)
{
	FILE *f = fdopen(fd, "r");
	char line[512];

	while (f && !u->is_up && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		on_line(u, line);
	}
	if (f)
		fclose(f);
}

static void push(struct unit_argv *a, const char *option, char *value_take)
{
	a->v[a->n++] = xstrdup(option);
	a->v[a->n++] = value_take;
	a->v[a->n] = NULL;
}

static void supervise_argv(const struct stack *s, struct unit_argv *a)
{
	*a = (struct unit_argv){ 0 };
	a->v[a->n++] = xstrdup(s->self);
	a->v[a->n++] = xstrdup("supervise");
	/* everything is said: the file may change while this one lives */
	push(a, "--config", xstrdup("/dev/null"));
	push(a, "--run", xstrdup(s->run));
	push(a, "--data", xstrdup(s->data));
	push(a, "--control", xstrdup(s->control));
	push(a, "--data-listen", xstrdup(s->data_listen));
	push(a, "--cgroup", xstrdup(s->cgroup));
	push(a, "--engine", xstrdup(s->engine));
	push(a, "--node", xstrdup(s->node));
	push(a, "--context", xstrdup(s->context));
	push(a, "--uid-base", xasprintf("%" PRId64, s->uid_base));
	if (s->slots)
		push(a, "--slots", xasprintf("%" PRId64, s->slots));
	if (s->waiting)
		push(a, "--waiting", xasprintf("%" PRId64, s->waiting));
	if (s->memory_mib)
		push(a, "--memory-mib", xasprintf("%" PRId64, s->memory_mib));
	push(a, "--notify-fd", xasprintf("%d", NOTIFY_FD));
}

/* Start the supervisor in a session of its own and follow it until all is
 * ready, or it gave up. */
static int start_supervisor(struct up *u, struct err *e)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
					   "LC_ALL=C.UTF-8", "TZ=UTC", NULL };
	owned_str log = host_log_path(&u->s, "supervisor");
	owned_fd out = -1, theirs = -1;
	struct unit_argv argv;
	struct spawn sp = {
		.envp = env, .exe_fd = -1, .n_fds = 1, .new_session = true
	};
	int p[2], r;
	pid_t pid;

	out = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		   0640);
	if (out < 0)
		return err_errno(e, errno, "%s", log);
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_errno(e, errno, "pipe");
	theirs = p[1];
	supervise_argv(&u->s, &argv);
	sp.argv = (const char *const *)argv.v;
	sp.stdio[0] = -1;
	sp.stdio[1] = sp.stdio[2] = out;
	sp.fds = &theirs;
	r = spawn_start(&sp, &pid, &u->pidfd, e);
	unit_argv_fini(&argv);
	theirs = fd_close(theirs);
	if (r < 0) {
		fd_close(p[0]);
		return r;
	}
	read_lines(u, p[0]);
	if (u->is_up)
		return 0;
	return err_set(e, -EIO, ERR_INTERNAL, "up failed: %s",
		       *u->failed ? u->failed : "the supervisor ended");
}

/* The failing unit's last words. */
static void show_log(const struct up *u)
{
	char name[32] = "supervisor";
	owned_str path = NULL;
	struct buf tail;

	sscanf(u->failed, "%31s", name);
	path = host_log_path(&u->s, name);
	buf_init(&tail, 0);
	if (logfile_tail(path, 12, &tail) == 0 && buf_len(&tail) > 0)
		fprintf(stderr, "--- %s\n%.*s---\n", path, (int)buf_len(&tail),
			(const char *)buf_data(&tail));
	buf_fini(&tail);
}

static bool find_parts(struct up *u, int *ret_exit)
{
	struct host_facts f;
	struct buf missing;

	u->s.cgroup_root = cg_root();
	u->s.pg_bin = pg_find_bin();
	host_look(&u->s, &f);
	buf_init(&missing, 0);
	if (host_missing(&f, u->s.libexec, &missing) > 0) {
		fputs("caisson: this machine is not ready:\n", stderr);
		fwrite(buf_data(&missing), 1, buf_len(&missing), stderr);
		*ret_exit = CLI_OURS;
	}
	f.root = buf_len(&missing) == 0;
	buf_fini(&missing);
	return f.root;
}

/* Stay until a signal comes or the supervisor dies; then end everything. */
static int stay(struct up *u)
{
	struct pollfd p[2] = { { .fd = follow_signals(), .events = POLLIN },
			       { .fd = u->pidfd, .events = POLLIN } };
	struct err e = { 0 };
	bool died;

	printf("  in the foreground: Ctrl-C ends everything\n");
	fflush(stdout);
	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	died = !(p[0].revents & POLLIN);
	fd_close(p[0].fd);
	if (died)
		say("the supervisor ended");
	if (stop_all(&u->s, say, &e) < 0)
		return cli_fail(u->cli, &e);
	return died ? CLI_OURS : CLI_OK;
}

/* A supervisor holds the lock: ours, or one that another `up` starts. */
static int already(struct up *u)
{
	struct err e = { 0 };

	if (!upstatus_wait(&u->s, 180000))
		return cli_usage("another `caisson up` has been starting for "
				 "3 minutes; see %s/log",
				 u->s.data);
	if (write_context(&u->s, &e) < 0)
		return cli_fail(u->cli, &e);
	if (!u->cli->json)
		printf("already running\n");
	return upstatus_print(u->cli, &u->s);
}

static int up(struct up *u)
{
	struct err e = { 0 };
	struct stat st;
	int ret = CLI_OK, lock, r;

	if (!find_parts(u, &ret))
		return ret;
	if (stat(u->s.run, &st) == 0) {
		lock = supervisor_lock(&u->s, &e);
		if (lock == -EWOULDBLOCK)
			return already(u);
		fd_close(lock);
		/* what a crashed supervisor left; its VMs live on */
		if (stop_daemons(&u->s, NULL, &e) < 0)
			return cli_fail(u->cli, &e);
	}
	if (host_users(&e) < 0 || host_dirs(&u->s, &e) < 0)
		return cli_fail(u->cli, &e);
	r = start_supervisor(u, &e);
	if (r == 0)
		r = write_context(&u->s, &e);
	if (r < 0) {
		struct err why = { 0 };

		ret = cli_fail(u->cli, &e);
		show_log(u);
		if (stop_daemons(&u->s, NULL, &why) < 0)
			cli_fail(u->cli, &why);
		return ret;
	}
	ret = upstatus_print(u->cli, &u->s);
	return u->foreground ? stay(u) : ret;
}

int verb_up(struct cli *c, int argc, char **argv)
{
	struct stack_opts o = { 0 };
	struct up u = { .cli = c, .pidfd = -1 };
	const struct arg_opt opts[] = {
		STACK_OPTS(&o),
		STACK_UP_OPTS(&o),
		{ "foreground", 0, ARG_FLAG, &u.foreground, NULL,
		  "supervise from here; ends all when it ends", 0, 0 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "up [options]",
		.summary = "Start Caisson on this machine, or say that it "
			   "runs. Needs root.",
		.more = "Starts PostgreSQL (private, by unix socket only), "
			"the node's daemons, the API\nand the controller; "
			"restarts what dies; writes a context for the user "
			"who called\nsudo. Twice is once.\n\n"
			"  sudo caisson up\n"
			"  sudo caisson up --control 127.0.0.1:7800 "
			"--data-listen 127.0.0.1:7810\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct err e = { 0 };
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	/* --context names the one that is written */
	o.context = c->context;
	stack_init(&u.s);
	if (rest < argc)
		ret = cli_usage("up takes no words (\"%s\")", argv[rest]);
	else if (stack_load(&u.s, &o, &e) < 0)
		ret = cli_fail(c, &e);
	else
		ret = up(&u);
	fd_close(u.pidfd);
	stack_fini(&u.s);
	return ret;
}

int verb_supervise(struct cli *c, int argc, char **argv)
{
	struct stack_opts o = { 0 };
	struct stack s;
	int64_t notify_fd = 0;
	const struct arg_opt opts[] = {
		STACK_OPTS(&o),
		STACK_UP_OPTS(&o),
		{ "notify-fd", 0, ARG_INT, &notify_fd, "N",
		  "descriptor to report to", 3, 1023 },
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "supervise [options]",
		.summary = "What `caisson up` leaves running; not for people.",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct err e = { 0 };
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	o.context = c->context;
	stack_init(&s);
	if (stack_load(&s, &o, &e) < 0) {
		ret = cli_fail(c, &e);
	} else {
		s.cgroup_root = cg_root();
		s.pg_bin = pg_find_bin();
		if (notify_fd)
			fcntl((int)notify_fd, F_SETFD, FD_CLOEXEC);
		ret = s.cgroup_root
			  ? supervise_take(&s, notify_fd ? (int)notify_fd : -1)
			  : cli_usage("no cgroup v2 hierarchy");
	}
	stack_fini(&s);
	return ret;
}
