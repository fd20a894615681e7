/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/spec.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "net/json.h"

#define ARG_MAX_BYTES 131072u /* the kernel's MAX_ARG_STRLEN */
#define ARGS_MAX      4096u
#define ENV_MAX	      1024u

void spec_fini(struct exec_spec *s)
{
	for (size_t i = 0; i < s->argc; i++)
		free(s->argv[i]);
	for (size_t i = 0; i < s->n_env; i++)
		free(s->env[i]);
	free(s->argv);
	free(s->env);
	free(s->cwd);
	free(s->user);
	*s = (struct exec_spec){ 0 };
}

/* A command is either a list of words or one text for the shell. */
static void read_command(struct json_reader *r, struct exec_spec *s)
{
	json_t *cmd = NULL;
	const char *shell = NULL;
	bool has_cmd = json_strlist(r, "cmd", ARGS_MAX, ARG_MAX_BYTES, &cmd);
	bool has_shell = json_str(r, "shell", ARG_MAX_BYTES, &shell);

	if (r->r < 0)
		return;
	if (has_cmd == has_shell) {
		json_field_error(r, "cmd", "give either cmd or shell");
		return;
	}
	if (has_shell) {
		s->argc = 3;
		s->argv = xnew_n(char *, 4);
		s->argv[0] = xstrdup("/bin/sh");
		s->argv[1] = xstrdup("-c");
		s->argv[2] = xstrdup(shell);
		return;
	}
	if (json_array_size(cmd) == 0 ||
	    json_string_length(json_array_get(cmd, 0)) == 0) {
		json_field_error(r, "cmd", "expected a program name first");
		return;
	}
	s->argc = json_array_size(cmd);
	s->argv = xnew_n(char *, s->argc + 1);
	for (size_t i = 0; i < s->argc; i++) {
		const json_t *v = json_array_get(cmd, i);

		s->argv[i] = xstrdup(json_string_value(v));
		if (strlen(s->argv[i]) != json_string_length(v))
			json_field_error(r, "cmd",
					 "expected words without NUL");
	}
}

static void read_env(struct json_reader *r, struct exec_spec *s)
{
	json_t *env = NULL, *v;
	const char *key;

	if (!json_strmap(r, "env", ENV_MAX, 256, ARG_MAX_BYTES - 512, &env))
		return;
	s->env = xnew_n(char *, json_object_size(env) + 1);
	json_object_foreach(env, key, v)
	{
		const char *value = json_string_value(v);

		if (!*key || strchr(key, '=') ||
		    strlen(value) != json_string_length(v)) {
			json_field_error(r, "env",
					 "expected names without '=' and "
					 "values without NUL");
			return;
		}
		s->env[s->n_env++] = xasprintf("%s=%s", key, value);
	}
}

static char *read_text(struct json_reader *r, const char *name, size_t max)
{
	const char *v = NULL;

	if (!json_str(r, name, max, &v))
		return NULL;
	if (!*v) {
		json_field_error(r, name, "expected a text that is not empty");
		return NULL;
	}
	return xstrdup(v);
}

static void read_size(struct json_reader *r, struct exec_size *ret)
{
	int64_t cols = 0, rows = 0;

	json_required(r, "cols");
	json_required(r, "rows");
	(void)json_int(r, "cols", 1, UINT16_MAX, &cols);
	(void)json_int(r, "rows", 1, UINT16_MAX, &rows);
	ret->cols = (uint16_t)cols;
	ret->rows = (uint16_t)rows;
}

static void read_pty(struct json_reader *r, struct exec_spec *s)
{
	struct json_reader pty;
	json_t *v = NULL;

	if (!json_obj(r, "pty", &v))
		return;
	json_reader_init(&pty, v, "pty", r->e);
	read_size(&pty, &s->size);
	if (json_reader_end(&pty) < 0) {
		r->r = pty.r;
		snprintf(r->field, sizeof(r->field), "%s", pty.field);
		return;
	}
	s->has_pty = true;
	s->stdin_open = true;
}

static void read_rest(struct json_reader *r, struct exec_spec *s)
{
	static const char *const starts[] = { "attach", "now", NULL };
	static const char *const overflows[] = { "roll", "block", NULL };
	const char *id = NULL;
	size_t start = 0, overflow = 0;
	int64_t v = 0;
	bool is_null = false;

	if (json_str(r, "id", EXEC_ID_MAX - 1, &id)) {
		if (strncmp(id, "ex_", 3) != 0 ||
		    !id_valid(id, "ex_", strlen(id) - 3) || strlen(id) < 8)
			json_field_error(r, "id",
					 "expected ex_ and letters or digits");
		else
			snprintf(s->id, sizeof(s->id), "%s", id);
	} else {
		json_required(r, "id");
	}
	s->cwd = read_text(r, "cwd", 4095);
	if (s->cwd && s->cwd[0] != '/')
		json_field_error(r, "cwd", "expected an absolute path");
	s->user = read_text(r, "user", 63);
	json_bool(r, "stdin", &s->stdin_open);
	if (json_int_or_null(r, "timeout_s", 1, EXEC_TIMEOUT_MAX_S, &v,
			     &is_null) &&
	    !is_null)
		s->timeout_ms = (uint32_t)v * 1000;
	json_word(r, "start", starts, &start);
	s->start_now = start == 1;
	read_pty(r, s);
	s->keep_bytes = EXEC_KEEP_DEFAULT;
	if (json_int(r, "keep_bytes", EXEC_KEEP_MIN, EXEC_KEEP_MAX, &v))
		s->keep_bytes = (uint32_t)v;
	json_word(r, "overflow", overflows, &overflow);
	s->block = overflow == 1;
}

static void classify(const struct json_reader *r, const struct err *e,
		     struct spec_error *se)
{
	const char *code = "invalid_field";

	if (strstr(e->msg, ": unknown"))
		code = "unknown_field";
	snprintf(se->code, sizeof(se->code), "%s", code);
	snprintf(se->field, sizeof(se->field), "%.95s", r->field);
}

int spec_read(const void *body, size_t n, struct exec_spec *ret,
	      struct spec_error *se, struct err *e)
{
	owned_json root = NULL;
	struct exec_spec s = { 0 };
	struct json_reader r;
	int res;

	*ret = s;
	snprintf(se->code, sizeof(se->code), "invalid_field");
	se->field[0] = '\0';
	res = json_parse(body, n, &root, e);
	if (res < 0)
		return res;
	json_reader_init(&r, root, "", e);
	read_command(&r, &s);
	read_env(&r, &s);
	read_rest(&r, &s);
	res = json_reader_end(&r);
	if (res < 0) {
		classify(&r, e, se);
		spec_fini(&s);
		return res;
	}
	*ret = s;
	return 0;
}

int spec_read_size(const void *body, size_t n, struct exec_size *ret,
		   struct spec_error *se, struct err *e)
{
	owned_json root = NULL;
	struct json_reader r;
	int res;

	*se = (struct spec_error){ .code = "invalid_field" };
	res = json_parse(body, n, &root, e);
	if (res < 0)
		return res;
	json_reader_init(&r, root, "", e);
	read_size(&r, ret);
	res = json_reader_end(&r);
	if (res < 0)
		classify(&r, e, se);
	return res;
}

int spec_read_kill(const void *body, size_t n, struct exec_kill *ret,
		   struct spec_error *se, struct err *e)
{
	static const char *const scopes[] = { "tree", "leader", NULL };
	owned_json root = NULL;
	struct json_reader r;
	const char *name = NULL;
	size_t scope = 0;
	int res;

	*se = (struct spec_error){ .code = "invalid_field" };
	res = json_parse(body, n, &root, e);
	if (res < 0)
		return res;
	json_reader_init(&r, root, "", e);
	json_required(&r, "name");
	if (json_str(&r, "name", 32, &name)) {
		ret->signo = signal_number(name);
		if (ret->signo < 0)
			json_field_error(&r, "name",
					 "expected a signal such as TERM");
	}
	json_word(&r, "scope", scopes, &scope);
	ret->tree = scope == 0;
	res = json_reader_end(&r);
	if (res < 0)
		classify(&r, e, se);
	return res;
}

int signal_number(const char *name)
{
	if (strncmp(name, "SIG", 3) == 0)
		name += 3;
	for (int i = 1; i < 32; i++) {
		const char *abbrev = sigabbrev_np(i);

		if (abbrev && strcmp(abbrev, name) == 0)
			return i;
	}
	return -1;
}

void signal_name(int signo, char *ret, size_t n)
{
	const char *abbrev = sigabbrev_np(signo);

	if (abbrev)
		snprintf(ret, n, "SIG%s", abbrev);
	else
		snprintf(ret, n, "SIGRTMIN+%d", signo - SIGRTMIN);
}
