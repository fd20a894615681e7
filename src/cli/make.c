/* SPDX-License-Identifier: Apache-2.0 */

/* Making and ending a sandbox, waiting included (cli/sandbox.h). */

#include "cli/sandbox.h"

#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/jget.h"
#include "net/json.h"

#define WAIT_S	   60u
#define PATIENCE_S (WAIT_S + 15u)
#define WAITS_MAX  10 /* as many waits as one operation is followed */

struct making {
	int signal_fd, signo;
};

static int on_signal(void *arg)
{
	struct making *m = arg;
	struct signalfd_siginfo si;

	if (read(m->signal_fd, &si, sizeof(si)) != sizeof(si))
		return 0;
	m->signo = (int)si.ssi_signo;
	return 1;
}

/* The sandbox of an interrupted create: the same key and body answer with it,
 * also while it is still being made. */
static void abandon(struct client *cl, const json_t *body, const char *key)
{
	owned_json answer = NULL;
	owned_str path = NULL;
	struct fault f;
	struct err e = { 0 };
	const char *id;

	client_key(cl, key);
	if (client_call(cl, CLIENT_CONTROL, "POST", "/v1/sandboxes", body, 10,
			&answer, NULL, &f, &e) != CLIENT_OK)
		return; /* it was refused, or never arrived */
	id = jget_str(answer, "sandbox.id", "");
	if (!sandbox_id_valid(id))
		return;
	path = xasprintf("/v1/sandboxes/%s", id);
	client_call(cl, CLIENT_CONTROL, "DELETE", path, NULL, 10, NULL, NULL,
		    &f, &e);
}

/* Why it does not run, as the exit code after a message. */
static int not_running(const struct cli *c, const json_t *answer)
{
	const json_t *error = jget(answer, "operation.error");
	owned_json wrapped = json_object();
	owned_str text = NULL;
	struct fault f;

	if (json_is_object(error)) {
		json_set_take(wrapped, "error", json_deep_copy(error));
		text = json_text(wrapped);
		fault_parse(0, text, strlen(text), &f);
	} else {
		fault_parse(0, "", 0, &f);
		snprintf(f.code, sizeof(f.code), "wrong_state");
		snprintf(
		    f.message, sizeof(f.message),
		    "the sandbox is %.40s, not running",
		    jget_str(answer, "sandbox.state", "in no known state"));
	}
	return cli_fault(c, &f);
}

static bool is_over(const json_t *answer)
{
	const char *state = jget_str(answer, "operation.state", "succeeded");

	return strcmp(state, "pending") != 0 && strcmp(state, "running") != 0;
}

/* Follow the operation of *answer until it is over. Returns as client_call. */
static int wait_over(struct client *cl, json_t **answer, struct fault *f,
		     struct err *e)
{
	for (int i = 0; !is_over(*answer); i++) {
		const char *op = jget_str(*answer, "operation.id", "");
		owned_str path =
		    xasprintf("/v1/operations/%s?wait_s=%u", op, WAIT_S);
		json_t *next = NULL;
		int r;

		if (i == WAITS_MAX)
			return err_set(e, -ETIMEDOUT, ERR_TIMEOUT,
				       "operation %s is still under way; "
				       "`caisson op wait %s` goes on waiting",
				       op, op);
		r = client_call(cl, CLIENT_CONTROL, "GET", path, NULL,
				PATIENCE_S, &next, NULL, f, e);
		if (r != CLIENT_OK)
			return r;
		json_decref(*answer);
		*answer = next;
	}
	return CLIENT_OK;
}

json_t *sandbox_make(const struct cli *c, struct client *cl, const json_t *body,
		     int signal_fd, int *ret_exit)
{
	struct making m = { .signal_fd = signal_fd };
	owned_json answer = NULL;
	struct fault f;
	struct err e = { 0 };
	char key[33];
	int r;

	random_id(key, 32);
	client_key(cl, key);
	if (signal_fd >= 0)
		client_watch(cl, signal_fd, on_signal, &m);
	r = client_call(cl, CLIENT_CONTROL, "POST", "/v1/sandboxes?wait_s=60",
			body, PATIENCE_S, &answer, NULL, &f, &e);
	if (r == CLIENT_OK)
		r = wait_over(cl, &answer, &f, &e);
	client_watch(cl, -1, NULL, NULL);
	if (m.signo || r < 0)
		abandon(cl, body, key);
	if (m.signo)
		*ret_exit = 128 + m.signo;
	else if (r < 0)
		*ret_exit = cli_fail(c, &e);
	else if (r == CLIENT_FAULT)
		*ret_exit = cli_fault(c, &f);
	else if (strcmp(jget_str(answer, "sandbox.state", ""), "running") != 0)
		*ret_exit = not_running(c, answer);
	else
		return TAKE(answer);
	return NULL;
}

int sandbox_end(const struct cli *c, struct client *cl, const char *id,
		json_t **ret_answer)
{
	owned_str path = xasprintf("/v1/sandboxes/%s?wait_s=%u", id, WAIT_S);
	owned_json answer = NULL;
	struct fault f;
	struct err e = { 0 };
	int r;

	r = client_call(cl, CLIENT_CONTROL, "DELETE", path, NULL, PATIENCE_S,
			&answer, NULL, &f, &e);
	if (r == CLIENT_OK)
		r = wait_over(cl, &answer, &f, &e);
	if (r < 0)
		return cli_fail(c, &e);
	if (r == CLIENT_FAULT)
		return cli_fault(c, &f);
	if (ret_answer)
		*ret_answer = TAKE(answer);
	return CLI_OK;
}
