/* SPDX-License-Identifier: Apache-2.0 */

/* A daemon that dies and comes back: what is taken over, and what is not. */

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "sandboxd/test-fakes.h"
#include "sandboxd/vm.h"

#define SB1 "sb00000000000000000001"
#define SB2 "sb00000000000000000002"

static struct fakes *begin_running(void)
{
	struct fakes *f = fakes_new(0);
	struct outcome o;
	struct spec spec;

	fakes_start(f);
	fake_spec(1, &spec);
	fake_checkpoint(f, &spec);
	fake_ensure(f, SB1, 3, 20000, &o);
	T_TRUE(o.is_ok);
	return f;
}

static uint32_t slot_of(struct fakes *f, const char *id)
{
	return sandbox_get(f->node, id)->vm->slot->number;
}

TEST(running_is_taken_over)
{
	struct fakes *f = begin_running();
	struct sandbox *s;
	struct outcome o;

	fakes_stop(f);
	T_INT(fake_vms(f), 1);
	fakes_start(f);
	s = sandbox_get(f->node, SB1);
	T_TRUE(s != NULL);
	T_STR(sandbox_observed(s), "running");
	T_INT(s->generation, 3);
	T_INT(fake_vms(f), 1);
	T_INT(f->node->events.next, 1);
	T_TRUE(f->node->memory_used_mib > 0);
	fake_end(f, SB1, 4, 20000, &o);
	T_TRUE(o.is_ok);
	T_TRUE(fakes_are_clean(f, NULL));
	fakes_free(f);
}

TEST(taken_over_keeps_its_overlay)
{
	struct fakes *f = begin_running();

	fakes_stop(f);
	fakes_start(f);
	fakes_run_ms(f, 200);
	T_INT(map_len(f->overlays), 1);
	fakes_free(f);
}

TEST(taken_over_refuses_older_commands)
{
	struct fakes *f = begin_running();
	struct outcome o;

	fakes_stop(f);
	fakes_start(f);
	fake_ensure(f, SB1, 2, 20000, &o);
	T_INT(o.fault.code, FAULT_STALE);
	fake_ensure(f, SB1, 3, 20000, &o);
	T_TRUE(o.is_ok);
	fakes_free(f);
}

TEST(taken_over_that_dies_is_told)
{
	struct fakes *f = begin_running();

	fakes_stop(f);
	fakes_start(f);
	fake_kill(f, sandbox_get(f->node, SB1)->vm->vmm.pid);
	fakes_until(f, fakes_are_clean, NULL);
	T_STR(events_next(&f->node->events, 0)->reason, "vmm_exit");
	fakes_free(f);
}

TEST(restoring_is_destroyed)
{
	struct fakes *f = begin_running();
	struct journal j;

	T_INT(journal_read(f->node->journal_fd, slot_of(f, SB1), &j), 0);
	j.step = JOURNAL_RESTORING;
	T_INT(journal_write(f->node->journal_fd, &j), 0);
	fakes_stop(f);
	fakes_start(f);
	T_TRUE(sandbox_get(f->node, SB1) == NULL);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(broken_journal_is_destroyed)
{
	struct fakes *f = begin_running();
	struct journal j;

	T_INT(journal_read(f->node->journal_fd, slot_of(f, SB1), &j), 0);
	snprintf(j.vm, sizeof(j.vm), "x");
	T_INT(journal_write(f->node->journal_fd, &j), 0);
	fakes_stop(f);
	fakes_start(f);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(confirmed_is_opened)
{
	struct fakes *f = begin_running();
	struct journal j;
	uint32_t slot = slot_of(f, SB1);

	T_INT(journal_read(f->node->journal_fd, slot, &j), 0);
	j.step = JOURNAL_CONFIRMED;
	T_INT(journal_write(f->node->journal_fd, &j), 0);
	fakes_stop(f);
	f->slots[slot].phase = MON_CONFIRMED;
	fakes_start(f);
	T_TRUE(sandbox_get(f->node, SB1) != NULL);
	T_INT(f->slots[slot].phase, MON_OPENED);
	fakes_free(f);
}

static void dies_meanwhile(bool vmm, const char *reason, unsigned oom)
{
	struct fakes *f = begin_running();
	struct fake_slot *s = &f->slots[slot_of(f, SB1)];

	fakes_stop(f);
	fake_kill(f, vmm ? s->vmm_pid : s->monitor_pid);
	s->oom_kills = oom;
	fakes_start(f);
	fakes_until(f, fakes_are_clean, NULL);
	T_STR(events_next(&f->node->events, 0)->sandbox, SB1);
	T_STR(events_next(&f->node->events, 0)->reason, reason);
	fakes_free(f);
}

TEST(vmm_died_meanwhile)
{
	dies_meanwhile(true, "vmm_exit", 0);
}

TEST(vmm_died_of_memory_meanwhile)
{
	dies_meanwhile(true, "oom", 2);
}

TEST(monitor_died_meanwhile)
{
	dies_meanwhile(false, "vmm_error", 0);
}

TEST(monitor_that_says_nothing_is_not_adopted)
{
	struct fakes *f = begin_running();

	fake_set(f, FAKE_MONITOR, MON_STATUS, FAKE_SILENT);
	fakes_stop(f);
	fakes_start(f);
	T_STR(events_next(&f->node->events, 0)->reason, "vmm_error");
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(monitor_in_another_phase_is_not_adopted)
{
	struct fakes *f = begin_running();
	uint32_t slot = slot_of(f, SB1);

	fakes_stop(f);
	f->slots[slot].phase = MON_CONNECTED;
	fakes_start(f);
	T_STR(events_next(&f->node->events, 0)->reason, "vmm_error");
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(waiting_vmms_are_destroyed)
{
	struct fakes *f = fakes_new(1);
	struct outcome o;
	struct spec spec;

	fakes_start(f);
	fake_spec(1, &spec);
	fake_checkpoint(f, &spec);
	fake_ensure(f, SB1, 1, 20000, &o);
	fake_end(f, SB1, 2, 20000, &o);
	while (fake_vms(f) == 0)
		fakes_run_ms(f, 10);
	fakes_stop(f);
	fakes_start(f);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(slot_that_noded_lost_is_told)
{
	struct fakes *f = begin_running();
	struct fake_slot *s = &f->slots[slot_of(f, SB1)];

	fakes_stop(f);
	fake_kill(f, s->vmm_pid);
	fake_kill(f, s->monitor_pid);
	s->is_there = false;
	fakes_start(f);
	T_STR(events_next(&f->node->events, 0)->reason, "vmm_exit");
	T_TRUE(sandbox_get(f->node, SB1) == NULL);
	fakes_until(f, fakes_are_clean, NULL);
	s->is_there = true;
	fakes_free(f);
}

TEST(overlays_of_nobody_are_dropped)
{
	struct fakes *f = begin_running();

	fakes_stop(f);
	map_set(f->overlays, "vm-11111111111111111111", f);
	map_set(f->overlays, "vm-22222222222222222222", f);
	fakes_start(f);
	while (map_len(f->overlays) > 1)
		fakes_run_ms(f, 10);
	T_TRUE(map_get(f->overlays, sandbox_get(f->node, SB1)->vm->id) != NULL);
	fakes_free(f);
}

TEST(store_that_comes_later_is_cleaned_too)
{
	struct fakes *f = begin_running();

	fakes_stop(f);
	fakes_down(f, FAKE_STORE);
	map_set(f->overlays, "vm-11111111111111111111", f);
	fakes_start(f);
	fakes_up(f, FAKE_STORE);
	while (map_len(f->overlays) > 1)
		fakes_run_ms(f, 10);
	fakes_free(f);
}

TEST(new_incarnation_each_start)
{
	struct fakes *f = begin_running();
	char before[21];

	memcpy(before, f->node->incarnation, sizeof(before));
	fakes_stop(f);
	fakes_start(f);
	T_TRUE(strcmp(before, f->node->incarnation) != 0);
	fakes_free(f);
}

TEST(two_are_taken_over)
{
	struct fakes *f = begin_running();
	struct outcome o;

	fake_ensure(f, SB2, 1, 20000, &o);
	T_TRUE(o.is_ok);
	fakes_stop(f);
	fakes_start(f);
	T_TRUE(sandbox_get(f->node, SB1) && sandbox_get(f->node, SB2));
	T_INT(f->counts[FAKE_NODED][NODED_SLOT_DESTROY] <= FAKE_SLOTS, 1);
	fakes_free(f);
}
