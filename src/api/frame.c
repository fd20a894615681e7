/* SPDX-License-Identifier: Apache-2.0 */
#include "api/frame.h"

#include <errno.h>
#include <string.h>

#include "net/json.h"

static uint64_t get(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static void put(uint8_t *p, unsigned n, uint64_t v)
{
	for (unsigned i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * (n - 1 - i)));
}

bool frame_is_output(uint8_t type)
{
	return type == EXEC_STDOUT || type == EXEC_STDERR || type == EXEC_PTY;
}

const char *frame_name(uint8_t type)
{
	switch (type) {
	case EXEC_STDOUT:
		return "stdout";
	case EXEC_STDERR:
		return "stderr";
	case EXEC_PTY:
		return "pty";
	case EXEC_STARTED:
		return "started";
	case EXEC_EXIT:
		return "exit";
	case EXEC_GAP:
		return "gap";
	case EXEC_ALIVE:
		return "alive";
	case EXEC_CLOSING:
		return "closing";
	default:
		return NULL;
	}
}

ptrdiff_t frame_from_guest(const uint8_t *p, size_t n, struct frame *ret)
{
	uint64_t length;

	if (n < EXEC_FRAME_HEADER)
		return 0;
	length = get(p + 4, 4);
	*ret = (struct frame){ .type = p[0],
			       .offset = get(p + 8, 8),
			       .payload = p + EXEC_FRAME_HEADER,
			       .n = (uint32_t)length };
	if (!frame_name(p[0]) || p[1] || p[2] || p[3] ||
	    length > EXEC_FRAME_MAX || ret->offset > INT64_MAX - length)
		return -EBADMSG;
	if (frame_is_output(p[0]) && length == 0)
		return -EBADMSG;
	if (n - EXEC_FRAME_HEADER < length)
		return 0;
	return (ptrdiff_t)(EXEC_FRAME_HEADER + length);
}

void frame_head(const struct frame *f, uint8_t ret[EXEC_FRAME_HEADER])
{
	memset(ret, 0, EXEC_FRAME_HEADER);
	ret[0] = f->type;
	put(ret + 4, 4, f->n);
	put(ret + 8, 8, f->offset);
}

void frame_message_head(const struct frame *f, uint8_t ret[FRAME_MESSAGE_HEAD])
{
	ret[0] = f->type;
	put(ret + 1, 8, f->offset);
}

/* ---- from a client ---- */

#define CONTROL_MAX 256u /* bytes of JSON in SIZE and SIGNAL */

static const char *check_size(json_t *v)
{
	struct err e = { 0 };
	struct json_reader r;
	int64_t n;

	json_reader_init(&r, v, "", &e);
	if (!json_int(&r, "cols", 1, 65535, &n))
		json_required(&r, "cols");
	if (!json_int(&r, "rows", 1, 65535, &n))
		json_required(&r, "rows");
	return json_reader_end(&r) < 0
		   ? "size: expected {cols, rows} from 1 to 65535"
		   : NULL;
}

static const char *check_signal(json_t *v)
{
	static const char *const scopes[] = { "tree", "leader", NULL };
	struct err e = { 0 };
	struct json_reader r;
	const char *name = "";
	size_t i;

	json_reader_init(&r, v, "", &e);
	if (!json_str(&r, "name", 16, &name))
		json_required(&r, "name");
	json_word(&r, "scope", scopes, &i);
	if (json_reader_end(&r) < 0 || !*name ||
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-") !=
		strlen(name))
		return "signal: expected {name, scope?}";
	return NULL;
}

static const char *check_control(const struct frame *f)
{
	owned_json v = NULL;

	if (f->n > CONTROL_MAX || json_parse(f->payload, f->n, &v, NULL) < 0)
		return "expected a small JSON object as payload";
	return f->type == EXEC_SIZE ? check_size(v) : check_signal(v);
}

const char *frame_from_client(const uint8_t *p, size_t n, bool watch,
			      struct frame *ret)
{
	if (n < FRAME_MESSAGE_HEAD || n > FRAME_MESSAGE_MAX)
		return "a message holds 1 byte type, 8 bytes offset and at "
		       "most 65536 bytes of payload";
	*ret = (struct frame){ .type = p[0],
			       .offset = get(p + 1, 8),
			       .payload = p + FRAME_MESSAGE_HEAD,
			       .n = (uint32_t)(n - FRAME_MESSAGE_HEAD) };
	if (ret->offset > INT64_MAX - EXEC_FRAME_MAX)
		return "the offset is out of range";
	if (watch && p[0] != EXEC_ACK)
		return "who watches may only acknowledge";
	switch (p[0]) {
	case EXEC_STDIN:
		return ret->n ? NULL : "stdin without bytes";
	case EXEC_STDIN_END:
	case EXEC_ACK:
		return ret->n ? "this type has no payload" : NULL;
	case EXEC_SIZE:
	case EXEC_SIGNAL:
		return check_control(ret);
	default:
		return "clients send types 10 to 14";
	}
}
