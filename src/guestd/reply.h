/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Answers of the guest daemon: JSON, and errors in the public API's form with
 * cause "guest". */

#include "base/err.h"
#include "net/http.h"
#include "net/json.h"

/* Takes v over. */
void reply_json_take(struct http_stream *s, int status, json_t *v);
/* field and remedy may be NULL. */
void reply_error(struct http_stream *s, int status, const char *code,
		 const char *field, const char *remedy, const char *message);
/* By the error's kind. */
void reply_err(struct http_stream *s, const struct err *e);
/* 409 wrong_state */
void reply_wrong_state(struct http_stream *s, const char *message,
		       const char *remedy);
void reply_not_found(struct http_stream *s, const char *what, const char *id);
