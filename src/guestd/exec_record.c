/* SPDX-License-Identifier: Apache-2.0 */

/* What is told of an exec: its record and its exit fact. */

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "guestd/exec.h"
#include "guestd/exec_child.h"
#include "guestd/exec_stream.h"

json_t *exec_fact_json(const struct exec *x)
{
	static const char *const reasons[] = {
		[EXEC_EXITED] = "exited",     [EXEC_SIGNALED] = "signaled",
		[EXEC_TIMEOUT] = "timeout",   [EXEC_OOM] = "oom",
		[EXEC_GUEST_ENDED] = "ended", [EXEC_UNKNOWN] = "unknown",
	};
	const struct exec_fact *f = &x->fact;
	json_t *v = json_object(), *bytes = json_object(), *left;
	char name[16];

	json_set_take(v, "reason", json_string(reasons[f->reason]));
	json_set_take(v, "code",
		      f->code < 0 ? json_null() : json_integer(f->code));
	if (f->signo > 0)
		signal_name(f->signo, name, sizeof(name));
	json_set_take(v, "signal",
		      f->signo > 0 ? json_string(name) : json_null());
	json_set_take(v, "wall_ms", json_integer((json_int_t)f->wall_ms));
	json_set_take(v, "cpu_ms", json_integer((json_int_t)f->cpu_ms));
	json_set_take(v, "max_rss_bytes",
		      json_integer((json_int_t)f->max_rss_bytes));
	json_set_take(bytes, "stdout",
		      json_integer((json_int_t)x->log.n_kind[0]));
	json_set_take(bytes, "stderr",
		      json_integer((json_int_t)x->log.n_kind[1]));
	json_set_take(bytes, "pty", json_integer((json_int_t)x->log.n_kind[2]));
	json_set_take(v, "bytes", bytes);
	json_set_take(v, "dropped_bytes",
		      json_integer((json_int_t)x->log.dropped_bytes));
	if (f->n_left == 0)
		return v;
	left = json_array();
	for (size_t i = 0; i < f->n_left; i++)
		(void)json_array_append_new(left, json_integer(f->left[i]));
	json_set_take(v, "left_behind", left);
	return v;
}

static void set_time(json_t *v, const char *name, int64_t at_ms)
{
	char when[25];

	text_rfc3339(at_ms, when);
	json_set_take(v, name, at_ms > 0 ? json_string(when) : json_null());
}

static json_t *text_or_null(const char *text)
{
	return text && *text ? json_str_lossy(text, strlen(text)) : json_null();
}

static json_t *pty_json(const struct exec *x)
{
	json_t *v;

	if (!x->spec.has_pty)
		return json_null();
	v = json_object();
	json_set_take(v, "cols", json_integer(x->spec.size.cols));
	json_set_take(v, "rows", json_integer(x->spec.size.rows));
	return v;
}

static json_t *attached_json(const struct exec *x)
{
	json_t *v = json_object();

	json_set_take(v, "writer", json_boolean(x->writer != NULL));
	json_set_take(v, "watchers",
		      json_integer((json_int_t)exec_n_watchers(x)));
	return v;
}

static void set_command(json_t *v, const struct exec *x)
{
	const struct exec_spec *s = &x->spec;
	json_t *cmd = json_array();

	for (size_t i = 0; i < s->argc; i++)
		(void)json_array_append_new(
		    cmd, json_str_lossy(s->argv[i], strlen(s->argv[i])));
	json_set_take(v, "cmd", cmd);
	json_set_take(v, "user",
		      text_or_null(s->user ? s->user : x->g->default_user));
	json_set_take(v, "cwd", text_or_null(s->cwd));
	json_set_take(v, "stdin", json_boolean(s->stdin_open));
	json_set_take(v, "pty", pty_json(x));
	json_set_take(v, "overflow", json_string(s->block ? "block" : "roll"));
}

json_t *exec_record(const struct exec *x)
{
	static const char *const states[] = {
		[EXEC_ST_CREATED] = "created",	[EXEC_ST_EXPIRED] = "expired",
		[EXEC_ST_STARTING] = "created", [EXEC_ST_RUNNING] = "running",
		[EXEC_ST_DRAINING] = "running", [EXEC_ST_ENDED] = "exited",
	};
	json_t *v = json_object(), *output = json_object();
	bool ran = x->state >= EXEC_ST_RUNNING;

	json_set_take(v, "id", json_string(x->id));
	json_set_take(v, "state", json_string(states[x->state]));
	set_command(v, x);
	json_set_take(v, "pid", ran ? json_integer(x->pid) : json_null());
	set_time(v, "created_at", x->created_at_ms);
	set_time(v, "started_at", ran ? x->started_at_ms : 0);
	set_time(v, "ended_at", x->ended_at_ms);
	json_set_take(output, "begin", json_integer((json_int_t)x->log.begin));
	json_set_take(output, "end", json_integer((json_int_t)x->log.end));
	json_set_take(v, "output", output);
	json_set_take(v, "stdin_offset", json_integer((json_int_t)x->in.taken));
	json_set_take(v, "attached", attached_json(x));
	json_set_take(v, "exit",
		      x->state == EXEC_ST_ENDED ? exec_fact_json(x)
						: json_null());
	/* why the attach that should have started it was refused */
	if (x->refused)
		json_set_take(v, "not_started", json_string(x->refused->msg));
	return v;
}
