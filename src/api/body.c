/* SPDX-License-Identifier: Apache-2.0 */
#include "api/body.h"

#include <stdio.h>
#include <string.h>

#include "api/token.h"
#include "base/own.h"
#include "net/json.h"
#include "tls/digest.h"

#define MEMORY_MIB_MAX (INT64_C(1) << 20)
#define DISK_MIB_MAX   (INT64_C(1) << 24)

bool name_valid(const char *s)
{
	size_t n = strlen(s);

	return n >= 1 && n <= BODY_NAME_MAX && s[0] != '-' && s[n - 1] != '-' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

bool digest_valid(const char *s)
{
	return strncmp(s, "sha256:", 7) == 0 && strlen(s) == 71 &&
	       strspn(s + 7, "0123456789abcdef") == 64;
}

bool template_ref_valid(const char *s)
{
	const char *colon = strchr(s, ':');
	char name[BODY_NAME_MAX + 1];

	if (digest_valid(s))
		return true;
	if (!colon)
		return name_valid(s);
	if ((size_t)(colon - s) > BODY_NAME_MAX)
		return false;
	memcpy(name, s, (size_t)(colon - s));
	name[colon - s] = '\0';
	return name_valid(name) && name_valid(colon + 1);
}

/* ---- from a reader's error to a fault ---- */

static const char *leaf_of(const struct json_reader *r)
{
	size_t n = strlen(r->path);

	if (n && strncmp(r->field, r->path, n) == 0 && r->field[n] == '.')
		return r->field + n + 1;
	return r->field;
}

/* Ends the reader. false if it is in error: then *f says how. */
static bool reader_done(struct json_reader *r, const struct err *e,
			struct fault *f)
{
	const char *leaf, *code = "unknown_field";

	if (f->code) /* a refusal was noted already */
		return false;
	if (json_reader_end(r) == 0)
		return true;
	leaf = leaf_of(r);
	if (strchr(leaf, '.') && r->obj) /* an entry of read_map() */
		code = "invalid_field";
	else if (!json_object_get(r->obj, leaf))
		code = *leaf && r->obj ? "missing_field" : "invalid_field";
	for (size_t i = 0; i < r->n_seen; i++)
		if (strcmp(r->seen[i], leaf) == 0 &&
		    json_object_get(r->obj, leaf))
			code = "invalid_field";
	fault_set(f, code, "request", "GET /v1/openapi.json describes the body",
		  "%s", e->msg);
	snprintf(f->field, sizeof(f->field), "%s", r->field);
	return false;
}

bool body_end(struct json_reader *r, const struct err *e, struct fault *f)
{
	return reader_done(r, e, f);
}

/* The field is known and not there yet. */
static void unsupported(struct json_reader *r, const char *name,
			struct fault *f, const char *why)
{
	json_t *v = json_object_get(r->obj, name);

	if (r->n_seen < JSON_READER_FIELDS_MAX)
		r->seen[r->n_seen++] = name;
	if (!v || json_is_null(v) || f->code)
		return;
	fault_set(f, "not_supported", "request", "leave the field out",
		  "field \"%s%s%s\": %s", r->path, *r->path ? "." : "", name,
		  why);
	snprintf(f->field, sizeof(f->field), "%.80s%s%.60s", r->path,
		 *r->path ? "." : "", name);
}

void body_later(struct json_reader *r, const char *name, struct fault *f)
{
	unsupported(r, name, f, "this version of the server cannot do it yet");
}

/* ---- create ---- */

#define LATER "this version of the server cannot do it yet"

static bool read_resources(json_t *obj, struct body_create *ret,
			   struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;

	json_reader_init(&r, obj, "resources", &e);
	json_int(&r, "vcpus", 1, 64, &ret->vcpus);
	json_int(&r, "memory_mib", 64, MEMORY_MIB_MAX, &ret->memory_mib);
	json_int(&r, "disk_mib", 64, DISK_MIB_MAX, &ret->disk_mib);
	return reader_done(&r, &e, f);
}

static bool read_lifetime(json_t *obj, struct body_create *ret, struct fault *f)
{
	static const char *const ends[] = { "end", "pause", "suspend", NULL };
	struct err e = { 0 };
	struct json_reader r;
	size_t end = 0;
	bool none = false;

	json_reader_init(&r, obj, "lifetime", &e);
	json_int_or_null(&r, "ttl_s", 1, BODY_TTL_MAX, &ret->ttl_s, &none);
	ret->has_ttl = !none;
	if (json_word(&r, "on_expiry", ends, &end) && end != 0)
		unsupported(&r, "on_expiry", f,
			    "only \"end\" is possible in this version");
	unsupported(&r, "idle_s", f, LATER);
	unsupported(&r, "on_idle", f, LATER);
	unsupported(&r, "wake_on_traffic", f, LATER);
	return reader_done(&r, &e, f);
}

#define VALUE_MAX 32768u

/* An object of strings; a wrong one is named ("labels.team"). */
static void read_map(struct json_reader *r, const char *name, size_t max_items,
		     size_t max_key, size_t max_value, json_t **ret)
{
	json_t *obj = NULL, *v;
	const char *key;

	if (!json_obj(r, name, &obj))
		return;
	if (json_object_size(obj) > max_items)
		json_field_error(r, name, "expected at most %zu entries",
				 max_items);
	json_object_foreach(obj, key, v)
	{
		owned_str path = xasprintf("%s.%.60s", name, key);

		if (!*key || strlen(key) > max_key || strchr(key, '='))
			json_field_error(r, path,
					 "expected a name of 1 to %zu bytes "
					 "without \"=\"",
					 max_key);
		if (!json_is_string(v) || json_string_length(v) > max_value)
			json_field_error(r, path,
					 "expected a string of at most %zu "
					 "bytes",
					 max_value);
	}
	*ret = obj;
}

static void read_env(struct json_reader *r, json_t **ret)
{
	read_map(r, "env", BODY_ENV_MAX, 255, VALUE_MAX, ret);
}

static void read_names(struct json_reader *r, struct body_create *ret)
{
	if (!json_str(r, "template", 200, &ret->template))
		json_required(r, "template");
	else if (!template_ref_valid(ret->template))
		json_field_error(r, "template",
				 "expected NAME, NAME:TAG or sha256:HEX");
	if (json_str(r, "name", BODY_NAME_MAX, &ret->name) &&
	    !name_valid(ret->name))
		json_field_error(r, "name",
				 "expected 1 to 63 of a-z, 0-9 and inner "
				 "dashes");
	read_map(r, "labels", BODY_LABELS_MAX, 63, 255, &ret->labels);
	read_env(r, &ret->env);
}

int body_create(json_t *v, struct body_create *ret, struct fault *f)
{
	static const char *const levels[] = { "hardware", "software", NULL };
	static const char *const losses[] = { "lose", "restore", NULL };
	struct err e = { 0 };
	struct json_reader r;
	json_t *resources = NULL, *lifetime = NULL;
	size_t i = 0;

	*ret = (struct body_create){ .ttl_s = BODY_TTL_DEFAULT,
				     .has_ttl = true,
				     .on_expiry = "end" };
	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	unsupported(&r, "snapshot", f, LATER);
	unsupported(&r, "snapshots", f, LATER);
	unsupported(&r, "grants", f, LATER);
	if (f->code)
		return -1;
	read_names(&r, ret);
	json_obj(&r, "resources", &resources);
	json_obj(&r, "lifetime", &lifetime);
	if (json_word(&r, "isolation", levels, &i))
		ret->isolation = levels[i];
	if (json_word(&r, "on_node_loss", losses, &i) && i != 0)
		unsupported(&r, "on_node_loss", f,
			    "only \"lose\" is possible in this version");
	if (!reader_done(&r, &e, f))
		return -1;
	if (resources && !read_resources(resources, ret, f))
		return -1;
	return lifetime && !read_lifetime(lifetime, ret, f) ? -1 : 0;
}

/* ---- exec ---- */

static void read_command(struct json_reader *r)
{
	json_t *cmd = NULL;
	const char *shell = NULL;
	bool has_cmd = json_strlist(r, "cmd", 4096, 131072, &cmd);
	bool has_shell = json_str(r, "shell", 131072, &shell);

	if (has_cmd && has_shell)
		json_field_error(r, "shell",
				 "expected either \"cmd\" or \"shell\", not "
				 "both");
	else if (!has_cmd && !has_shell)
		json_required(r, "cmd");
	else if (has_cmd && json_array_size(cmd) == 0)
		json_field_error(r, "cmd", "expected at least one word");
}

static bool read_size(json_t *v, const char *path, struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;
	int64_t n;

	json_reader_init(&r, v, path, &e);
	if (!json_int(&r, "cols", 1, 65535, &n))
		json_required(&r, "cols");
	if (!json_int(&r, "rows", 1, 65535, &n))
		json_required(&r, "rows");
	return reader_done(&r, &e, f);
}

int body_exec(json_t *v, struct body_exec *ret, struct fault *f)
{
	static const char *const starts[] = { "now", "attach", NULL };
	static const char *const overflows[] = { "roll", "block", NULL };
	struct err e = { 0 };
	struct json_reader r;
	json_t *pty = NULL;
	const char *s;
	int64_t n;
	size_t i = 0;

	*ret = (struct body_exec){ .attach = true };
	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	read_command(&r);
	read_env(&r, &ret->env);
	if (json_str(&r, "cwd", 4096, &s) && s[0] != '/')
		json_field_error(&r, "cwd", "expected an absolute path");
	json_str(&r, "user", 64, &s);
	json_bool(&r, "stdin", &ret->has_stdin);
	json_int(&r, "timeout_s", 1, BODY_TTL_MAX, &n);
	json_int(&r, "keep_bytes", 4096, BODY_KEEP_MAX, &n);
	json_word(&r, "overflow", overflows, &i);
	if (json_word(&r, "start", starts, &i))
		ret->attach = i == 1;
	ret->has_pty = json_obj(&r, "pty", &pty);
	if (!reader_done(&r, &e, f))
		return -1;
	return ret->has_pty && !read_size(pty, "pty", f) ? -1 : 0;
}

static void default_to(json_t *body, const char *name, const json_t *defaults)
{
	const json_t *d = json_object_get(defaults, name);

	if (!json_object_get(body, name) && json_is_string(d) &&
	    json_string_length(d))
		json_set_take(body, name, json_deep_copy(d));
}

json_t *body_exec_merge(const json_t *v, const char *id, const json_t *defaults,
			const json_t *sandbox_env)
{
	json_t *body = json_copy((json_t *)(uintptr_t)v);
	json_t *env = json_object(), *own = json_object_get(body, "env");
	json_t *base = json_object_get(defaults, "env");

	if (json_is_object(base))
		json_object_update(env, base);
	if (json_is_object(sandbox_env))
		json_object_update(env, (json_t *)(uintptr_t)sandbox_env);
	if (json_is_object(own))
		json_object_update(env, own);
	json_set_take(body, "env", env);
	json_set_take(body, "id", json_string(id));
	if (!json_object_get(body, "start"))
		json_set_take(body, "start", json_string("attach"));
	default_to(body, "user", defaults);
	default_to(body, "cwd", defaults);
	return body;
}

int body_signal(json_t *v, struct fault *f)
{
	static const char *const scopes[] = { "tree", "leader", NULL };
	struct err e = { 0 };
	struct json_reader r;
	const char *name = NULL;
	size_t i;

	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	if (!json_str(&r, "name", 16, &name))
		json_required(&r, "name");
	else if (!*name || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
					"+-") != strlen(name))
		json_field_error(&r, "name",
				 "expected a signal's name such as \"TERM\"");
	json_word(&r, "scope", scopes, &i);
	return reader_done(&r, &e, f) ? 0 : -1;
}

int body_size(json_t *v, struct fault *f)
{
	f->code = NULL;
	return read_size(v, "", f) ? 0 : -1;
}

/* ---- tokens ---- */

int body_attach_token(json_t *v, struct body_attach_token *ret, struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;

	*ret = (struct body_attach_token){ .ttl_s = TOKEN_TTL_MAX };
	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	json_bool(&r, "watch", &ret->watch);
	json_int(&r, "ttl_s", 1, TOKEN_TTL_MAX, &ret->ttl_s);
	return reader_done(&r, &e, f) ? 0 : -1;
}

int body_token(json_t *v, struct body_token *ret, struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;
	json_t *list = NULL, *item;
	size_t i;

	*ret = (struct body_token){ .ttl_s = BODY_TTL_DEFAULT };
	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	if (!json_str(&r, "sandbox", 64, &ret->sandbox))
		json_required(&r, "sandbox");
	json_int(&r, "ttl_s", 1, TOKEN_TTL_MAX, &ret->ttl_s);
	/* an empty list never means all */
	if (!json_strlist(&r, "allow", 8, 16, &list))
		json_required(&r, "allow");
	else if (json_array_size(list) == 0)
		json_field_error(&r, "allow", "expected at least one word");
	json_array_foreach(list, i, item)
	{
		unsigned bit = 0;

		if (!allow_parse(json_string_value(item), &bit))
			json_field_error(&r, "allow",
					 "expected words of exec, files, "
					 "ports, end");
		ret->allow |= bit;
	}
	return reader_done(&r, &e, f) ? 0 : -1;
}

int body_port(json_t *v, struct body_port *ret, struct fault *f)
{
	static const char *const accesses[] = { "private", "token", "public",
						NULL };
	struct err e = { 0 };
	struct json_reader r;
	size_t i = 0;

	*ret = (struct body_port){ 0 };
	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	if (!json_int(&r, "port", 1, 65535, &ret->port))
		json_required(&r, "port");
	json_word(&r, "access", accesses, &i);
	ret->access = accesses[i];
	return reader_done(&r, &e, f) ? 0 : -1;
}

/* ---- keys ---- */

int body_key(json_t *v, struct body_key *ret, struct fault *f)
{
	static const char *const roles[] = { "viewer", "developer", "admin",
					     "operator", NULL };
	struct err e = { 0 };
	struct json_reader r;
	size_t i = 0;

	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	ret->name = ""; /* only for people to tell them apart */
	ret->project = NULL;
	json_str(&r, "project", 64, &ret->project);
	json_str(&r, "name", 100, &ret->name);
	if (!json_word(&r, "role", roles, &i))
		json_required(&r, "role");
	ret->role = (enum role)(ROLE_VIEWER + i);
	return reader_done(&r, &e, f) ? 0 : -1;
}

/* ---- template builds ---- */

static void read_artifact(struct json_reader *r, const char *name,
			  json_t *manifest)
{
	const char *s = NULL;
	char digest[72];

	if (!json_str(r, name, 71, &s)) {
		json_required(r, name);
		return;
	}
	snprintf(digest, sizeof(digest), "%s%s",
		 strncmp(s, "sha256:", 7) == 0 ? "" : "sha256:", s);
	if (!digest_valid(digest))
		json_field_error(r, name,
				 "expected sha256: and 64 lower-case hex "
				 "digits, as the import printed them");
	else
		json_set_take(manifest, name, json_string(digest));
}

static bool read_from(json_t *from, json_t *manifest, struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;
	json_t *artifacts = NULL;

	json_reader_init(&r, from, "from", &e);
	unsupported(&r, "packages", f,
		    "packages are built by `caisson template build`");
	unsupported(&r, "image", f, LATER);
	unsupported(&r, "dockerfile", f, LATER);
	unsupported(&r, "template", f, LATER);
	if (!json_obj(&r, "artifacts", &artifacts))
		json_required(&r, "artifacts");
	if (!reader_done(&r, &e, f))
		return false;
	json_reader_init(&r, artifacts, "from.artifacts", &e);
	read_artifact(&r, "kernel", manifest);
	read_artifact(&r, "initramfs", manifest);
	read_artifact(&r, "root", manifest);
	return reader_done(&r, &e, f);
}

static void set_int(json_t *o, const char *name, int64_t v)
{
	json_set_take(o, name, json_integer(v));
}

static bool read_defaults(json_t *obj, json_t *manifest, struct fault *f)
{
	struct err e = { 0 };
	struct json_reader r;
	json_t *env = NULL, *d = json_object();
	int64_t memory = 512, vcpus = 1, disk = 2048;
	const char *user = "root", *cwd = "/";

	json_set_take(manifest, "defaults", d);
	json_reader_init(&r, obj, "defaults", &e);
	json_int(&r, "memory_mib", 64, MEMORY_MIB_MAX, &memory);
	json_int(&r, "vcpus", 1, 64, &vcpus);
	json_int(&r, "disk_mib", 64, DISK_MIB_MAX, &disk);
	json_str(&r, "user", 64, &user);
	if (json_str(&r, "cwd", 4096, &cwd) && cwd[0] != '/')
		json_field_error(&r, "cwd", "expected an absolute path");
	read_env(&r, &env);
	set_int(d, "memory_mib", memory);
	set_int(d, "vcpus", vcpus);
	set_int(d, "disk_mib", disk);
	json_set_take(d, "user", json_string(user));
	json_set_take(d, "cwd", json_string(cwd));
	json_set_take(d, "env", env ? json_deep_copy(env) : json_object());
	return reader_done(&r, &e, f);
}

int body_build(json_t *v, struct body_build *ret, struct fault *f)
{
	static const char *const formats[] = { "raw", NULL };
	owned_json m = json_object();
	owned_json empty = json_object();
	struct err e = { 0 };
	struct json_reader r;
	json_t *from = NULL, *defaults = NULL, *provenance = NULL;
	size_t i;

	ret->manifest = NULL;
	f->code = NULL;
	json_reader_init(&r, v, "", &e);
	if (!json_obj(&r, "from", &from))
		json_required(&r, "from");
	json_word(&r, "root_format", formats, &i);
	json_obj(&r, "defaults", &defaults);
	json_obj(&r, "provenance", &provenance);
	unsupported(&r, "start", f, LATER);
	unsupported(&r, "ready", f, LATER);
	if (!reader_done(&r, &e, f) || !read_from(from, m, f) ||
	    !read_defaults(defaults ? defaults : empty, m, f))
		return -1;
	json_set_take(m, "root_format", json_string("raw"));
	json_set_take(m, "provenance",
		      provenance ? json_deep_copy(provenance) : json_object());
	ret->manifest = TAKE(m);
	return 0;
}

void body_build_fini(struct body_build *b)
{
	json_decref(b->manifest);
	b->manifest = NULL;
}

void manifest_digest(const json_t *manifest, char ret[72])
{
	owned_str text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
	char hex[DIGEST_HEX];

	digest_sha256_hex(text ? text : "", text ? strlen(text) : 0, hex);
	snprintf(ret, 72, "sha256:%s", hex);
}
