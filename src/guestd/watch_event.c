/* SPDX-License-Identifier: Apache-2.0 */

/* What the kernel tells, and the lines that come of it. Pure. */

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>

#include "guestd/list.h"
#include "guestd/watch.h"
#include "net/json.h"

int watch_event_next(const uint8_t *p, size_t n, size_t *at,
		     struct watch_event *ret)
{
	struct inotify_event head;

	if (*at == n)
		return 0;
	if (n - *at < sizeof(head))
		return -EBADMSG;
	memcpy(&head, p + *at, sizeof(head));
	*at += sizeof(head);
	if (head.len > n - *at || head.len > NAME_MAX + 17)
		return -EBADMSG;
	*ret = (struct watch_event){ .wd = head.wd,
				     .mask = head.mask,
				     .cookie = head.cookie,
				     .name = "" };
	if (head.len > 0) {
		if (!memchr(p + *at, 0, head.len))
			return -EBADMSG;
		ret->name = (const char *)p + *at;
		if (strchr(ret->name, '/'))
			return -EBADMSG;
	}
	*at += head.len;
	return 1;
}

void watch_line(struct buf *to_buf, const char *type, const char *path,
		const char *to, bool is_dir)
{
	json_t *v = json_object();
	owned_str text = NULL;

	json_set_take(v, "type", json_string(type));
	if (path)
		list_set_bytes(v, "path", path);
	if (to)
		list_set_bytes(v, "to", to);
	if (path)
		json_set_take(v, "is_dir", json_boolean(is_dir));
	text = json_text(v);
	json_decref(v);
	/* the buffer has no limit of its own: its user looks before */
	(void)buf_puts(to_buf, text);
	(void)buf_puts(to_buf, "\n");
}
