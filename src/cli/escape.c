/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/escape.h"

#include <string.h>

#include "base/check.h"

#define CTRL_Z 0x1a

/* "ctrl-p" or "x"; -1 if it is neither. */
static int one_key(const char *p, size_t n)
{
	unsigned char c;

	if (n == 1 && (unsigned char)p[0] < 0x80)
		return p[0];
	if (n != 6 || memcmp(p, "ctrl-", 5) != 0)
		return -1;
	c = (unsigned char)p[5];
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 1;
	if (c >= '@' && c <= '_')
		return c - '@';
	return -1;
}

int escape_init(struct escape *s, const char *keys, bool tilde, struct err *e)
{
	*s = (struct escape){ .tilde = tilde, .line_start = true };
	if (!strcmp(keys, "none"))
		return 0;
	for (;;) {
		size_t n = strcspn(keys, ",");
		int key = one_key(keys, n);

		if (key < 0 || s->n_keys == ESCAPE_KEYS_MAX)
			return err_set(e, -EINVAL, ERR_INVALID,
				       "--detach-keys: expected up to %u of X "
				       "or ctrl-X with commas between "
				       "(ctrl-p,ctrl-q), or none",
				       ESCAPE_KEYS_MAX);
		s->keys[s->n_keys++] = (uint8_t)key;
		keys += n;
		if (*keys == '\0')
			return 0;
		keys++;
	}
}

static void give(struct escape *s, uint8_t c, struct buf *out)
{
	CHECK(buf_put(out, &c, 1) == 0);
	s->line_start = c == '\r' || c == '\n';
}

/* The keys held back were no detach: longest rest that may still become one. */
static void unmatch(struct escape *s, struct buf *out)
{
	size_t m = s->matched, keep;

	for (keep = m - 1; keep > 0; keep--) {
		if (!memcmp(s->keys, s->keys + (m - keep), keep))
			break;
	}
	for (size_t i = 0; i < m - keep; i++)
		give(s, s->keys[i], out);
	s->matched = keep;
}

/* True if c went into the detach keys. */
static bool match(struct escape *s, uint8_t c, struct buf *out)
{
	if (s->n_keys == 0)
		return false;
	while (s->keys[s->matched] != c && s->matched > 0)
		unmatch(s, out);
	if (s->keys[s->matched] != c)
		return false;
	s->matched++;
	return true;
}

static enum escape_event behind_tilde(struct escape *s, uint8_t c,
				      struct buf *out)
{
	s->held = false;
	if (c == '.')
		return ESCAPE_DETACH;
	if (c == CTRL_Z)
		return ESCAPE_SUSPEND;
	if (c == '?')
		return ESCAPE_HELP;
	give(s, '~', out);
	return ESCAPE_NONE;
}

size_t escape_feed(struct escape *s, const uint8_t *p, size_t n,
		   struct buf *out, enum escape_event *ret)
{
	*ret = ESCAPE_NONE;
	for (size_t i = 0; i < n; i++) {
		if (s->held) {
			*ret = behind_tilde(s, p[i], out);
			if (*ret != ESCAPE_NONE) {
				s->line_start = true;
				return i + 1;
			}
			if (p[i] == '~')
				continue; /* `~~` is one */
		}
		if (match(s, p[i], out)) {
			if (s->matched < s->n_keys)
				continue;
			s->matched = 0;
			*ret = ESCAPE_DETACH;
			return i + 1;
		}
		if (s->tilde && s->line_start && p[i] == '~') {
			s->held = true;
			continue;
		}
		give(s, p[i], out);
	}
	return n;
}
