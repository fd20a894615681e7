/* SPDX-License-Identifier: Apache-2.0 */
#include "api/h-webhook-body.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "net/json.h"

static int refuse(struct fault *f, const char *code, const char *field,
		  const char *message)
{
	fault_set(f, code, "request", "GET /v1/openapi.json describes the body",
		  "%s", message);
	snprintf(f->field, sizeof(f->field), "%s", field);
	return -1;
}

static void read_types(struct json_reader *r, struct body_webhook *ret)
{
	json_t *one;
	size_t i;

	if (!json_strlist(r, "types", WEBHOOK_TYPES_MAX, WEBHOOK_TYPE_MAX,
			  &ret->types))
		return;
	if (json_array_size(ret->types) == 0)
		json_field_error(r, "types",
				 "expected at least one type; [\"*\"] means "
				 "every event");
	json_array_foreach(ret->types, i, one)
	{
		const char *s = json_string_value(one);

		if (strcmp(s, "*") != 0 && !event_type_valid(s, true))
			json_field_error(r, "types",
					 "expected types such as "
					 "sandbox.ended, sandbox.* or *");
	}
}

static void read_secrets(struct json_reader *r, struct body_webhook *ret)
{
	json_t *list, *one;
	size_t i;

	if (!json_strlist(r, "secrets", 2, WEBHOOK_SECRET_MAX, &list))
		return;
	if (json_array_size(list) == 0)
		json_field_error(r, "secrets", "expected [NEW] or [NEW, OLD]");
	json_array_foreach(list, i, one)
	{
		const char *s = json_string_value(one);

		for (const char *c = s; *c; c++)
			if (*c < 0x21 || *c > 0x7e)
				s = "";
		if (strlen(s) < WEBHOOK_SECRET_MIN)
			json_field_error(r, "secrets",
					 "expected 16 to 128 printable "
					 "characters each");
		ret->secrets[ret->n_secrets++] = s;
	}
}

static void read_url(struct json_reader *r, struct body_webhook *ret)
{
	struct err e = { 0 };

	if (json_str(r, "url", TARGET_URL_MAX, &ret->url) &&
	    target_parse(ret->url, &ret->target, &e) < 0)
		json_field_error(r, "url", "%s", e.msg);
}

static void read_labels(struct json_reader *r, struct body_webhook *ret)
{
	json_t *v = json_object_get(r->obj, "labels");

	ret->has_labels = v != NULL;
	json_strmap(r, "labels", 64, 128, 256, &ret->labels);
	if (ret->labels && json_object_size(ret->labels) == 0)
		json_field_error(r, "labels",
				 "expected at least one label, or null for no "
				 "filter");
}

static const char *code_of(const struct json_reader *r, const json_t *v)
{
	if (!*r->field || !r->obj)
		return "invalid_field";
	if (!json_object_get(v, r->field) && !strchr(r->field, '.'))
		return "missing_field";
	for (size_t i = 0; i < r->n_seen; i++)
		if (strncmp(r->seen[i], r->field, strlen(r->seen[i])) == 0)
			return "invalid_field";
	return "unknown_field";
}

int body_webhook(json_t *v, bool change, struct body_webhook *ret,
		 struct fault *f)
{
	static const char *const states[] = { "active", "disabled", NULL };
	struct json_reader r;
	struct err e = { 0 };
	size_t word;

	*ret = (struct body_webhook){ 0 };
	json_reader_init(&r, v, "", &e);
	read_url(&r, ret);
	read_types(&r, ret);
	read_labels(&r, ret);
	read_secrets(&r, ret);
	if (change && json_word(&r, "state", states, &word))
		ret->state = states[word];
	if (!change) {
		json_required(&r, "url");
		json_required(&r, "types");
	}
	if (json_reader_end(&r) < 0)
		return refuse(f, code_of(&r, v), r.field, e.msg);
	return 0;
}

char *webhook_types_literal(const json_t *types)
{
	struct buf b;
	json_t *one;
	char *text;
	size_t i;

	buf_init(&b, 0);
	buf_puts(&b, "{");
	json_array_foreach(types, i, one)
	    buf_printf(&b, "%s\"%s\"", i ? "," : "", json_string_value(one));
	buf_puts(&b, "}");
	text = xstrdup(buf_cstr(&b));
	buf_fini(&b);
	return text;
}
