/* SPDX-License-Identifier: Apache-2.0 */

/* Warm VMs: made ahead, given away once, replaced, and given up. */

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "sandboxd/stats.h"
#include "sandboxd/test-fakes.h"
#include "sandboxd/vm.h"
#include "sandboxd/waiting.h"

#define SB1 "sb00000000000000000001"
#define SB2 "sb00000000000000000002"
#define SB3 "sb00000000000000000003"

static struct fakes *begin(uint32_t waiting)
{
	struct fakes *f = fakes_new(waiting);
	struct spec spec;

	fakes_start(f);
	fake_spec(1, &spec);
	fake_checkpoint(f, &spec);
	return f;
}

static bool has_warm(struct fakes *f, void *n)
{
	return waiting_count(f->node->waiting) == *(unsigned *)n;
}

static void until_warm(struct fakes *f, unsigned n)
{
	fakes_until(f, has_warm, &n);
}

static unsigned loads(const struct fakes *f)
{
	return f->counts[FAKE_MONITOR][MON_LOAD];
}

/* A sandbox was here, so its release is warm: one VM, nothing else. */
static struct fakes *begin_warm(void)
{
	struct fakes *f = begin(1);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	fake_end(f, SB1, 2, 20000, &o);
	T_TRUE(o.is_ok);
	until_warm(f, 1);
	return f;
}

static void ask_ensure(struct fakes *f, const char *id, unsigned release,
		       struct outcome *o)
{
	struct command cmd;
	struct spec spec;

	outcome_init(o);
	fake_spec(release, &spec);
	fake_command(f, 1, 20000, &cmd);
	sandbox_ensure(f->node, id, &cmd, &spec, NULL, &o->w);
}

static struct fake_slot *warm_slot(struct fakes *f)
{
	for (unsigned i = 0; i < FAKE_SLOTS; i++)
		if (f->slots[i].vmm_pid && f->slots[i].phase == MON_CONNECTED)
			return &f->slots[i];
	test_fail(__FILE__, __LINE__, "no VM is warm");
}

TEST(is_made_after_the_first_create)
{
	struct fakes *f = begin_warm();

	T_INT(fake_vms(f), 1);
	T_INT(f->last_load.flags, MON_WARM | MON_PROBE);
	T_INT(f->last_load_fds, 5);
	T_INT(map_len(f->overlays), 1);
	fakes_free(f);
}

TEST(a_create_loads_without_flags)
{
	struct fakes *f = begin(0);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	T_INT(f->last_load.flags, 0);
	T_STR(sandbox_get(f->node, SB1)->path, "spawn");
	fakes_run_ms(f, 400);
	T_INT(waiting_count(f->node->waiting), 0);
	T_INT(fake_vms(f), 1);
	fakes_free(f);
}

TEST(has_no_journal)
{
	struct fakes *f = begin_warm();

	T_INT(fake_journals(f), 0);
	fakes_free(f);
}

TEST(claim_renews_and_opens_only)
{
	struct fakes *f = begin_warm();
	unsigned loaded = loads(f);
	unsigned spawned = f->counts[FAKE_NODED][NODED_SPAWN_VMM];
	unsigned overlays = f->counts[FAKE_STORE][ST_OVERLAY_NEW];
	double warm = stats_get_claimed(CLAIM_WARM);
	struct outcome o;

	fake_ensure(f, SB2, 1, 20000, &o);
	T_TRUE(o.is_ok);
	T_INT(loads(f), loaded);
	T_INT(f->counts[FAKE_NODED][NODED_SPAWN_VMM], spawned);
	T_INT(f->counts[FAKE_STORE][ST_OVERLAY_NEW], overlays);
	T_STR(f->last_renew.sandbox, SB2);
	T_STR(f->last_renew.hostname, "box");
	T_STR(sandbox_get(f->node, SB2)->path, "warm");
	T_INT(f->node->memory_warm_mib, 0);
	T_TRUE(stats_get_claimed(CLAIM_WARM) == warm + 1);
	fakes_free(f);
}

TEST(claimed_one_is_replaced)
{
	struct fakes *f = begin_warm();
	struct outcome o;

	fake_ensure(f, SB2, 1, 20000, &o);
	T_INT(waiting_count(f->node->waiting), 0);
	until_warm(f, 1);
	T_INT(fake_vms(f), 2);
	fakes_free(f);
}

TEST(two_creates_never_share_one)
{
	struct fakes *f = begin_warm();
	struct outcome a, b;

	ask_ensure(f, SB2, 1, &a);
	ask_ensure(f, SB3, 1, &b);
	fakes_until(f, outcome_is_done, &a);
	fakes_until(f, outcome_is_done, &b);
	T_TRUE(a.is_ok && b.is_ok);
	T_TRUE(sandbox_get(f->node, SB2)->vm != sandbox_get(f->node, SB3)->vm);
	T_STR(sandbox_get(f->node, SB2)->path, "warm");
	T_STR(sandbox_get(f->node, SB3)->path, "spawn");
	fakes_free(f);
}

TEST(ended_sandbox_is_never_warm_again)
{
	struct fakes *f = begin_warm();
	int pid = warm_slot(f)->vmm_pid;
	struct outcome o;

	fake_ensure(f, SB2, 1, 20000, &o);
	T_INT(sandbox_get(f->node, SB2)->vm->vmm.pid, pid);
	fake_end(f, SB2, 2, 20000, &o);
	until_warm(f, 1);
	T_TRUE(warm_slot(f)->vmm_pid != pid);
	fakes_free(f);
}

TEST(journal_says_restoring_before_it_goes_on)
{
	struct fakes *f = begin_warm();
	uint32_t slot = warm_slot(f)->number;
	struct outcome o;
	struct journal j;

	fake_set(f, FAKE_MONITOR, MON_RENEW, FAKE_SILENT);
	ask_ensure(f, SB2, 1, &o);
	while (f->counts[FAKE_MONITOR][MON_RENEW] < 2)
		fakes_run_ms(f, 5);
	T_INT(journal_read(f->node->journal_fd, slot, &j), 0);
	T_INT(j.step, JOURNAL_RESTORING);
	T_STR(j.sandbox, SB2);
	/* ... so that a restart now destroys it. */
	fakes_stop(f);
	fake_set(f, FAKE_MONITOR, MON_RENEW, FAKE_OK);
	fakes_start(f);
	T_TRUE(sandbox_get(f->node, SB2) == NULL);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(restart_destroys_it)
{
	struct fakes *f = begin_warm();

	fakes_stop(f);
	T_INT(fake_vms(f), 1);
	fakes_start(f);
	T_INT(waiting_count(f->node->waiting), 0);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(refill_waits_while_a_create_is_in_hand)
{
	struct fakes *f = begin_warm();
	struct outcome a, b;

	fake_set(f, FAKE_MONITOR, MON_OPEN, FAKE_SILENT);
	ask_ensure(f, SB2, 1, &a);
	fakes_run_ms(f, 600);
	T_INT(fake_vms(f), 1);
	fake_end(f, SB2, 2, 20000, &b);
	T_TRUE(b.is_ok && a.is_done);
	until_warm(f, 1);
	fakes_free(f);
}

TEST(second_one_waits_for_the_first_commands)
{
	struct fakes *f = begin(2);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	until_warm(f, 2);
	fake_ensure(f, SB2, 1, 20000, &o);
	T_STR(sandbox_get(f->node, SB2)->path, "warm");
	T_INT(waiting_count(f->node->waiting), 1);
	fakes_run_ms(f, 250);
	T_INT(fake_vms(f), 3);
	until_warm(f, 2);
	fakes_free(f);
}

TEST(dead_one_is_replaced_after_a_pause)
{
	struct fakes *f = begin_warm();
	unsigned loaded = loads(f);

	fake_kill(f, warm_slot(f)->vmm_pid);
	until_warm(f, 0);
	fakes_run_ms(f, 1000);
	T_INT(loads(f), loaded);
	until_warm(f, 1);
	T_INT(loads(f), loaded + 1);
	fakes_free(f);
}

TEST(failing_probe_does_not_loop)
{
	struct fakes *f = begin(1);
	double failed = stats_get_warmed(false);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	fake_set(f, FAKE_MONITOR, MON_LOAD, FAKE_ERROR);
	while (loads(f) < 2)
		fakes_run_ms(f, 10);
	fakes_run_ms(f, 1500);
	T_INT(loads(f), 2);
	T_INT(fake_vms(f), 1);
	T_INT(map_len(f->overlays), 1);
	T_INT(f->node->memory_warm_mib, 0);
	T_TRUE(stats_get_warmed(false) == failed + 1);
	fakes_free(f);
}

TEST(failing_probe_leaves_creates_alone)
{
	struct fakes *f = begin(1);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	f->is_once = true;
	fake_set(f, FAKE_MONITOR, MON_LOAD, FAKE_ERROR);
	while (loads(f) < 2)
		fakes_run_ms(f, 10);
	fake_ensure(f, SB2, 1, 20000, &o);
	T_TRUE(o.is_ok);
	T_STR(sandbox_get(f->node, SB2)->path, "spawn");
	fakes_free(f);
}

TEST(one_being_loaded_is_waited_for_and_replaced_if_it_fails)
{
	struct fakes *f = begin(1);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	f->is_once = true;
	fake_set(f, FAKE_MONITOR, MON_LOAD, FAKE_SILENT);
	while (loads(f) < 2)
		fakes_run_ms(f, 5);
	ask_ensure(f, SB2, 1, &o);
	fakes_run_ms(f, 100);
	T_TRUE(!o.is_done);
	for (unsigned i = 0; i < FAKE_SLOTS; i++)
		if (f->slots[i].vmm_pid && f->slots[i].phase == MON_WAITING)
			fake_kill(f, f->slots[i].vmm_pid);
	fakes_until(f, outcome_is_done, &o);
	T_TRUE(o.is_ok);
	T_STR(sandbox_get(f->node, SB2)->path, "spawn");
	fakes_free(f);
}

TEST(one_that_is_not_loaded_yet_is_taken_as_it_is)
{
	struct fakes *f = begin(1);
	struct outcome o;
	unsigned opened, spawned;

	fake_ensure(f, SB1, 1, 20000, &o);
	opened = f->counts[FAKE_STORE][ST_OPEN];
	f->is_once = true;
	fake_set(f, FAKE_STORE, ST_OPEN, FAKE_SILENT);
	while (f->counts[FAKE_STORE][ST_OPEN] < opened + 4)
		fakes_run_ms(f, 5);
	spawned = f->counts[FAKE_NODED][NODED_SPAWN_VMM];
	T_TRUE(f->node->memory_warm_mib > 0);
	ask_ensure(f, SB2, 1, &o);
	fakes_until(f, outcome_is_done, &o);
	T_TRUE(o.is_ok);
	T_STR(sandbox_get(f->node, SB2)->path, "restore");
	T_INT(f->counts[FAKE_NODED][NODED_SPAWN_VMM], spawned);
	T_INT(f->last_load.flags, 0);
	T_INT(f->node->memory_warm_mib, 0);
	T_INT(map_len(f->overlays), 2);
	fakes_free(f);
}

TEST(create_that_waits_for_one_can_be_ended)
{
	struct fakes *f = begin(1);
	struct outcome a, b;

	fake_ensure(f, SB1, 1, 20000, &a);
	f->is_once = true;
	fake_set(f, FAKE_MONITOR, MON_LOAD, FAKE_SILENT);
	while (loads(f) < 2)
		fakes_run_ms(f, 5);
	ask_ensure(f, SB2, 1, &a);
	fakes_run_ms(f, 20);
	fake_end(f, SB2, 2, 20000, &b);
	T_TRUE(b.is_ok);
	T_INT(a.fault.code, FAULT_CANCELLED);
	until_warm(f, 1);
	T_INT(fake_vms(f), 2);
	fakes_free(f);
}

TEST(one_that_cannot_be_renewed_is_replaced_by_a_cold_one)
{
	struct fakes *f = begin_warm();
	int pid = warm_slot(f)->vmm_pid;
	struct outcome o;

	f->is_once = true;
	fake_set(f, FAKE_MONITOR, MON_RENEW, FAKE_ERROR);
	fake_ensure(f, SB2, 1, 20000, &o);
	T_TRUE(o.is_ok);
	T_STR(sandbox_get(f->node, SB2)->path, "spawn");
	T_TRUE(sandbox_get(f->node, SB2)->vm->vmm.pid != pid);
	fakes_free(f);
}

TEST(one_that_dies_when_claimed_is_replaced_by_a_cold_one)
{
	struct fakes *f = begin_warm();
	int pid = warm_slot(f)->vmm_pid;
	struct outcome o;

	f->is_once = true;
	fake_set(f, FAKE_MONITOR, MON_RENEW, FAKE_SILENT);
	ask_ensure(f, SB2, 1, &o);
	while (f->counts[FAKE_MONITOR][MON_RENEW] < 2)
		fakes_run_ms(f, 5);
	fake_kill(f, pid);
	fakes_until(f, outcome_is_done, &o);
	T_TRUE(o.is_ok);
	T_STR(sandbox_get(f->node, SB2)->path, "spawn");
	fakes_free(f);
}

/* Room for one sandbox and one warm VM of 256 MiB. */
static struct fakes *begin_narrow(void)
{
	struct fakes *f = fakes_new(2);
	struct outcome o;
	struct spec spec;

	f->conf.memory_mib = 2 * (256 + NODE_VM_EXTRA_MIB);
	fakes_start(f);
	for (unsigned i = 1; i <= 2; i++) {
		fake_spec(i, &spec);
		fake_checkpoint(f, &spec);
	}
	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	until_warm(f, 1);
	return f;
}

TEST(memory_bounds_it)
{
	struct fakes *f = begin_narrow();

	fakes_run_ms(f, 500);
	T_INT(waiting_count(f->node->waiting), 1);
	T_INT(f->node->memory_warm_mib, 256 + NODE_VM_EXTRA_MIB);
	fakes_free(f);
}

TEST(is_given_up_for_another_release)
{
	struct fakes *f = begin_narrow();
	struct outcome o;

	ask_ensure(f, SB2, 2, &o);
	fakes_until(f, outcome_is_done, &o);
	T_TRUE(o.is_ok);
	T_INT(waiting_count(f->node->waiting), 0);
	T_INT(f->node->memory_warm_mib, 0);
	fakes_run_ms(f, 500);
	T_INT(fake_vms(f), 2);
	fakes_free(f);
}

TEST(is_used_and_not_given_up_for_its_own_release)
{
	struct fakes *f = begin_narrow();
	struct outcome o;

	fake_ensure(f, SB2, 1, 20000, &o);
	T_TRUE(o.is_ok);
	T_STR(sandbox_get(f->node, SB2)->path, "warm");
	fake_ensure(f, SB3, 1, 20000, &o);
	T_INT(o.fault.code, FAULT_CAPACITY);
	fakes_free(f);
}

TEST(its_slot_is_given_up_too)
{
	struct fakes *f = fakes_new(2);
	struct outcome o;
	struct spec spec;

	f->conf.slots = 2;
	fakes_start(f);
	for (unsigned i = 1; i <= 2; i++) {
		fake_spec(i, &spec);
		fake_checkpoint(f, &spec);
	}
	fake_ensure(f, SB1, 1, 20000, &o);
	until_warm(f, 1);
	ask_ensure(f, SB2, 2, &o);
	fakes_until(f, outcome_is_done, &o);
	T_TRUE(o.is_ok);
	T_INT(fake_vms(f), 2);
	fakes_free(f);
}

TEST(changed_checkpoint_destroys_it)
{
	struct fakes *f = begin_warm();
	struct spec spec;
	struct err e = { 0 };
	char ref[72];

	fake_spec(1, &spec);
	T_INT(prepares_ref(f->node->prepares, &spec, ref, &e), 0);
	prepares_drop(f->node->prepares, ref);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(five_releases_keep_four)
{
	struct fakes *f = begin(1);
	struct outcome o;
	struct spec spec;
	char id[32];

	for (unsigned i = 1; i <= 5; i++) {
		fake_spec(i, &spec);
		fake_checkpoint(f, &spec);
		snprintf(id, sizeof(id), "sb0000000000000000001%u", i);
		ask_ensure(f, id, i, &o);
		fakes_until(f, outcome_is_done, &o);
		T_TRUE(o.is_ok);
		fake_end(f, id, 2, 20000, &o);
		until_warm(f, i < 4 ? i : 4);
	}
	fakes_run_ms(f, 500);
	T_INT(waiting_count(f->node->waiting), 4);
	T_INT(fake_vms(f), 4);
	/* the first one is the one that is not */
	ask_ensure(f, SB1, 1, &o);
	fakes_until(f, outcome_is_done, &o);
	T_STR(sandbox_get(f->node, SB1)->path, "spawn");
	fakes_free(f);
}

TEST(prepared_release_is_warm_before_any_create)
{
	struct fakes *f = begin(2);
	struct outcome o;
	struct spec spec;
	struct fault fault;

	outcome_init(&o);
	fake_spec(1, &spec);
	T_TRUE(prepare_need(f->node->prepares, &spec, &o.w, &fault) != NULL);
	fakes_until(f, outcome_is_done, &o);
	T_TRUE(o.is_ok);
	until_warm(f, 2);
	fake_ensure(f, SB1, 1, 20000, &o);
	T_STR(sandbox_get(f->node, SB1)->path, "warm");
	fakes_free(f);
}
