/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Intrusive doubly linked list with a head; a node that is in no list points
 * to itself, so list_del() may be called twice. */

#include <stdbool.h>

#include "base/own.h"

struct list {
	struct list *next, *prev;
};

#define LIST_INIT(name)                                                        \
	{                                                                      \
		&(name), &(name)                                               \
	}

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}
static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}
static inline void list_add_tail(struct list *head, struct list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}
static inline void list_add(struct list *head, struct list *n)
{
	list_add_tail(head->next, n);
}
#if defined(__clang_analyzer__)
/* It takes an entry that was removed and freed for the first one still; an
 * answer that it cannot see through keeps it from that. */
struct list *list_first(const struct list *head);
#else
/* The first node; the head itself if the list is empty. */
static inline struct list *list_first(const struct list *head)
{
	return head->next;
}
#endif
static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

#define list_entry(p, type, member) container_of(p, type, member)
#define list_for_each(pos, head, member)                                       \
	for (pos = list_entry(list_first(head), __typeof__(*pos), member);     \
	     &pos->member != (head);                                           \
	     pos = list_entry(pos->member.next, __typeof__(*pos), member))
/* The current entry may be removed or freed in the body, no other. */
#define list_for_each_safe(pos, tmp, head, member)                             \
	for (pos = list_entry(list_first(head), __typeof__(*pos), member),     \
	    tmp = list_entry(pos->member.next, __typeof__(*pos), member);      \
	     &pos->member != (head); pos = tmp,                                \
	    tmp = list_entry(tmp->member.next, __typeof__(*pos), member))
