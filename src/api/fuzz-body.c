/* SPDX-License-Identifier: Apache-2.0 */

/* Laws: whatever the bytes, a body is accepted with everything in range, or
 * refused with a code of the table and a message. */

#include <string.h>

#include "api/body.h"
#include "base/check.h"
#include "net/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void refused(const struct fault *f)
{
	CHECK(f->code && fault_status(f->code) >= 400);
	CHECK(*f->message);
}

static void try_create(json_t *v)
{
	struct body_create b;
	struct fault f;

	if (body_create(v, &b, &f) < 0) {
		refused(&f);
		return;
	}
	CHECK(template_ref_valid(b.template));
	CHECK(!b.name || name_valid(b.name));
	CHECK(!b.has_ttl || (b.ttl_s >= 1 && b.ttl_s <= BODY_TTL_MAX));
	CHECK(b.vcpus >= 0 && b.vcpus <= 64);
}

static void try_others(json_t *v)
{
	struct body_exec e;
	struct body_build b;
	struct body_key k;
	struct fault f;
	char digest[72];

	if (body_exec(v, &e, &f) < 0)
		refused(&f);
	else
		json_decref(body_exec_merge(v, "ex_1", v, e.env));
	if (body_key(v, &k, &f) < 0)
		refused(&f);
	if (body_signal(v, &f) < 0)
		refused(&f);
	if (body_build(v, &b, &f) < 0) {
		refused(&f);
		return;
	}
	manifest_digest(b.manifest, digest);
	CHECK(digest_valid(digest));
	body_build_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *v = NULL;

	if (json_parse(data, size, &v, NULL) < 0)
		return 0;
	try_create(v);
	try_others(v);
	json_decref(v);
	return 0;
}
