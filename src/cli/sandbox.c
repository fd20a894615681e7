/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox.h"

#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/jget.h"
#include "cli/tty.h"
#include "net/json.h"

#define PAGES_MAX                                                              \
	50 /* of 200: as many sandboxes as a prefix is looked up in            \
	    */

#define CANDIDATES_MAX 10u

bool sandbox_id_valid(const char *word)
{
	return id_valid(word, "sb", 20);
}

json_t *pairs_json(const struct arg_list *l, const char *option, struct err *e)
{
	json_t *o = json_object();

	for (size_t i = 0; i < l->n; i++) {
		const char *eq = strchr(l->v[i], '=');
		json_t *value;

		if (!eq || eq == l->v[i]) {
			err_set(e, -EINVAL, ERR_INVALID,
				"--%s %s: expected KEY=VALUE", option, l->v[i]);
			json_decref(o);
			return NULL;
		}
		value = json_string(eq + 1);
		if (!value) {
			err_set(e, -EINVAL, ERR_INVALID,
				"--%s: the value is not UTF-8", option);
			json_decref(o);
			return NULL;
		}
		owned_str key = xstrndup(l->v[i], (size_t)(eq - l->v[i]));

		json_set_take(o, key, value);
	}
	return o;
}

json_t *create_body(const struct create_opts *o, struct err *e)
{
	owned_json body = json_object();
	json_t *labels = pairs_json(&o->labels, "label", e);
	json_t *resources = json_object(), *lifetime = json_object();

	if (labels && o->labels.n)
		json_set_take(body, "labels", labels);
	else
		json_decref(labels);
	json_set_take(body, "template",
		      json_string(o->template_ref ? o->template_ref : "base"));
	if (o->name)
		json_set_take(body, "name", json_string(o->name));
	if (o->vcpus)
		json_set_take(resources, "vcpus", json_integer(o->vcpus));
	if (o->memory_mib)
		json_set_take(resources, "memory_mib",
			      json_integer(o->memory_mib));
	if (o->disk_mib)
		json_set_take(resources, "disk_mib", json_integer(o->disk_mib));
	if (o->ttl_s)
		json_set_take(lifetime, "ttl_s", json_integer(o->ttl_s));
	if (json_object_size(resources))
		json_set_take(body, "resources", resources);
	else
		json_decref(resources);
	if (json_object_size(lifetime))
		json_set_take(body, "lifetime", lifetime);
	else
		json_decref(lifetime);
	return labels ? TAKE(body) : NULL;
}

/* Colours and line editing of the guest are those of the terminal here. */
static void add_terminal(json_t *body, json_t *env)
{
	static const char *const names[] = { "TERM", "COLORTERM", "NO_COLOR" };
	unsigned cols = 80, rows = 24;
	json_t *pty = json_object();

	tty_size(STDOUT_FILENO, &cols, &rows);
	json_set_take(pty, "cols", json_integer(cols));
	json_set_take(pty, "rows", json_integer(rows));
	json_set_take(body, "pty", pty);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *v = getenv(names[i]);
		json_t *value = v ? json_string(v) : NULL;

		if (value && !json_object_get(env, names[i]))
			json_set_take(env, names[i], value);
		else
			json_decref(value);
	}
}

static json_t *words_json(char *const *cmd, struct err *e)
{
	json_t *words = json_array();

	for (; *cmd; cmd++) {
		json_t *w = json_string(*cmd);

		if (!w) {
			err_set(e, -EINVAL, ERR_INVALID,
				"a word of the command is not UTF-8; hand it "
				"over in a file");
			json_decref(words);
			return NULL;
		}
		json_array_append_new(words, w);
	}
	return words;
}

static int overflow_check(const struct exec_opts *o, struct err *e)
{
	if (!o->overflow || !strcmp(o->overflow, "block") ||
	    !strcmp(o->overflow, "roll"))
		return 0;
	return err_set(e, -EINVAL, ERR_INVALID,
		       "--overflow %.40s: expected block or roll", o->overflow);
}

json_t *exec_body(const struct exec_opts *o, char *const *cmd, bool detached,
		  struct err *e)
{
	owned_json body = json_object();
	json_t *words, *env;

	if (overflow_check(o, e) < 0)
		return NULL;
	words = words_json(cmd, e);
	if (!words)
		return NULL;
	json_set_take(body, "cmd", words);
	env = pairs_json(&o->env, "env", e);
	if (!env)
		return NULL;
	if (o->tty)
		add_terminal(body, env);
	if (json_object_size(env))
		json_set_take(body, "env", env);
	else
		json_decref(env);
	if (o->user)
		json_set_take(body, "user", json_string(o->user));
	if (o->cwd)
		json_set_take(body, "cwd", json_string(o->cwd));
	if (o->timeout_s)
		json_set_take(body, "timeout_s", json_integer(o->timeout_s));
	if (o->keep_bytes)
		json_set_take(body, "keep_bytes", json_integer(o->keep_bytes));
	if (o->interactive)
		json_set_take(body, "stdin", json_true());
	json_set_take(body, "start", json_string(detached ? "now" : "attach"));
	/* nobody may ever read a detached command's output: let it roll */
	json_set_take(body, "overflow",
		      json_string(o->overflow ? o->overflow
				  : detached  ? "roll"
					      : "block"));
	return TAKE(body);
}

static bool lives(const json_t *sandbox)
{
	const char *state = jget_str(sandbox, "state", "");

	return strcmp(state, "ended") != 0 && strcmp(state, "failed") != 0 &&
	       strcmp(state, "lost") != 0;
}

int sandbox_pick(const json_t *items, const char *word, const char **ret_id,
		 const char *both[2])
{
	const char *found = NULL;
	size_t n = strlen(word), i;
	json_t *s;

	both[0] = both[1] = NULL;
	json_array_foreach(items, i, s)
	{
		if (!strcmp(jget_str(s, "id", ""), word)) {
			*ret_id = jget_str(s, "id", "");
			return PICK_OK;
		}
	}
	json_array_foreach(items, i, s)
	{
		if (lives(s) && !strcmp(jget_str(s, "name", ""), word)) {
			*ret_id = jget_str(s, "id", "");
			return PICK_OK;
		}
	}
	if (n < 3)
		return PICK_NONE;
	json_array_foreach(items, i, s)
	{
		const char *id = jget_str(s, "id", "");

		if (strncmp(id, word, n) != 0)
			continue;
		if (found) {
			both[0] = found;
			both[1] = id;
			return PICK_MANY;
		}
		found = id;
	}
	if (!found)
		return PICK_NONE;
	*ret_id = found;
	return PICK_OK;
}

/* All pages of the list in one array. NULL after a message. */
static json_t *all_sandboxes(const struct cli *c, struct client *cl,
			     int *ret_exit)
{
	owned_json all = json_array();
	owned_str after = NULL;

	for (int page = 0; page < PAGES_MAX; page++) {
		owned_str path =
		    xasprintf("/v1/sandboxes?limit=200%s%s",
			      after ? "&after=" : "", after ? after : "");
		owned_json body = NULL;
		const char *next;

		if (cli_call(c, cl, "GET", path, NULL, &body, ret_exit) < 0)
			return NULL;
		json_array_extend(all, json_object_get(body, "items"));
		next = jget_str(body, "next", NULL);
		if (!next)
			break;
		free(after);
		after = client_escape(next);
	}
	return TAKE(all);
}

/* Each sandbox whose id begins so, on stderr. */
static int say_candidates(const json_t *all, const char *word)
{
	size_t n = strlen(word), said = 0, i;
	json_t *s;

	fprintf(stderr, "caisson: \"%s\" is more than one sandbox:\n", word);
	json_array_foreach(all, i, s)
	{
		char name[80];

		if (strncmp(jget_str(s, "id", ""), word, n) != 0)
			continue;
		if (said++ == CANDIDATES_MAX) {
			fprintf(stderr, "  …\n");
			break;
		}
		jget_shown(s, "name", "-", name, sizeof(name));
		fprintf(stderr, "  %-22.22s  %-9.9s  %s\n",
			jget_str(s, "id", "?"), jget_str(s, "state", "?"),
			name);
	}
	return cli_usage("say more of the id, or its name");
}

char *sandbox_resolve(const struct cli *c, struct client *cl, const char *word,
		      int *ret_exit)
{
	owned_json body = NULL;
	owned_json all = NULL;
	owned_str name = NULL;
	owned_str path = NULL;
	const char *id, *both[2];
	struct fault f;
	struct err e = { 0 };
	int r;

	if (sandbox_id_valid(word))
		return xstrdup(word);
	name = client_escape(word);
	path = xasprintf("/v1/sandboxes/@%s", name);
	r = client_call(cl, CLIENT_CONTROL, "GET", path, NULL, 20, &body, NULL,
			&f, &e);
	if (r < 0) {
		*ret_exit = cli_fail(c, &e);
		return NULL;
	}
	/* a name may be a prefix of an id as well: the name of one alive wins
	 */
	if (r == CLIENT_OK && lives(body) && jget_str(body, "id", NULL))
		return xstrdup(jget_str(body, "id", NULL));
	if (r == CLIENT_FAULT && f.status != 404 && f.status != 400) {
		*ret_exit = cli_fault(c, &f);
		return NULL;
	}
	all = all_sandboxes(c, cl, ret_exit);
	if (!all)
		return NULL;
	r = sandbox_pick(all, word, &id, both);
	if (r == PICK_OK)
		return xstrdup(id);
	if (r == PICK_MANY)
		*ret_exit = say_candidates(all, word);
	else if (body && jget_str(body, "id", NULL))
		return xstrdup(jget_str(body, "id", NULL)); /* ended, by name */
	else {
		cli_usage("no sandbox \"%s\"; `caisson ls` lists them", word);
		*ret_exit = CLI_NOT_FOUND;
	}
	return NULL;
}
