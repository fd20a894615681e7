/* SPDX-License-Identifier: Apache-2.0 */

/* Tools for commands. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/jget.h"
#include "cli/mcp.h"
#include "cli/ndjson.h"

#define KEEP_BYTES 16384u /* of each end of each stream, unless told */
#define POLL_MS	   300u
#define TRIES	   20u

char *mcp_exec(struct mcp_call *c)
{
	const char *word = "";

	json_required(&c->reader, "exec");
	return json_str(&c->reader, "exec", 64, &word) ? client_escape(word)
						       : NULL;
}

/* ---- what a stream says, its middle left out ---- */

struct ends {
	struct buf head, tail;
	uint64_t all;
	size_t keep;
};

static void ends_init(struct ends *s, size_t keep)
{
	s->keep = keep;
	buf_init(&s->head, 0);
	buf_init(&s->tail, 0);
}

static void ends_put(struct ends *s, const uint8_t *p, size_t n)
{
	size_t room = s->keep - buf_len(&s->head);
	size_t first = n < room ? n : room;

	s->all += n;
	buf_put(&s->head, p, first);
	buf_put(&s->tail, p + first, n - first);
	if (buf_len(&s->tail) > s->keep)
		buf_consume(&s->tail, buf_len(&s->tail) - s->keep);
}

/* The text, with a word where something is left out; a character that the cut
 * went through becomes U+FFFD. */
static json_t *ends_json(struct ends *s)
{
	uint64_t out = s->all - buf_len(&s->head) - buf_len(&s->tail);
	struct buf text;
	json_t *v;

	buf_init(&text, 0);
	buf_put(&text, buf_data(&s->head), buf_len(&s->head));
	if (out)
		buf_printf(&text, "\n[… %" PRIu64 " bytes left out …]\n", out);
	buf_put(&text, buf_data(&s->tail), buf_len(&s->tail));
	v = json_str_lossy((char *)buf_data(&text), buf_len(&text));
	buf_fini(&text);
	return v;
}

static void ends_fini(struct ends *s)
{
	buf_fini(&s->head);
	buf_fini(&s->tail);
}

/* ---- following a command ---- */

struct watching {
	struct ends out[4]; /* by stream */
	struct ndjson decoder;
	json_t *fact;
	uint64_t gap;
	struct err e;
	bool bad;
};

static int on_frame(void *arg, const struct ndjson_frame *f)
{
	struct watching *w = arg;

	if (f->type == NDJSON_OUTPUT && f->stream >= 1 && f->stream <= 3)
		ends_put(&w->out[f->stream], f->p, f->n);
	else if (f->type == NDJSON_GAP)
		w->gap += f->to - f->from;
	else if (f->type == NDJSON_EXIT)
		w->fact = json_deep_copy(f->fact);
	return 0;
}

static int on_bytes(void *arg, const void *p, size_t n)
{
	struct watching *w = arg;
	int r = ndjson_feed(&w->decoder, p, n, &w->e);

	w->bad = r != 0;
	return r;
}

static void watching_init(struct watching *w, uint64_t from, size_t keep)
{
	*w = (struct watching){ 0 };
	for (int i = 1; i < 4; i++)
		ends_init(&w->out[i], keep);
	ndjson_init(&w->decoder, from, on_frame, w);
}

static void watching_fini(struct watching *w)
{
	for (int i = 1; i < 4; i++)
		ends_fini(&w->out[i]);
	ndjson_fini(&w->decoder);
	json_decref(w->fact);
}

/* Read output until it is over (follow), or what there is. */
static bool watch(struct mcp_call *c, struct watching *w, const char *exec,
		  bool follow)
{
	struct fault f = { 0 };
	struct err e = { 0 };

	for (unsigned try = 0;; try++) {
		owned_str path =
		    xasprintf("/v1/execs/%s/output?from=%" PRIu64 "&follow=%d",
			      exec, w->decoder.next, follow);
		uint64_t before = w->decoder.next;
		int r;

		ndjson_restart(&w->decoder);
		r = client_stream(c->client, CLIENT_DATA, path,
				  "application/x-ndjson", on_bytes, w, &f, &e);
		if (w->fact || (r == CLIENT_OK && !follow))
			return true;
		if (w->decoder.next != before)
			try = 0;
		if (w->bad || r == CLIENT_FAULT || e.code == -ECANCELED ||
		    try == TRIES) {
			mcp_refused(c, w->bad ? -EBADMSG : r, &f,
				    w->bad ? &w->e : &e);
			return false;
		}
		usleep(1000 * POLL_MS); /* a lost line: it goes on there */
	}
}

static json_t *outcome(struct watching *w)
{
	static const char *const names[] = { NULL, "stdout", "stderr", "pty" };
	json_t *v = json_object();

	for (int i = 1; i < 4; i++) {
		if (w->out[i].all || i == 1)
			json_set_take(v, names[i], ends_json(&w->out[i]));
	}
	if (w->gap)
		json_set_take(v, "lost_bytes",
			      json_integer((json_int_t)w->gap));
	json_set_take(v, "next", json_integer((json_int_t)w->decoder.next));
	json_set_take(v, "exit", w->fact ? json_incref(w->fact) : json_null());
	return v;
}

/* ---- starting ---- */

/* The exec's body of the arguments. */
static json_t *spec(struct mcp_call *c, int64_t timeout_def_s)
{
	json_t *body = json_object(), *v;
	const char *s, *shell = NULL;
	int64_t timeout_s = timeout_def_s;

	if (json_str(&c->reader, "command", 131072, &shell))
		json_set_take(body, "shell", json_string(shell));
	if (json_strlist(&c->reader, "argv", 1024, 131072, &v)) {
		if (shell)
			json_field_error(&c->reader, "argv",
					 "expected `command` or `argv`, not "
					 "both");
		json_object_set(body, "cmd", v);
	} else if (!shell) {
		json_required(&c->reader, "command");
	}
	if (json_str(&c->reader, "cwd", 4096, &s))
		json_set_take(body, "cwd", json_string(s));
	if (json_str(&c->reader, "user", 64, &s))
		json_set_take(body, "user", json_string(s));
	if (json_strmap(&c->reader, "env", 256, 256, 32768, &v))
		json_object_set(body, "env", v);
	json_int(&c->reader, "timeout_s", 1, 31536000, &timeout_s);
	if (timeout_s)
		json_set_take(body, "timeout_s", json_integer(timeout_s));
	json_set_take(body, "start", json_string("now"));
	return body;
}

/* The new exec's record, or NULL. */
static json_t *start(struct mcp_call *c, const char *sb, const json_t *body)
{
	owned_str path = xasprintf("/v1/sandboxes/%s/execs", sb);
	json_t *record = NULL;

	mcp_ask(c, CLIENT_CONTROL, "POST", path, body, &record);
	return record;
}

static void end_it(struct mcp_call *c, const char *exec)
{
	owned_str path = xasprintf("/v1/execs/%s/signal", exec);
	owned_json body = json_pack("{s:s}", "name", "KILL");
	struct fault f;
	struct err e = { 0 };

	client_call(c->client, CLIENT_CONTROL, "POST", path, body, 10, NULL,
		    NULL, &f, &e);
}

static void run_command(struct mcp_call *c)
{
	owned_str sb = mcp_sandbox(c);
	owned_json body = spec(c, 60);
	owned_json record = NULL;
	int64_t keep = INT64_C(2) * KEEP_BYTES;
	struct watching w;
	const char *id;

	json_int(&c->reader, "max_output_bytes", 1024, MCP_TEXT_MAX, &keep);
	if (!mcp_args_end(c))
		return;
	/* what is read all the time is never waited for */
	json_set_take(body, "overflow", json_string("block"));
	record = start(c, sb, body);
	id = jget_str(record, "id", NULL);
	if (!id)
		return;
	watching_init(&w, 0, (size_t)keep / 2);
	if (watch(c, &w, id, true)) {
		const char *reason = jget_str(w.fact, "reason", "unknown");

		mcp_json_take(c, outcome(&w));
		/* a command's own code is a result; a limit is a failure */
		c->failed = strcmp(reason, "exited") != 0;
		if (!strcmp(reason, "timeout"))
			mcp_fail(c, "the command ran into its timeout\nremedy: "
				    "a larger timeout_s, or exec_start for "
				    "what takes long");
	} else {
		end_it(c, id); /* cancelled, or nobody sees it any more */
	}
	watching_fini(&w);
}

static void exec_start(struct mcp_call *c)
{
	owned_str sb = mcp_sandbox(c);
	owned_json body = spec(c, 0);
	owned_json record = NULL;
	bool input = false;

	json_bool(&c->reader, "stdin", &input);
	if (!mcp_args_end(c))
		return;
	if (input)
		json_set_take(body, "stdin", json_true());
	json_set_take(body, "overflow", json_string("roll"));
	record = start(c, sb, body);
	if (record)
		mcp_json_take(c,
			      json_pack("{s:O?,s:O?}", "exec",
					json_object_get(record, "id"), "state",
					json_object_get(record, "state")));
}

static void exec_output(struct mcp_call *c)
{
	owned_str exec = mcp_exec(c);
	int64_t from = 0, keep = INT64_C(2) * KEEP_BYTES, wait_s = 0;
	uint64_t until;
	struct watching w;

	json_int(&c->reader, "from", 0, INT64_MAX, &from);
	json_int(&c->reader, "max_output_bytes", 1024, MCP_TEXT_MAX, &keep);
	json_int(&c->reader, "wait_s", 0, 60, &wait_s);
	if (!mcp_args_end(c))
		return;
	watching_init(&w, (uint64_t)from, (size_t)keep / 2);
	until = now_mono_us() + (uint64_t)wait_s * 1000000;
	while (watch(c, &w, exec, false)) {
		if (w.fact || now_mono_us() >= until ||
		    w.decoder.next > (uint64_t)from) {
			mcp_json_take(c, outcome(&w));
			break;
		}
		usleep(1000 * POLL_MS);
	}
	watching_fini(&w);
}

static void exec_input(struct mcp_call *c)
{
	owned_str exec = mcp_exec(c);
	owned_str path = NULL;
	owned_json record = NULL;
	const char *text = "";
	bool end = false;
	json_t *answer = NULL;

	json_str(&c->reader, "text", 1u << 20, &text);
	json_bool(&c->reader, "end", &end);
	if (!mcp_args_end(c))
		return;
	path = xasprintf("/v1/execs/%s", exec);
	if (!mcp_ask(c, CLIENT_CONTROL, "GET", path, NULL, &record))
		return;
	free(path);
	path = xasprintf("/v1/execs/%s/stdin?offset=%lld&end=%d", exec,
			 (long long)jget_int(record, "stdin_offset", 0), end);
	mcp_input(c, path, text, &answer);
	if (answer)
		mcp_json_take(c, answer);
}

static void exec_signal(struct mcp_call *c)
{
	owned_str exec = mcp_exec(c);
	owned_str path = NULL;
	owned_json body = NULL;
	const char *name = "TERM";

	json_str(&c->reader, "signal", 16, &name);
	if (!mcp_args_end(c))
		return;
	path = xasprintf("/v1/execs/%s/signal", exec);
	body = json_pack("{s:s}", "name", name);
	if (mcp_ask(c, CLIENT_CONTROL, "POST", path, body, NULL))
		mcp_text(c, "sent", 4);
}

static void list_execs(struct mcp_call *c)
{
	owned_str sb = mcp_sandbox(c);
	owned_str path = NULL;
	json_t *answer = NULL;

	if (!mcp_args_end(c))
		return;
	path = xasprintf("/v1/sandboxes/%s/execs", sb);
	if (mcp_ask(c, CLIENT_CONTROL, "GET", path, NULL, &answer))
		mcp_json_take(c, answer);
}

#define SANDBOX                                                                \
	"\"sandbox\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":128,"  \
	"\"description\":\"id or name of a sandbox\"}"
#define EXEC                                                                   \
	"\"exec\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":64,"      \
	"\"description\":\"id that exec_start gave\"}"
#define COMMAND                                                                \
	"\"command\":{\"type\":\"string\",\"description\":\"for the shell\"}," \
	"\"argv\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},"        \
	"\"minItems\":1,\"description\":\"instead of command: no shell\"},"    \
	"\"cwd\":{\"type\":\"string\"},\"user\":{\"type\":\"string\"},"        \
	"\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":"     \
	"\"string\"}},\"timeout_s\":{\"type\":\"integer\",\"minimum\":1}"
#define OUTPUT                                                                 \
	"\"max_output_bytes\":{\"type\":\"integer\",\"minimum\":1024,"         \
	"\"maximum\":262144,\"default\":32768,\"description\":\"of each "      \
	"stream; more loses its middle\"}"

const struct mcp_tool mcp_exec_tools[] = {
	{ "run_command",
	  "Run a command in a sandbox to its end (60 s unless told otherwise) "
	  "and return its output and exit. For what takes long: exec_start.",
	  "{" SANDBOX "," COMMAND "," OUTPUT "}", "[\"sandbox\"]", false,
	  run_command },
	{ "exec_start",
	  "Start a command in a sandbox and let it run; its output is kept for "
	  "exec_output.",
	  "{" SANDBOX "," COMMAND ",\"stdin\":{\"type\":\"boolean\","
	  "\"description\":\"it reads what exec_input sends\"}}",
	  "[\"sandbox\"]", false, exec_start },
	{ "exec_output",
	  "Output of a command from byte `from` on, and how it ended; `next` "
	  "is "
	  "the `from` of the next call.",
	  "{" EXEC ",\"from\":{\"type\":\"integer\",\"minimum\":0},\"wait_s\":{"
	  "\"type\":\"integer\",\"minimum\":0,\"maximum\":60,\"description\":"
	  "\"for something new\"}," OUTPUT "}",
	  "[\"exec\"]", true, exec_output },
	{ "exec_input", "Send text to a command's standard input.",
	  "{" EXEC ",\"text\":{\"type\":\"string\"},\"end\":{\"type\":"
	  "\"boolean\",\"description\":\"it ends there\"}}",
	  "[\"exec\"]", false, exec_input },
	{ "exec_signal", "Send a signal to a command and all it started.",
	  "{" EXEC ",\"signal\":{\"type\":\"string\",\"default\":\"TERM\"}}",
	  "[\"exec\"]", false, exec_signal },
	{ "list_execs", "Commands of a sandbox: state and end.",
	  "{" SANDBOX "}", "[\"sandbox\"]", true, list_execs },
	{ 0 },
};
