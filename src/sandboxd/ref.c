/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/ref.h"

#include <stdio.h>
#include <string.h>

#include "net/json.h"

void ref_name(const char *release, const char *compat,
	      const struct resources *res, char ret[72])
{
	char text[256], hash[72];

	snprintf(text, sizeof(text), "boot 1 %s %s %u %u %u", release, compat,
		 res->vcpus, res->memory_mib, res->disk_mib);
	spec_hash(text, hash);
	snprintf(ret, 72, "boot-%.64s", hash);
}

char *ref_text(const struct checkpoint *c)
{
	owned_json o = json_object();

	json_set_take(o, "v", json_integer(1));
	json_set_take(o, "release", json_string(c->release));
	json_set_take(o, "compat", json_string(c->compat));
	json_set_take(o, "vcpus", json_integer(c->res.vcpus));
	json_set_take(o, "memory_mib", json_integer(c->res.memory_mib));
	json_set_take(o, "disk_mib", json_integer(c->res.disk_mib));
	json_set_take(o, "disk_bytes", json_integer((json_int_t)c->disk_bytes));
	json_set_take(o, "state", json_string(c->state));
	json_set_take(o, "memory", json_string(c->memory));
	json_set_take(o, "layer", json_string(c->layer));
	json_set_take(o, "root", json_string(c->root));
	json_set_take(o, "memory_bytes",
		      json_integer((json_int_t)c->memory_bytes));
	return json_text(o);
}

static void read_hex(struct json_reader *r, const char *name, char ret[72])
{
	const char *s = NULL;

	if (!json_str(r, name, 64, &s)) {
		json_required(r, name);
		return;
	}
	if (spec_digest(s, ret) < 0)
		json_field_error(r, name, "expected 64 hex digits");
}

static int64_t read_int(struct json_reader *r, const char *name, int64_t min,
			int64_t max)
{
	int64_t v = min;

	if (!json_int(r, name, min, max, &v))
		json_required(r, name);
	return v;
}

int ref_parse(const void *p, size_t n, struct checkpoint *ret, struct err *e)
{
	owned_json root = NULL;
	struct json_reader r;
	int rc = json_parse(p, n, &root, e);

	if (rc < 0)
		return rc;
	memset(ret, 0, sizeof(*ret));
	json_reader_init(&r, root, "", e);
	read_int(&r, "v", 1, 1);
	read_hex(&r, "release", ret->release);
	read_hex(&r, "compat", ret->compat);
	ret->res.vcpus = (uint32_t)read_int(&r, "vcpus", 1, 64);
	ret->res.memory_mib =
	    (uint32_t)read_int(&r, "memory_mib", 64, INT64_C(1) << 20);
	ret->res.disk_mib =
	    (uint32_t)read_int(&r, "disk_mib", 1, INT64_C(1) << 24);
	ret->disk_bytes =
	    (uint64_t)read_int(&r, "disk_bytes", 512, INT64_MAX / 2);
	read_hex(&r, "state", ret->state);
	read_hex(&r, "memory", ret->memory);
	read_hex(&r, "layer", ret->layer);
	read_hex(&r, "root", ret->root);
	ret->memory_bytes =
	    (uint64_t)read_int(&r, "memory_bytes", 0, INT64_MAX);
	return json_reader_end(&r);
}
