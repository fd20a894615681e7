/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "net/json.h"
#include "tls/digest.h"

void spec_hash(const char *text, char ret[72])
{
	digest_sha256_hex(text, strlen(text), ret);
}

int spec_digest(const char *s, char ret[72])
{
	uint8_t raw[32];

	if (strncmp(s, "sha256:", 7) == 0)
		s += 7;
	if (strlen(s) != 64 || strspn(s, "0123456789abcdef") != 64 ||
	    !text_unhex(s, sizeof(raw), raw))
		return -EINVAL;
	memcpy(ret, s, 65);
	return 0;
}

static void read_digest(struct json_reader *r, const char *name, char ret[72])
{
	const char *s = NULL;

	if (!json_str(r, name, 71, &s)) {
		json_required(r, name);
		return;
	}
	if (spec_digest(s, ret) < 0)
		json_field_error(r, name,
				 "expected sha256: and 64 lower-case hex "
				 "digits");
}

static void read_release(json_t *obj, struct release *ret,
			 struct json_reader *top, struct err *e)
{
	static const char *const formats[] = { "raw", NULL };
	struct json_reader r;
	json_t *ignored;
	size_t format;

	json_reader_init(&r, obj, "release", e);
	read_digest(&r, "digest", ret->digest);
	read_digest(&r, "kernel", ret->kernel);
	read_digest(&r, "initramfs", ret->initramfs);
	read_digest(&r, "root", ret->root);
	json_word(&r, "root_format", formats, &format);
	/* Defaults are the control plane's; the node has no use for them. */
	json_obj(&r, "defaults", &ignored);
	if (json_reader_end(&r) < 0)
		top->r = r.r;
}

static void read_resources(json_t *obj, struct resources *ret,
			   struct json_reader *top, struct err *e)
{
	struct json_reader r;
	int64_t vcpus = 1, memory = 512, disk = 1024;

	json_reader_init(&r, obj, "resources", e);
	json_int(&r, "vcpus", 1, 64, &vcpus);
	json_int(&r, "memory_mib", 64, INT64_C(1) << 20, &memory);
	json_int(&r, "disk_mib", 1, INT64_C(1) << 24, &disk);
	if (json_reader_end(&r) < 0) {
		top->r = r.r;
		return;
	}
	ret->vcpus = (uint32_t)vcpus;
	ret->memory_mib = (uint32_t)memory;
	ret->disk_mib = (uint32_t)disk;
}

static void read_word(struct json_reader *r, const char *name, size_t max,
		      char *ret)
{
	const char *s = NULL;

	if (!json_str(r, name, max - 1, &s)) {
		json_required(r, name);
		return;
	}
	for (const char *c = s; *c; c++)
		if (*c <= ' ' || *c > '~') {
			json_field_error(r, name,
					 "expected printable characters "
					 "without spaces");
			return;
		}
	snprintf(ret, max, "%s", s);
}

static void read_command(struct json_reader *r, struct command *ret, bool full)
{
	int64_t generation = 0, fence = 0, left = 0;

	read_word(r, "incarnation", sizeof(ret->incarnation), ret->incarnation);
	if (!json_int(r, "time_left_ms", 1, SPEC_TIME_LEFT_MAX_MS, &left))
		json_required(r, "time_left_ms");
	if (full) {
		read_word(r, "operation", sizeof(ret->operation),
			  ret->operation);
		if (!json_int(r, "generation", 0, INT64_MAX, &generation))
			json_required(r, "generation");
		if (!json_int(r, "fence", 0, INT64_MAX, &fence))
			json_required(r, "fence");
	}
	ret->generation = (uint64_t)generation;
	ret->fence = (uint64_t)fence;
	ret->time_left_ms = (uint64_t)left;
}

static void read_spec(struct json_reader *r, struct spec *ret, struct err *e)
{
	json_t *obj = NULL;

	if (json_obj(r, "release", &obj))
		read_release(obj, &ret->release, r, e);
	else
		json_required(r, "release");
	if (r->r == 0 && json_obj(r, "resources", &obj))
		read_resources(obj, &ret->res, r, e);
	else
		json_required(r, "resources");
}

static void seal_spec(struct spec *s)
{
	char text[512];

	snprintf(text, sizeof(text), "1 %s %s %s %s %u %u %u %s",
		 s->release.digest, s->release.kernel, s->release.initramfs,
		 s->release.root, s->res.vcpus, s->res.memory_mib,
		 s->res.disk_mib, s->hostname);
	spec_hash(text, s->digest);
}

int spec_parse_ensure(const void *p, size_t n, struct command *ret_cmd,
		      struct spec *ret_spec, struct err *e)
{
	owned_json root = NULL;
	struct json_reader r;
	int rc = json_parse(p, n, &root, e);

	if (rc < 0)
		return rc;
	memset(ret_cmd, 0, sizeof(*ret_cmd));
	memset(ret_spec, 0, sizeof(*ret_spec));
	json_reader_init(&r, root, "", e);
	read_command(&r, ret_cmd, true);
	read_word(&r, "hostname", sizeof(ret_spec->hostname),
		  ret_spec->hostname);
	read_spec(&r, ret_spec, e);
	rc = json_reader_end(&r);
	if (rc == 0)
		seal_spec(ret_spec);
	return rc;
}

int spec_parse_end(const void *p, size_t n, struct command *ret_cmd,
		   struct err *e)
{
	owned_json root = NULL;
	struct json_reader r;
	int rc = json_parse(p, n, &root, e);

	if (rc < 0)
		return rc;
	memset(ret_cmd, 0, sizeof(*ret_cmd));
	json_reader_init(&r, root, "", e);
	read_command(&r, ret_cmd, true);
	return json_reader_end(&r);
}

int spec_parse_prepare(const void *p, size_t n, struct command *ret_cmd,
		       struct spec *ret_spec, struct err *e)
{
	owned_json root = NULL;
	struct json_reader r;
	int rc = json_parse(p, n, &root, e);

	if (rc < 0)
		return rc;
	memset(ret_cmd, 0, sizeof(*ret_cmd));
	memset(ret_spec, 0, sizeof(*ret_spec));
	json_reader_init(&r, root, "", e);
	read_command(&r, ret_cmd, false);
	read_spec(&r, ret_spec, e);
	rc = json_reader_end(&r);
	if (rc == 0)
		seal_spec(ret_spec);
	return rc;
}
