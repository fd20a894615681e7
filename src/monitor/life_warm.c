/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "monitor/life.h"
#include "net/json.h"

/*
 * A VM that will wait for its sandbox. Under a translating VMM nearly all of a
 * create's time, and of the first command's, is guest code that runs for the
 * first time; so it runs here before, in a life of nobody: renewed, thawed, one
 * command from its start to its deleted record, frozen again, CPUs stopped.
 * The sandbox's own renewal comes later and replaces identity, entropy and
 * clock; a guest can only be renewed while it is frozen, so that nothing of
 * this life can be taken for the sandbox's.
 */

#define NOBODY	    "00000000000000000000"
#define NOBODY_EXEC "ex_" NOBODY "00000000"

enum warm_step {
	WARM_RENEW,
	WARM_THAW,
	WARM_EXEC,
	WARM_OUTPUT,
	WARM_RECORD,
	WARM_DELETE,
	WARM_FREEZE,
	WARM_STEPS_,
};

static const struct {
	const char *method, *path;
	int status;
} steps[WARM_STEPS_] = {
	[WARM_RENEW] = { "POST", "/g1/renew", 200 },
	[WARM_THAW] = { "POST", "/g1/thaw", 200 },
	[WARM_EXEC] = { "POST", "/v1/execs", 201 },
	[WARM_OUTPUT] = { "GET",
			  "/v1/execs/" NOBODY_EXEC "/output?from=0&follow=1",
			  200 },
	[WARM_RECORD] = { "GET", "/v1/execs/" NOBODY_EXEC, 200 },
	[WARM_DELETE] = { "DELETE", "/v1/execs/" NOBODY_EXEC, 204 },
	[WARM_FREEZE] = { "POST", "/g1/freeze", 200 },
};

static void next_step(struct life *f);

static void on_parked(void *arg, json_t *ret, const struct err *e)
{
	struct life *f = arg;

	(void)ret;
	if (f->stage != STAGE_WARM)
		return;
	if (e) {
		life_fail(f, e);
		return;
	}
	f->times.stop_us = life_lap(f);
	f->is_parked = true;
	life_done(f);
}

static void park(struct life *f)
{
	int r;

	/* a stopped VM answers no ping: no session until it goes on */
	guest_pause(f->guest);
	r = qmp_call(vmlink_qmp(f->vm), "stop", NULL, -1, life_left_ms(f),
		     on_parked, f);
	if (r < 0)
		life_fail_code(f, r, "the VMM takes no commands");
}

/* Every template has a shell; true is built into each of them. The program of
 * that name is what a first command is most alike. */
static json_t *exec_body(void)
{
	return json_pack("{s:s, s:[s, s, s], s:s, s:s}", "id", NOBODY_EXEC,
			 "cmd", "/bin/sh", "-c", "/bin/true || true", "start",
			 "now", "overflow", "block");
}

static json_t *step_body(struct life *f)
{
	switch ((enum warm_step)f->warm_step) {
	case WARM_RENEW:
		return life_renew_body(f);
	case WARM_THAW:
		return json_object();
	case WARM_EXEC:
		return exec_body();
	case WARM_FREEZE:
		life_nonce(f);
		return json_pack("{s:s}", "nonce", f->nonce);
	case WARM_OUTPUT:
	case WARM_RECORD:
	case WARM_DELETE:
	case WARM_STEPS_:
	default:
		return NULL;
	}
}

/* What a guest that works says; only the answers that prove something. */
static bool is_as_expected(const struct life *f, const json_t *v)
{
	const json_t *exit = json_object_get(v, "exit");
	const json_t *code = json_object_get(exit, "code");
	const char *word = NULL;

	switch ((enum warm_step)f->warm_step) {
	case WARM_RENEW:
		word = json_string_value(json_object_get(v, "confirmed"));
		break;
	case WARM_FREEZE:
		word = json_string_value(json_object_get(v, "frozen"));
		break;
	case WARM_RECORD:
		return json_is_integer(code) && json_integer_value(code) == 0;
	case WARM_THAW:
	case WARM_EXEC:
	case WARM_OUTPUT:
	case WARM_DELETE:
	case WARM_STEPS_:
	default:
		return true;
	}
	return word && strcmp(word, f->nonce) == 0;
}

static void on_step(void *arg, int status, const char *body, size_t n,
		    const struct err *e)
{
	struct life *f = arg;
	owned_json v = NULL;
	struct err bad = { 0 };

	if (f->stage != STAGE_WARM)
		return;
	if (e) {
		life_fail(f, e);
		return;
	}
	if (n && f->warm_step != WARM_OUTPUT &&
	    json_parse(body, n, &v, NULL) < 0)
		v = NULL;
	if (status != steps[f->warm_step].status || !is_as_expected(f, v)) {
		err_set(&bad, -EREMOTEIO, ERR_INTERNAL,
			"the trial of the guest failed at %s %s (status %d)",
			steps[f->warm_step].method, steps[f->warm_step].path,
			status);
		life_fail(f, &bad);
		return;
	}
	if (f->warm_step == WARM_RENEW)
		f->times.renew_us = life_lap(f);
	f->warm_step++;
	next_step(f);
}

static void next_step(struct life *f)
{
	unsigned end = f->req.flags & MON_PROBE ? WARM_STEPS_ : WARM_THAW;

	if (f->warm_step == end)
		park(f);
	else
		life_call(f, steps[f->warm_step].method,
			  steps[f->warm_step].path, step_body(f), on_step);
}

void life_warm(struct life *f)
{
	life_stage(f, STAGE_WARM);
	f->warm_step = WARM_RENEW;
	snprintf(f->req.sandbox, sizeof(f->req.sandbox), "sb" NOBODY);
	snprintf(f->req.hostname, sizeof(f->req.hostname), "waiting");
	next_step(f);
}
