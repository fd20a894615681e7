/* SPDX-License-Identifier: Apache-2.0 */
#include "api/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/own.h"
#include "net/json.h"

#define PEER_MAX 65536u

static const struct {
	const char *code;
	int status;
} table[] = {
	{ "invalid_field", 400 },
	{ "unknown_field", 400 },
	{ "missing_field", 400 },
	{ "egress_required", 400 },
	{ "bad_cursor", 400 },
	{ "bad_path", 400 },
	{ "unauthenticated", 401 },
	{ "token_expired", 401 },
	{ "role_required", 403 },
	{ "policy_denied", 403 },
	{ "not_found", 404 },
	{ "method_not_allowed", 405 },
	{ "immutable", 405 },
	{ "idempotency_mismatch", 409 },
	{ "name_taken", 409 },
	{ "wrong_state", 409 },
	{ "snapshot_not_ready", 409 },
	{ "incompatible", 409 },
	{ "in_use", 409 },
	{ "isolation_unavailable", 409 },
	{ "exec_expired", 409 },
	{ "sandbox_ended", 410 },
	{ "generation_changed", 412 },
	{ "too_large", 413 },
	{ "offset_gone", 416 },
	{ "not_supported", 422 },
	{ "rate_limited", 429 },
	{ "quota_reached", 429 },
	{ "internal", 500 },
	{ "port_closed", 502 },
	{ "capacity", 503 },
	{ "node_unavailable", 503 },
	{ "store_unavailable", 503 },
	{ "provider_unavailable", 503 },
	{ "no_space", 507 },
};

static const char *const causes[] = {
	"request", "policy", "quota", "capacity",
	"node",	   "guest",  "store", "provider",
};

int fault_status(const char *code)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (strcmp(table[i].code, code) == 0)
			return table[i].status;
	return 0;
}

const char *fault_code(const char *code)
{
	for (size_t i = 0; code && i < ARRAY_SIZE(table); i++)
		if (strcmp(table[i].code, code) == 0)
			return table[i].code;
	return NULL;
}

const char *fault_cause(const char *cause)
{
	for (size_t i = 0; cause && i < ARRAY_SIZE(causes); i++)
		if (strcmp(causes[i], cause) == 0)
			return causes[i];
	return NULL;
}

const char *const *fault_codes(void)
{
	static const char *list[ARRAY_SIZE(table) + 1];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		list[i] = table[i].code;
	return list;
}

void fault_set(struct fault *f, const char *code, const char *cause,
	       const char *remedy, const char *fmt, ...)
{
	va_list ap;

	memset(f, 0, sizeof(*f));
	f->code = fault_code(code);
	f->cause = fault_cause(cause);
	CHECK(f->code && f->cause);
	snprintf(f->remedy, sizeof(f->remedy), "%s", remedy);
	va_start(ap, fmt);
	vsnprintf(f->message, sizeof(f->message), fmt, ap);
	va_end(ap);
	if (f->code && fault_status(f->code) == 503)
		f->retry_after_s = 1;
}

void fault_of_db(struct fault *f, const struct err *e)
{
	switch (e->kind) {
	case ERR_EXHAUSTED:
		fault_set(f, "store_unavailable", "store",
			  "repeat the call after a pause; `caisson status` "
			  "shows the load",
			  "the database is overloaded: %s", e->msg);
		break;
	case ERR_UNAVAILABLE:
	case ERR_TIMEOUT:
		fault_set(f, "store_unavailable", "store",
			  "repeat the call with the same Idempotency-Key; "
			  "`caisson status` shows whether PostgreSQL runs",
			  "the database did not answer: %s", e->msg);
		break;
	case ERR_INTERNAL:
	case ERR_INVALID:
	case ERR_NOT_FOUND:
	case ERR_EXISTS:
	case ERR_DENIED:
	case ERR_CONFLICT:
	case ERR_UNSUPPORTED:
	case ERR_KIND_MAX_:
		fault_set(f, "internal", "store",
			  "see the log of caisson-api by this request id; "
			  "`caisson migrate` brings the schema up to date",
			  "the database refused a statement");
		break;
	}
}

static void copy_words(char *ret, size_t max, const json_t *v)
{
	const char *s = json_string_value(v);

	if (s && *s)
		snprintf(ret, max, "%s", s);
}

void fault_of_peer(struct fault *f, const char *cause, int status,
		   const char *body, size_t n)
{
	owned_json root = NULL;
	json_t *error;
	const char *code, *known;
	json_int_t retry;

	fault_set(f, "node_unavailable", cause,
		  "repeat the call; `caisson node ls` shows the nodes",
		  "the %s answered %d without a reason", cause, status);
	if (n > PEER_MAX || json_parse(body, n, &root, NULL) < 0)
		return;
	error = json_object_get(root, "error");
	if (!json_is_object(error))
		return;
	snprintf(f->remedy, sizeof(f->remedy),
		 "`caisson doctor` looks at every part");
	copy_words(f->message, sizeof(f->message),
		   json_object_get(error, "message"));
	copy_words(f->remedy, sizeof(f->remedy),
		   json_object_get(error, "remedy"));
	known = fault_cause(json_string_value(json_object_get(error, "cause")));
	if (known)
		f->cause = known;
	code = json_string_value(json_object_get(error, "code"));
	known = fault_code(code);
	if (known) {
		f->code = known;
		f->retry_after_s = fault_status(known) == 503;
	}
	retry = json_integer_value(json_object_get(error, "retry_after_s"));
	if (retry > 0 && retry <= 3600)
		f->retry_after_s = (int)retry;
}

json_t *fault_json(const struct fault *f)
{
	json_t *o = json_object();

	json_set_take(o, "code", json_string(f->code));
	json_set_take(o, "message",
		      json_str_lossy(f->message, strlen(f->message)));
	json_set_take(o, "cause", json_string(f->cause));
	json_set_take(o, "remedy",
		      json_str_lossy(f->remedy, strlen(f->remedy)));
	if (*f->field)
		json_set_take(o, "field",
			      json_str_lossy(f->field, strlen(f->field)));
	if (f->retry_after_s)
		json_set_take(o, "retry_after_s",
			      json_integer(f->retry_after_s));
	if (*f->operation)
		json_set_take(o, "operation", json_string(f->operation));
	return o;
}

char *fault_text(const struct fault *f, const char *request_id)
{
	owned_json root = json_object();
	json_t *o = fault_json(f);

	json_set_take(o, "request_id", json_string(request_id));
	json_set_take(root, "error", o);
	return json_text(root);
}
