/* SPDX-License-Identifier: Apache-2.0 */

/* The table of execs: lookup, retention, and the memory that all their logs
 * may take together. */

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "guestd/boot.h"
#include "guestd/cgroup.h"
#include "guestd/exec.h"
#include "guestd/exec_api.h"

#define SWEEP_MS       30000u
#define LOG_BUDGET_MIN (8u << 20)
#define LOG_BUDGET_MAX (256u << 20)

struct execs *execs_new(struct guestd *g)
{
	struct execs *s = xnew(struct execs);
	uint64_t budget = boot_mem_total(&g->held) / 8;

	s->g = g;
	list_init(&s->all);
	list_init(&s->key_order);
	s->by_id = map_new();
	s->keys = map_new();
	if (budget < LOG_BUDGET_MIN)
		budget = LOG_BUDGET_MIN;
	if (budget > LOG_BUDGET_MAX)
		budget = LOG_BUDGET_MAX;
	s->log_budget = (size_t)budget;
	return s;
}

struct execs *execs_free(struct execs *s)
{
	struct exec *x, *tmp;

	if (!s)
		return NULL;
	list_for_each_safe (x, tmp, &s->all, link) {
		(void)exec_signal(x, SIGKILL, true);
		execs_remove(x);
	}
	execs_forget_keys(s);
	loop_timer_del(&s->sweep);
	map_free(s->by_id);
	map_free(s->keys);
	free(s);
	return NULL;
}

static bool exec_is_over(const struct exec *x)
{
	return x->state == EXEC_ST_ENDED || x->state == EXEC_ST_EXPIRED;
}

struct exec *execs_get(struct execs *s, const char *id)
{
	return map_get(s->by_id, id);
}

void execs_remove(struct exec *x)
{
	struct execs *s = x->g->execs;

	if (map_del(s->by_id, x->id) == NULL)
		return;
	exec_key_forget(s, x->id);
	list_del(&x->link);
	s->n--;
	exec_unref(x);
}

bool execs_log_fits(struct execs *s)
{
	struct exec *x;

	if (s->log_bytes <= s->log_budget)
		return true;
	list_for_each (x, &s->all, link) {
		/* not what somebody reads just now */
		if (x->state == EXEC_ST_ENDED && list_empty(&x->followers))
			execlog_drop_all(&x->log);
		if (s->log_bytes <= s->log_budget)
			return true;
	}
	return false;
}

/* Cgroups of forgotten execs whose last process has gone since. */
static void sweep_groups(struct execs *s)
{
	int fd = s->g->held.workload < 0
		     ? -1
		     : openat(s->g->held.workload, ".",
			      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *f;

	if (!d) {
		fd_close(fd);
		return;
	}
	while ((f = readdir(d))) {
		const struct exec *x = map_get(s->by_id, f->d_name);

		if (strncmp(f->d_name, "ex_", 3) == 0 && (!x || x->cgroup < 0))
			(void)cgroup_remove(s->g->held.workload, f->d_name);
	}
	closedir(d);
}

static void on_sweep(struct loop_timer *t)
{
	struct execs *s = container_of(t, struct execs, sweep);
	uint64_t now = loop_now_ms(s->g->loop);
	struct exec *x, *tmp;

	list_for_each_safe (x, tmp, &s->all, link)
		if (exec_is_over(x) && now - x->ended_ms >= EXEC_KEEP_MS)
			execs_remove(x);
	sweep_groups(s);
	/* an idle guest is not woken for nothing */
	if (s->n > 0)
		loop_timer_set(s->g->loop, &s->sweep, SWEEP_MS, on_sweep);
}

bool execs_make_room(struct execs *s)
{
	struct exec *x, *tmp;

	list_for_each_safe (x, tmp, &s->all, link) {
		if (s->n < EXECS_MAX)
			return true;
		if (exec_is_over(x))
			execs_remove(x);
	}
	return s->n < EXECS_MAX;
}

void execs_insert(struct execs *s, struct exec *x)
{
	CHECK(map_set(s->by_id, x->id, x) == NULL);
	list_add_tail(&s->all, &x->link);
	s->n++;
	if (!s->sweep.loop)
		loop_timer_set(s->g->loop, &s->sweep, SWEEP_MS, on_sweep);
}
