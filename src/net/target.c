/* SPDX-License-Identifier: Apache-2.0 */
#include "net/target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static bool bytes_sound(const char *s)
{
	for (; *s; s++)
		if (*s <= 0x20 || *s > 0x7e || strchr("\"<>\\^`{|}#", *s))
			return false;
	return true;
}

static int bad(struct err *e, const char *expected)
{
	return err_set(e, -EINVAL, ERR_INVALID, "expected %s", expected);
}

static int read_port(const char *s, size_t n, struct target *t, struct err *e)
{
	char digits[8];
	int64_t v;

	if (n >= sizeof(digits))
		return bad(e, "a port from 1 to 65535");
	memcpy(digits, s, n);
	digits[n] = '\0';
	if (!text_int(digits, 1, 65535, &v) || digits[0] == '0')
		return bad(e, "a port from 1 to 65535");
	if (v < 1024 && v != 80 && v != 443)
		return bad(e, "port 80, 443 or one above 1023");
	t->port = (uint16_t)v;
	return 0;
}

int target_parse(const char *url, struct target *ret, struct err *e)
{
	size_t skip, n, host;
	const char *at, *colon;

	*ret = (struct target){ 0 };
	if (strlen(url) > TARGET_URL_MAX)
		return bad(e, "a URL of at most 2048 bytes");
	if (!bytes_sound(url))
		return bad(e, "a URL of printable ASCII without fragment; "
			      "percent-encode the rest");
	ret->tls = strncmp(url, "https://", 8) == 0;
	skip = ret->tls ? 8 : 7;
	if (!ret->tls && strncmp(url, "http://", 7) != 0)
		return bad(e, "a URL that begins with https:// or http://");
	ret->port = ret->tls ? 443 : 80;
	at = url + skip;
	n = strcspn(at, "/?");
	if (memchr(at, '@', n))
		return bad(e, "a URL without user information");
	if (*at == '[') {
		const char *end = memchr(at, ']', n);

		host = end ? (size_t)(end - at) + 1 : n;
	} else {
		colon = memchr(at, ':', n);
		host = colon ? (size_t)(colon - at) : n;
	}
	if (host < n && at[host] != ':')
		return bad(e, "HOST or HOST:PORT");
	if (host < n) {
		int r = read_port(at + host + 1, n - host - 1, ret, e);

		if (r < 0)
			return r;
	}
	ret->kind = addr_host(at, host, &ret->addr);
	if (ret->kind == ADDR_HOST_BAD || host >= sizeof(ret->host))
		return bad(e, "a host that is a DNS name, or an address in its "
			      "canonical spelling");
	if (*at == '[')
		snprintf(ret->host, sizeof(ret->host), "%.*s", (int)host - 2,
			 at + 1);
	else
		snprintf(ret->host, sizeof(ret->host), "%.*s", (int)host, at);
	return 0;
}
