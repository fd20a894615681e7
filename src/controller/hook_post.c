/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/hook_post.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <curl/curl.h>

#include "base/own.h"
#include "base/text.h"
#include "tls/digest.h"

struct post {
	const struct hook_post *p;
	char denied[WORKER_DATA_MAX]; /* why a socket was not made */
	size_t got;
};

void hook_signature(const struct hook_post *p, int64_t unix_s,
		    char ret[HOOK_SIGNATURE])
{
	owned_str text = xasprintf("%" PRId64 ".%s", unix_s, p->body);
	size_t n = (size_t)snprintf(ret, HOOK_SIGNATURE, "t=%" PRId64, unix_s);

	for (size_t i = 0; i < p->n_secrets; i++) {
		uint8_t mac[DIGEST_BYTES];
		char hex[DIGEST_HEX];

		digest_hmac(p->secrets[i], strlen(p->secrets[i]), text,
			    strlen(text), mac);
		text_hex(mac, sizeof(mac), hex);
		n += (size_t)snprintf(ret + n, HOOK_SIGNATURE - n, ",v1=%s",
				      hex);
	}
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose,
				 struct curl_sockaddr *to)
{
	struct post *x = arg;
	char text[ADDR_TEXT];
	struct addr a;

	if (purpose != CURLSOCKTYPE_IPCXN ||
	    !addr_of_sockaddr(&to->addr, to->addrlen, &a)) {
		snprintf(x->denied, sizeof(x->denied), "not an IP address");
		return CURL_SOCKET_BAD;
	}
	if (!addr_allowed(&a, x->p->allow, x->p->n_allow)) {
		addr_text(&a, text);
		snprintf(x->denied, sizeof(x->denied),
			 "%s is a %s address: not allowed", text,
			 addr_class_name(addr_classify(&a)));
		return CURL_SOCKET_BAD;
	}
	return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

static size_t take_body(char *p, size_t size, size_t n, void *arg)
{
	struct post *x = arg;

	(void)p;
	x->got += size * n;
	return x->got > HOOK_ANSWER_MAX ? 0 : size * n;
}

static struct curl_slist *headers_of(const struct hook_post *p)
{
	char signature[HOOK_SIGNATURE];
	owned_str sign = NULL;
	owned_str id = NULL;
	struct curl_slist *h = NULL;

	hook_signature(p, now_unix_ms() / 1000, signature);
	sign = xasprintf("Caisson-Signature: %s", signature);
	id = xasprintf("Caisson-Delivery: %s", p->id);
	h = curl_slist_append(h, "Content-Type: application/json");
	h = curl_slist_append(h, "User-Agent: caisson-webhook/1");
	h = curl_slist_append(h, "Expect:");
	h = curl_slist_append(h, sign);
	return curl_slist_append(h, id);
}

static void set_options(CURL *c, struct post *x, struct curl_slist *headers)
{
	curl_easy_setopt(c, CURLOPT_URL, x->p->url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)HOOK_POST_MS);
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, x->p->body);
	curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)strlen(x->p->body));
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, x);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
}

int hook_post(void *arg, struct worker_report *rep, int *ret_fds,
	      size_t *ret_n_fds, struct err *e)
{
	struct post x = { .p = arg };
	struct curl_slist *headers;
	long status = 0;
	CURLcode r;
	CURL *c = curl_easy_init();

	(void)ret_fds;
	*ret_n_fds = 0;
	if (!c)
		return err_set(e, -ENOMEM, ERR_EXHAUSTED, "no memory");
	headers = headers_of(x.p);
	set_options(c, &x, headers);
	r = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	/* a long answer is cut off; its status counts */
	if (r == CURLE_OK || (r == CURLE_WRITE_ERROR && status))
		rep->a = (uint64_t)status;
	else
		snprintf(rep->data, sizeof(rep->data), "%s",
			 *x.denied ? x.denied : curl_easy_strerror(r));
	curl_slist_free_all(headers);
	curl_easy_cleanup(c);
	return 0;
}
