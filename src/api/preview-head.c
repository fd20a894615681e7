/* SPDX-License-Identifier: Apache-2.0 */
#include "api/preview-head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/auth.h"
#include "api/token.h"
#include "base/buf.h"
#include "base/own.h"
#include "base/text.h"

bool preview_host(const char *host, uint16_t *ret_port, char ret_id[23])
{
	char port[6], id[23];
	size_t digits = strspn(host, "0123456789");
	int64_t v;

	if (digits < 1 || digits > 5 || host[digits] != '-')
		return false;
	snprintf(port, sizeof(port), "%.*s", (int)digits, host);
	snprintf(id, sizeof(id), "%.22s", host + digits + 1);
	/* names of hosts have no case, ids are lower case */
	for (char *c = id; *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c | 0x20);
	if (!text_int(port, 1, 65535, &v) || !id_valid(id, "sb", 20) ||
	    strlen(host) < digits + 1 + 22 || host[digits + 1 + 22] != '.')
		return false;
	/* it is passed on as a header, too */
	if (strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			 "0123456789.-:") != strlen(host))
		return false;
	*ret_port = (uint16_t)v;
	memcpy(ret_id, id, sizeof(id));
	return true;
}

/* ---- what is ours ---- */

static const char *bearer(const char *authorization)
{
	if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
		return NULL;
	return authorization + 7 + strspn(authorization + 7, " ");
}

static bool is_port_token(const char *v)
{
	return v && strlen(v) == PORT_TOKEN_LENGTH &&
	       strncmp(v, "cpt_", 4) == 0 &&
	       strspn(v + 4, "0123456789abcdef") == PORT_TOKEN_LENGTH - 4;
}

const char *preview_token(const struct http_head *head)
{
	const char *own = http_head_get(head, "caisson-port-token");
	const char *other = bearer(http_head_get(head, "authorization"));

	return is_port_token(own) ? own : is_port_token(other) ? other : NULL;
}

/* A value that only we could have given out, or that was meant for us. */
static bool is_ours(const char *v)
{
	return v && (auth_key(NULL, v) || token_form(v) || is_port_token(v));
}

static bool starts(const char *s, const char *prefix)
{
	return strncasecmp(s, prefix, strlen(prefix)) == 0;
}

static bool in_list(const char *const *list, const char *name)
{
	for (; *list; list++)
		if (strcasecmp(*list, name) == 0)
			return true;
	return false;
}

/* Is name one of those that Connection lists? */
static bool connection_names(const struct http_head *h, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < h->n_fields; i++) {
		const char *v = h->fields[i].value;

		if (strcmp(h->fields[i].name, "connection") != 0)
			continue;
		while (*v) {
			size_t k;

			v += strspn(v, ", \t");
			k = strcspn(v, ", \t");
			if (k == n && strncasecmp(v, name, n) == 0)
				return true;
			v += k;
		}
	}
	return false;
}

static bool is_hop(const struct http_head *h, const char *name)
{
	static const char *const hops[] = {
		"connection",	    "keep-alive", "proxy-authenticate",
		"proxy-connection", "te",	  "proxy-authorization",
		"trailer",	    "upgrade",	  "transfer-encoding",
		"http2-settings",   NULL
	};

	return in_list(hops, name) || connection_names(h, name);
}

/* The list without the items for which drop() is true; NULL if none is left. */
static char *without(const char *list, const char *separators,
		     const char *joiner, bool (*drop)(const char *item))
{
	struct buf b;
	char *ret;

	buf_init(&b, 0);
	while (*list) {
		owned_str item = NULL;
		size_t n;

		list += strspn(list, separators);
		list += strspn(list, " \t");
		n = strcspn(list, separators);
		if (separators[0] == ';') /* blanks are part of values */
			n = strcspn(list, ";");
		item = xstrndup(list, n);
		list += n;
		/* a value neither begins nor ends with a blank */
		while (n && (item[n - 1] == ' ' || item[n - 1] == '\t'))
			item[--n] = '\0';
		if (*item && !drop(item))
			buf_printf(&b, "%s%s", buf_len(&b) ? joiner : "", item);
	}
	ret = buf_len(&b) ? xstrdup(buf_cstr(&b)) : NULL;
	buf_fini(&b);
	return ret;
}

static bool our_cookie(const char *item)
{
	return starts(item, "caisson") || starts(item, "__Host-caisson") ||
	       starts(item, "__Secure-caisson");
}

static bool our_subprotocol(const char *item)
{
	return starts(item, "bearer.") && is_ours(item + 7);
}

/* ---- to the guest ---- */

static bool drop_request(const struct http_head *h, const char *name,
			 const char *value)
{
	static const char *const said_by_us[] = { "forwarded", "x-real-ip",
						  "expect",    "host",
						  "via",       NULL };

	if (is_hop(h, name) || in_list(said_by_us, name) ||
	    starts(name, "x-forwarded-") || starts(name, "caisson-"))
		return true;
	if (strcmp(name, "authorization") == 0)
		return is_ours(bearer(value));
	return strcmp(name, "x-api-key") == 0 && is_ours(value);
}

void preview_request(const struct http_head *from, const char *peer,
		     struct http_head *to)
{
	http_head_init(to);
	to->method = xstrdup(from->method);
	to->path = xstrdup(from->path);
	to->authority = xstrdup(from->authority ? from->authority : "");
	for (size_t i = 0; i < from->n_fields; i++) {
		const char *name = from->fields[i].name;
		const char *value = from->fields[i].value;
		owned_str less = NULL;

		if (drop_request(from, name, value))
			continue;
		if (strcmp(name, "cookie") == 0)
			less = without(value, "; ", "; ", our_cookie);
		else if (strcmp(name, "sec-websocket-protocol") == 0)
			less = without(value, ", \t", ", ", our_subprotocol);
		else
			less = xstrdup(value);
		if (less)
			http_head_add(to, name, less);
	}
	http_head_add(to, "x-forwarded-for", peer);
	http_head_add(to, "x-forwarded-host", to->authority);
	http_head_add(to, "x-forwarded-proto", "http");
}

/* ---- to the client ---- */

static bool is_domain(const char *item)
{
	return starts(item + strspn(item, " "), "domain=");
}

void preview_response(const struct http_head *from, struct http_head *to)
{
	http_head_init(to);
	to->status = from->status;
	for (size_t i = 0; i < from->n_fields; i++) {
		const char *name = from->fields[i].name;
		const char *value = from->fields[i].value;
		owned_str less = NULL;

		if (is_hop(from, name) || starts(name, "caisson-"))
			continue;
		/* a cookie is for this host: its parent is shared with the
		 * ports of others */
		less = strcmp(name, "set-cookie") == 0
			   ? without(value, "; ", "; ", is_domain)
			   : xstrdup(value);
		if (less)
			http_head_add(to, name, less);
	}
}
