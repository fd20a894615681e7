/* SPDX-License-Identifier: Apache-2.0 */
#include "storaged/name.h"

#include <string.h>

#define REQ sizeof(struct st_req), sizeof(struct st_req)

const struct channel_op storaged_ops[ST_OP_MAX_] = {
	[ST_HELLO] = { REQ, 0, 0 },
	[ST_OPEN] = { REQ, 0, 0 },
	[ST_STAT] = { REQ, 0, 0 },
	[ST_DRAFT_NEW] = { REQ, 0, 0 },
	[ST_DRAFT_COMMIT] = { REQ, 0, 0 },
	[ST_DRAFT_DROP] = { REQ, 0, 0 },
	[ST_OVERLAY_NEW] = { REQ, 0, 0 },
	[ST_OVERLAY_COMMIT] = { REQ, 0, 0 },
	[ST_OVERLAY_DROP] = { REQ, 0, 0 },
	[ST_OVERLAY_LIST] = { REQ, 0, 0 },
	[ST_REF_SET] = { sizeof(struct st_req),
			 sizeof(struct st_req) + ST_REF_MAX, 0, 0 },
	[ST_REF_GET] = { REQ, 0, 0 },
	[ST_REF_DROP] = { REQ, 0, 0 },
	[ST_SPACE] = { REQ, 0, 0 },
};

enum uses { USES_DIGEST = 1, MAY_DIGEST = 2, USES_NAME = 4 };

static const unsigned char uses[ST_OP_MAX_] = {
	[ST_OPEN] = USES_DIGEST,	 [ST_STAT] = USES_DIGEST,
	[ST_DRAFT_COMMIT] = MAY_DIGEST,	 [ST_OVERLAY_NEW] = USES_NAME,
	[ST_OVERLAY_COMMIT] = USES_NAME, [ST_OVERLAY_DROP] = USES_NAME,
	[ST_REF_SET] = USES_NAME,	 [ST_REF_GET] = USES_NAME,
	[ST_REF_DROP] = USES_NAME,
};

static bool only(const char *s, size_t n, const char *extra, char last)
{
	for (size_t i = 0; i < n; i++)
		if (!(s[i] >= '0' && s[i] <= '9') &&
		    !(s[i] >= 'a' && s[i] <= last) && !strchr(extra, s[i]))
			return false;
	return true;
}

bool digest_valid(const char *s)
{
	return strlen(s) == ST_DIGEST_MAX - 1 &&
	       only(s, ST_DIGEST_MAX - 1, "", 'f');
}

bool name_valid(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n < ST_NAME_MAX && s[0] != '.' &&
	       only(s, n, "_.-", 'z');
}

int request_check(const struct st_req *q, size_t n, struct err *e)
{
	unsigned u;

	if (n < sizeof(*q) || q->hdr.op == 0 || q->hdr.op >= ST_OP_MAX_)
		return err_set(e, -EBADMSG, ERR_INVALID, "not a request");
	u = uses[q->hdr.op];
	if (!memchr(q->digest, 0, sizeof(q->digest)) ||
	    !memchr(q->name, 0, sizeof(q->name)))
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "a string without its end");
	if (q->text_n != n - sizeof(*q) || q->text_n > ST_REF_MAX)
		return err_set(e, -EBADMSG, ERR_INVALID,
			       "text of %u bytes in a message of %zu",
			       q->text_n, n);
	if ((u & USES_DIGEST || (u & MAY_DIGEST && q->digest[0])) &&
	    !digest_valid(q->digest))
		return err_set(e, -EINVAL, ERR_INVALID,
			       "a digest is 64 lower-case hex digits");
	if (u & USES_NAME && !name_valid(q->name))
		return err_set(e, -EINVAL, ERR_INVALID,
			       "a name is 1 to %u of [a-z0-9_.-] and does not "
			       "start with a dot",
			       ST_NAME_MAX - 1);
	return 0;
}
