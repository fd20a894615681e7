/* SPDX-License-Identifier: Apache-2.0 */
#include "api/body-admin.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "net/json.h"

#define QUOTA_MAX (INT64_C(1) << 40)

/* ---- PATCH of a sandbox ---- */

static void read_labels(struct json_reader *r, json_t **ret)
{
	json_t *obj = NULL, *v;
	const char *key;

	if (!json_obj(r, "labels", &obj))
		return;
	if (json_object_size(obj) > BODY_LABELS_MAX)
		json_field_error(r, "labels", "expected at most %u entries",
				 BODY_LABELS_MAX);
	json_object_foreach(obj, key, v)
	{
		owned_str path = xasprintf("labels.%.60s", key);

		if (!*key || strlen(key) > 63 || strchr(key, '='))
			json_field_error(r, path,
					 "expected a name of 1 to 63 bytes "
					 "without \"=\"");
		if (!json_is_null(v) &&
		    (!json_is_string(v) || json_string_length(v) > 255))
			json_field_error(r, path,
					 "expected a string of at most 255 "
					 "bytes, or null to remove it");
	}
	*ret = obj;
}

static bool read_lifetime(json_t *obj, struct body_update *ret, struct fault *f)
{
	static const char *const ends[] = { "end", NULL };
	static const char *const later[] = { "pause", "suspend" };
	struct err e = { 0 };
	struct json_reader r;
	const char *s = json_string_value(json_object_get(obj, "on_expiry"));
	bool none = false;
	size_t i = 0;

	json_reader_init(&r, obj, "lifetime", &e);
	for (size_t k = 0; s && k < ARRAY_SIZE(later); k++)
		if (strcmp(s, later[k]) == 0)
			body_later(&r, "on_expiry", f);
	ret->has_ttl = json_int_or_null(&r, "ttl_s", 1, BODY_TTL_MAX,
					&ret->ttl_s, &none) ||
		       none;
	if (none)
		ret->ttl_s = 0;
	if (json_word(&r, "on_expiry", ends, &i))
		ret->on_expiry = ends[i];
	body_later(&r, "idle_s", f);
	body_later(&r, "on_idle", f);
	body_later(&r, "wake_on_traffic", f);
	return body_end(&r, &e, f);
}

int body_update(json_t *v, struct body_update *ret, struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;
	json_t *lifetime = NULL;

	*ret = (struct body_update){ 0 };
	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	body_later(&r, "snapshots", f);
	if (f->code)
		return -1;
	read_labels(&r, &ret->labels);
	json_obj(&r, "lifetime", &lifetime);
	if (!body_end(&r, &e, f))
		return -1;
	return lifetime && !read_lifetime(lifetime, ret, f) ? -1 : 0;
}

/* ---- things with a name ---- */

static void read_name(struct json_reader *r, struct body_named *ret)
{
	if (!json_str(r, "name", BODY_NAME_MAX, &ret->name))
		json_required(r, "name");
	else if (!name_valid(ret->name))
		json_field_error(r, "name",
				 "expected 1 to 63 of a-z, 0-9 and inner "
				 "dashes");
}

int body_template(json_t *v, struct body_named *ret, struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;

	*ret = (struct body_named){ 0 };
	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	read_name(&r, ret);
	json_bool(&r, "public", &ret->public);
	return body_end(&r, &e, f) ? 0 : -1;
}

int body_project(json_t *v, struct body_named *ret, struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;

	*ret = (struct body_named){ 0 };
	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	read_name(&r, ret);
	json_str(&r, "tenant", 64, &ret->tenant);
	return body_end(&r, &e, f) ? 0 : -1;
}

int body_tenant(json_t *v, struct body_named *ret, struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;

	*ret = (struct body_named){ 0 };
	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	read_name(&r, ret);
	return body_end(&r, &e, f) ? 0 : -1;
}

int body_tag(json_t *v, const char **ret_release, struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;

	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	if (!json_str(&r, "release", 71, ret_release))
		json_required(&r, "release");
	else if (!digest_valid(*ret_release))
		json_field_error(&r, "release",
				 "expected sha256: and 64 lower-case hex "
				 "digits");
	return body_end(&r, &e, f) ? 0 : -1;
}

/* ---- quotas ---- */

/* All must be there: a limit that was forgotten is not one that was lifted. */
static void read_limit(struct json_reader *r, const char *name, int64_t *ret)
{
	bool none = false;

	*ret = -1;
	if (!json_object_get(r->obj, name))
		json_required(r, name);
	else
		json_int_or_null(r, name, 0, QUOTA_MAX, ret, &none);
}

int body_quota(json_t *v, struct body_quota *ret, struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;
	json_t *limits = NULL;

	*ret = (struct body_quota){ 0 };
	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	json_str(&r, "project", 64, &ret->project);
	if (!json_obj(&r, "limits", &limits))
		json_required(&r, "limits");
	if (!body_end(&r, &e, f))
		return -1;
	json_reader_init(&r, limits, "limits", &e);
	read_limit(&r, "sandboxes", &ret->sandboxes);
	read_limit(&r, "vcpus", &ret->vcpus);
	read_limit(&r, "memory_mib", &ret->memory_mib);
	read_limit(&r, "disk_mib", &ret->disk_mib);
	return body_end(&r, &e, f) ? 0 : -1;
}
