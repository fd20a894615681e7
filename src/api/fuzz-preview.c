/* SPDX-License-Identifier: Apache-2.0 */

/* Laws: a host that is taken names a port and an id of their forms; nothing of
 * ours is in what goes to the guest, whatever the client's head looks like. The
 * input: a host, then lines "name: value". */

#include <string.h>
#include <strings.h>

#include "api/auth.h"
#include "api/preview-head.h"
#include "api/token.h"
#include "base/check.h"
#include "base/own.h"
#include "base/text.h"
#include "net/http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What http1.c lets through: lower-case tokens, values without controls. */
static bool field_valid(const char *name, const char *value)
{
	if (!*name || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") !=
			  strlen(name))
		return false;
	return http1_is_value(value, strlen(value));
}

static void add_fields(struct http_head *h, const char *text)
{
	while (*text && h->n_fields < 64) {
		size_t n = strcspn(text, "\n");
		owned_str line = xstrndup(text, n);
		char *colon = strchr(line, ':');

		if (colon) {
			char *value = colon + 1 + strspn(colon + 1, " ");

			*colon = '\0';
			if (field_valid(line, value))
				http_head_add(h, line, value);
		}
		text += n + (text[n] == '\n');
	}
}

static void check_guest(const struct http_head *to)
{
	CHECK(!preview_token(to));
	CHECK(!auth_key(http_head_get(to, "authorization"), NULL));
	CHECK(!auth_key(NULL, http_head_get(to, "x-api-key")));
	CHECK(!http_head_get(to, "connection"));
	CHECK(!http_head_get(to, "transfer-encoding"));
	CHECK(!http_head_get(to, "upgrade"));
	CHECK(strcmp(http_head_get(to, "x-forwarded-for"), "peer") == 0);
	for (size_t i = 0; i < to->n_fields; i++) {
		const char *name = to->fields[i].name;
		const char *value = to->fields[i].value;

		CHECK(strncmp(name, "caisson-", 8) != 0);
		if (strcmp(name, "cookie") == 0)
			CHECK(strncasecmp(value, "caisson", 7) != 0 &&
			      !strcasestr(value, "; caisson"));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned_str text = xstrndup((const char *)data, size);
	owned_str host = xstrndup(text, strcspn(text, "\n"));
	struct http_head from, to;
	uint16_t port = 0;
	char id[23];

	if (preview_host(host, &port, id)) {
		CHECK(port > 0 && id_valid(id, "sb", 20));
		CHECK(strcasestr(host, id));
	}
	http_head_init(&from);
	from.method = xstrdup("GET");
	from.path = xstrdup("/");
	from.authority = xstrdup(port ? host : "localhost");
	from.status = 200;
	add_fields(&from, text + strcspn(text, "\n"));
	preview_request(&from, "peer", &to);
	check_guest(&to);
	http_head_fini(&to);
	preview_response(&from, &to);
	CHECK(!http_head_get(&to, "connection"));
	http_head_fini(&to);
	http_head_fini(&from);
	return 0;
}
