/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"

#include "base/test.h"

struct item {
	int v;
	struct list link;
};

TEST(list_keeps_order)
{
	struct list head = LIST_INIT(head);
	struct item a = { .v = 1 }, b = { .v = 2 }, c = { .v = 0 }, *it;
	int want = 0;

	T_TRUE(list_empty(&head));
	list_add_tail(&head, &a.link);
	list_add_tail(&head, &b.link);
	list_add(&head, &c.link);
	list_for_each (it, &head, link) {
		T_INT(it->v, want);
		want++;
	}
	T_INT(want, 3);
}

TEST(list_del_twice_is_harmless)
{
	struct list head = LIST_INIT(head);
	struct item a = { .v = 1 }, b = { .v = 2 };

	list_add_tail(&head, &a.link);
	list_add_tail(&head, &b.link);
	list_del(&a.link);
	list_del(&a.link);
	T_TRUE(head.next == &b.link && head.prev == &b.link);
	list_del(&b.link);
	T_TRUE(list_empty(&head));
}

TEST(list_safe_walk_may_remove_the_current)
{
	struct list head = LIST_INIT(head);
	struct item items[5], *it, *tmp;
	int seen = 0;

	for (int i = 0; i < 5; i++) {
		items[i].v = i;
		list_add_tail(&head, &items[i].link);
	}
	list_for_each_safe (it, tmp, &head, link) {
		seen++;
		list_del(&it->link);
	}
	T_INT(seen, 5);
	T_TRUE(list_empty(&head));
}
