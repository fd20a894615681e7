/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/reply.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"

void reply_json_take(struct http_stream *s, int status, json_t *v)
{
	owned_str text = json_text(v);

	json_decref(v);
	http_stream_reply(s, status, "application/json", text, strlen(text));
}

void reply_error(struct http_stream *s, int status, const char *code,
		 const char *field, const char *remedy, const char *message)
{
	json_t *error = json_object(), *root = json_object();

	json_set_take(error, "code", json_string(code));
	json_set_take(error, "message",
		      json_str_lossy(message, strlen(message)));
	json_set_take(error, "cause", json_string("guest"));
	if (field && *field)
		json_set_take(error, "field", json_string(field));
	if (remedy)
		json_set_take(error, "remedy", json_string(remedy));
	json_set_take(root, "error", error);
	reply_json_take(s, status, root);
}

void reply_err(struct http_stream *s, const struct err *e)
{
	static const struct {
		int status;
		const char *code;
	} kinds[ERR_KIND_MAX_] = {
		[ERR_INTERNAL] = { 500, "internal" },
		[ERR_INVALID] = { 400, "invalid_field" },
		[ERR_NOT_FOUND] = { 404, "not_found" },
		[ERR_EXISTS] = { 409, "name_taken" },
		[ERR_DENIED] = { 403, "policy_denied" },
		[ERR_CONFLICT] = { 409, "wrong_state" },
		[ERR_EXHAUSTED] = { 507, "no_space" },
		[ERR_UNAVAILABLE] = { 503, "capacity" },
		[ERR_TIMEOUT] = { 504, "timeout" },
		[ERR_UNSUPPORTED] = { 422, "not_supported" },
	};

	reply_error(s, kinds[e->kind].status, kinds[e->kind].code, NULL, NULL,
		    e->msg);
}

void reply_wrong_state(struct http_stream *s, const char *message,
		       const char *remedy)
{
	reply_error(s, 409, "wrong_state", NULL, remedy, message);
}

void reply_not_found(struct http_stream *s, const char *what, const char *id)
{
	char text[256];

	snprintf(text, sizeof(text), "there is no %s \"%.128s\"", what, id);
	reply_error(s, 404, "not_found", NULL, NULL, text);
}
