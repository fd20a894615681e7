/* SPDX-License-Identifier: Apache-2.0 */
#include "api/upgrade.h"

#include <errno.h>

#include "base/own.h"

bool upgrade_check(struct req *r)
{
	struct err e = { 0 };
	owned_str text = NULL;
	struct fault f;
	int code;

	if (!r->stream)
		return false;
	code = ws_server_check(r->stream, &e);
	if (code >= 0)
		return true;
	fault_set(&f, "invalid_field", "request",
		  "open it with a WebSocket client over HTTP/1.1", "%s", e.msg);
	text = fault_text(&f, r->id);
	if (code == -EPROTONOSUPPORT)
		req_json_with(r, 426, "sec-websocket-version", "13", text);
	else if (!http_stream_upgrade(r->stream))
		req_json_with(r, 426, "upgrade", "websocket", text);
	else
		req_fault(r, &f);
	return false;
}

struct ws *upgrade_open(struct req *r, const char *subprotocol, size_t max,
			const struct ws_handler *h, void *owner)
{
	const struct http_head *head = http_stream_head(r->stream);
	bool chosen = subprotocol && ws_offers(head, subprotocol);
	struct http_stream *s;
	struct http_head extra;
	struct ws *w;

	http_head_init(&extra);
	http_head_add(&extra, "request-id", r->id);
	s = req_detach(r, 101);
	w = ws_server_open(r->api->loop, s, chosen ? subprotocol : NULL, &extra,
			   max, h, owner);
	http_head_fini(&extra);
	return w;
}
