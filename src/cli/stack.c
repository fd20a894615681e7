/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stack.h"

#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/ini.h"
#include "base/own.h"

#define BIT(unit) (1u << (unit))

const struct unit_def unit_defs[UNIT_MAX_] = {
	[UNIT_INITDB] = { "initdb", NULL, NULL, 0, 120000, true },
	[UNIT_POSTGRES] = { "postgres", "caisson-db", NULL, BIT(UNIT_INITDB),
			    120000, false },
	[UNIT_MIGRATE] = { "migrate", NULL, NULL, BIT(UNIT_POSTGRES), 120000,
			   true },
	[UNIT_NODED] = { "noded", NULL, NULL, 0, 60000, false },
	[UNIT_STORAGED] = { "storaged", "caisson-store", "caisson-node", 0,
			    60000, false },
	[UNIT_SANDBOXD] = { "sandboxd", "caisson-node", "caisson",
			    BIT(UNIT_NODED) | BIT(UNIT_STORAGED), 120000,
			    false },
	[UNIT_API] = { "api", "caisson", NULL, BIT(UNIT_MIGRATE), 60000,
		       false },
	[UNIT_CONTROLLER] = { "controller", "caisson", NULL, BIT(UNIT_MIGRATE),
			      60000, false },
};

static void set(char **at, const char *value)
{
	free(*at);
	*at = xstrdup(value);
}

void stack_init(struct stack *s)
{
	char self[4096], host[65] = "";
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	owned_str bin = NULL;
	owned_str prefix = NULL;

	*s = (struct stack){ .uid_base = 200000 };
	set(&s->run, "/run/caisson");
	set(&s->data, "/var/lib/caisson");
	set(&s->control, "127.0.0.1:7700");
	set(&s->data_listen, "127.0.0.1:7710");
	set(&s->cgroup, "caisson");
	set(&s->engine, "auto");
	set(&s->context, "local");
	if (gethostname(host, sizeof(host) - 1) < 0 || !*host)
		snprintf(host, sizeof(host), "node");
	set(&s->node, host);
	self[n > 0 ? n : 0] = '\0';
	s->self = xstrdup(self);
	bin = xstrdup(self);
	prefix = xstrdup(dirname(dirname(bin)));
	s->libexec = xasprintf("%s/libexec/caisson", prefix);
	s->share = xasprintf("%s/share/caisson", prefix);
}

void stack_fini(struct stack *s)
{
	char **strings[] = { &s->run,	      &s->data,	  &s->control,
			     &s->data_listen, &s->cgroup, &s->engine,
			     &s->context,     &s->node,	  &s->self,
			     &s->libexec,     &s->share,  &s->cgroup_root,
			     &s->pg_bin };

	for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
		free(*strings[i]);
		*strings[i] = NULL;
	}
}

#define KEY_STR(name)                                                          \
	{                                                                      \
		"caisson", #name, INI_STR, &s->name, 0, 0                      \
	}
#define KEY_INT(name, min, max)                                                \
	{                                                                      \
		"caisson", #name, INI_INT, &s->name, min, max                  \
	}
#define STACK_KEYS                                                             \
	{                                                                      \
		KEY_STR(run), KEY_STR(data), KEY_STR(control),                 \
		    KEY_STR(data_listen), KEY_STR(cgroup), KEY_STR(engine),    \
		    KEY_STR(context), KEY_STR(node),                           \
		    KEY_INT(uid_base, 1000, 2000000000),                       \
		    KEY_INT(slots, 1, 1024), KEY_INT(waiting, 1, 64),          \
		    KEY_INT(memory_mib, 64, 1 << 24)                           \
	}

int stack_config(struct stack *s, const char *name, const char *text, size_t n,
		 struct err *e)
{
	const struct ini_key keys[] = STACK_KEYS;

	return ini_parse(name, text, n, keys, ARRAY_SIZE(keys), e);
}

int stack_config_file(struct stack *s, const char *path, struct err *e)
{
	const struct ini_key keys[] = STACK_KEYS;

	return ini_load(path, keys, ARRAY_SIZE(keys), e);
}

int listen_valid(const char *s)
{
	const char *colon = strrchr(s, ':');
	unsigned long port;
	char *end;
	size_t n;

	if (!colon || colon == s || colon[1] < '1' || colon[1] > '9')
		return 0;
	port = strtoul(colon + 1, &end, 10);
	if (*end || port > 65535)
		return 0;
	n = (size_t)(colon - s);
	if (*s == '[')
		return n > 2 && s[n - 1] == ']' &&
		       strspn(s + 1, "0123456789abcdefABCDEF:.") == n - 2;
	return strspn(s, "0123456789.") == n ||
	       (n == 9 && !memcmp(s, "localhost", 9));
}

static bool word_valid(const char *s, size_t max)
{
	size_t n = strlen(s);

	return n > 0 && n <= max && *s != '-' && *s != '.' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			 "0123456789-_.") == n;
}

/* Absolute, plain characters: it becomes part of PostgreSQL's configuration. */
static bool dir_valid(const char *s, size_t max)
{
	size_t n = strlen(s);

	return n > 1 && n <= max && *s == '/' && s[n - 1] != '/' &&
	       !strstr(s, "/../") && !strstr(s, "//") &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			 "0123456789-_./+") == n;
}

static int wrong(struct err *e, const char *option, const char *value,
		 const char *expected)
{
	return err_set(e, -EINVAL, ERR_INVALID, "--%s %s: expected %s", option,
		       value, expected);
}

int stack_check(const struct stack *s, struct err *e)
{
	if (!dir_valid(s->run, STACK_RUN_MAX))
		return wrong(e, "run", s->run,
			     "an absolute path of at most 72 plain characters "
			     "(sockets lie below it)");
	if (!dir_valid(s->data, 200))
		return wrong(e, "data", s->data,
			     "an absolute path of plain characters");
	if (!strcmp(s->run, s->data))
		return wrong(e, "data", s->data, "another folder than --run");
	if (!listen_valid(s->control))
		return wrong(e, "control", s->control, "ADDR:PORT");
	if (!listen_valid(s->data_listen))
		return wrong(e, "data-listen", s->data_listen, "ADDR:PORT");
	if (!strcmp(s->control, s->data_listen))
		return wrong(e, "data-listen", s->data_listen,
			     "another port than --control");
	if (!word_valid(s->cgroup, 64))
		return wrong(e, "cgroup", s->cgroup,
			     "one name of letters, digits, - _ .");
	if (!word_valid(s->context, 64))
		return wrong(e, "context", s->context,
			     "one name of letters, digits, - _ .");
	if (!word_valid(s->node, 63))
		return wrong(e, "node", s->node,
			     "one name of letters, digits, - _ .");
	if (strcmp(s->engine, "auto") != 0 && strcmp(s->engine, "qemu") != 0 &&
	    strcmp(s->engine, "null") != 0)
		return wrong(e, "engine", s->engine, "auto, qemu or null");
	return 0;
}

static void override(char **at, const char *value)
{
	if (value)
		set(at, value);
}

int stack_load(struct stack *s, const struct stack_opts *o, struct err *e)
{
	int r;

	if (o->config)
		r = stack_config_file(s, o->config, e);
	else if (access(STACK_CONFIG, F_OK) == 0)
		r = stack_config_file(s, STACK_CONFIG, e);
	else
		r = 0;
	if (r < 0)
		return r;
	override(&s->run, o->run);
	override(&s->data, o->data);
	override(&s->control, o->control);
	override(&s->data_listen, o->data_listen);
	override(&s->cgroup, o->cgroup);
	override(&s->engine, o->engine);
	override(&s->context, o->context);
	override(&s->node, o->node);
	if (o->uid_base)
		s->uid_base = o->uid_base;
	if (o->slots)
		s->slots = o->slots;
	if (o->waiting)
		s->waiting = o->waiting;
	if (o->memory_mib)
		s->memory_mib = o->memory_mib;
	return stack_check(s, e);
}

/* ---- command lines ---- */

static void add(struct unit_argv *a, char *word_take)
{
	CHECK(a->n + 1 < UNIT_ARGV_MAX);
	a->v[a->n++] = word_take;
	a->v[a->n] = NULL;
}

static void add2(struct unit_argv *a, const char *option, const char *value)
{
	add(a, xstrdup(option));
	add(a, xstrdup(value));
}

static void add_int(struct unit_argv *a, const char *option, int64_t value)
{
	if (value == 0)
		return;
	add(a, xstrdup(option));
	add(a, xasprintf("%lld", (long long)value));
}

static void noded_words(const struct stack *s, struct unit_argv *a)
{
	add(a, xasprintf("%s/caisson-noded", s->libexec));
	add2(a, "--run", s->run);
	add2(a, "--libexec", s->libexec);
	add2(a, "--node-user", "caisson-node");
	add2(a, "--qemu", "/usr/bin/qemu-system-x86_64");
	add_int(a, "--uid-base", s->uid_base);
	add2(a, "--cgroup", s->cgroup);
}

static void sandboxd_words(const struct stack *s, struct unit_argv *a)
{
	add(a, xasprintf("%s/caisson-sandboxd", s->libexec));
	add2(a, "--run", s->run);
	add2(a, "--name", s->node);
	add2(a, "--engine", s->engine);
	add_int(a, "--slots", s->slots);
	add_int(a, "--waiting", s->waiting);
	add_int(a, "--memory-mib", s->memory_mib);
}

static void api_words(const struct stack *s, struct unit_argv *a)
{
	owned_str db = pg_conninfo(s, "caisson_api");

	add(a, xasprintf("%s/caisson-api", s->libexec));
	add2(a, "--run", s->run);
	add2(a, "--db", db);
	add2(a, "--control", s->control);
	add2(a, "--data", s->data_listen);
}

static void controller_words(const struct stack *s, struct unit_argv *a)
{
	owned_str db = pg_conninfo(s, "caisson_controller");

	add(a, xasprintf("%s/caisson-controller", s->libexec));
	add2(a, "--run", s->run);
	add2(a, "--db", db);
}

static void migrate_words(const struct stack *s, struct unit_argv *a)
{
	owned_str db = pg_conninfo(s, "caisson-db");
	owned_str sql = xasprintf("%s/sql", s->share);
	owned_str key = xasprintf("%s/operator.key", s->data);

	add(a, xstrdup(s->self));
	add(a, xstrdup("migrate"));
	add2(a, "--db", db);
	add2(a, "--sql", sql);
	add2(a, "--operator-key", key);
	add(a, xstrdup("--create"));
}

void unit_argv(const struct stack *s, enum unit_id id, struct unit_argv *ret)
{
	*ret = (struct unit_argv){ 0 };
	switch (id) {
	case UNIT_INITDB:
		add(ret, xstrdup(s->self));
		add(ret, xstrdup("migrate"));
		add(ret, xstrdup("--initdb"));
		add2(ret, "--pg-bin", s->pg_bin ? s->pg_bin : "");
		add2(ret, "--data", s->data);
		break;
	case UNIT_POSTGRES:
		add(ret, xasprintf("%s/postgres", s->pg_bin ? s->pg_bin : ""));
		add(ret, xstrdup("-D"));
		add(ret, xasprintf("%s/postgres", s->data));
		break;
	case UNIT_MIGRATE:
		migrate_words(s, ret);
		break;
	case UNIT_NODED:
		noded_words(s, ret);
		break;
	case UNIT_STORAGED:
		add(ret, xasprintf("%s/caisson-storaged", s->libexec));
		add2(ret, "--run", s->run);
		add(ret, xstrdup("--data"));
		add(ret, xasprintf("%s/store", s->data));
		break;
	case UNIT_SANDBOXD:
		sandboxd_words(s, ret);
		break;
	case UNIT_API:
		api_words(s, ret);
		break;
	case UNIT_CONTROLLER:
		controller_words(s, ret);
		break;
	case UNIT_MAX_:
		CHECK(id < UNIT_MAX_);
	}
}

void noded_cleanup_argv(const struct stack *s, struct unit_argv *ret)
{
	*ret = (struct unit_argv){ 0 };
	noded_words(s, ret);
	add(ret, xstrdup("--cleanup"));
}

void unit_argv_fini(struct unit_argv *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->v[i]);
	*a = (struct unit_argv){ 0 };
}
