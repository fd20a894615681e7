/* SPDX-License-Identifier: Apache-2.0 */

/* Laws: whatever the bytes, a body that changes a record is accepted with
 * everything in range, or refused with a code of the table and a message; an
 * If-Match is a generation, "*" or refused; a kept answer is JSON without
 * secrets. */

#include <string.h>

#include "api/body-admin.h"
#include "api/idem.h"
#include "base/check.h"
#include "base/own.h"
#include "net/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void refused(const struct fault *f)
{
	CHECK(f->code && fault_status(f->code) >= 400);
	CHECK(*f->message);
}

static void try_update(json_t *v)
{
	struct body_update b;
	struct fault f;

	if (body_update(v, &b, &f) < 0) {
		refused(&f);
		return;
	}
	CHECK(b.ttl_s >= 0 && b.ttl_s <= BODY_TTL_MAX);
	CHECK(b.has_ttl || !b.ttl_s);
	CHECK(!b.labels || json_object_size(b.labels) <= BODY_LABELS_MAX);
	CHECK(!b.on_expiry || strcmp(b.on_expiry, "end") == 0);
}

static void try_records(json_t *v)
{
	struct body_named n;
	struct body_quota q;
	const char *release;
	struct fault f;

	if (body_template(v, &n, &f) < 0)
		refused(&f);
	else
		CHECK(name_valid(n.name));
	if (body_project(v, &n, &f) < 0)
		refused(&f);
	if (body_tenant(v, &n, &f) < 0)
		refused(&f);
	if (body_tag(v, &release, &f) < 0)
		refused(&f);
	else
		CHECK(digest_valid(release));
	if (body_quota(v, &q, &f) < 0)
		refused(&f);
	else
		CHECK(q.sandboxes >= -1 && q.disk_mib >= -1);
}

static void try_text(const char *text)
{
	char generation[IF_MATCH_MAX];
	owned_str kept = idem_without_secrets(text);
	owned_json v = NULL;

	if (if_match_parse(text, generation))
		CHECK(strspn(generation, "0123456789") == strlen(generation));
	if (!kept)
		return;
	CHECK(json_parse(kept, strlen(kept), &v, NULL) == 0);
	CHECK(!json_is_string(json_object_get(v, "secret")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned_str text = xstrndup((const char *)data, size);
	json_t *v = NULL;

	try_text(text);
	if (json_parse(data, size, &v, NULL) < 0)
		return 0;
	try_update(v);
	try_records(v);
	json_decref(v);
	return 0;
}
