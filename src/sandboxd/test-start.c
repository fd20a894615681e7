/* SPDX-License-Identifier: Apache-2.0 */

/* A create at each step x {error, silence, disconnect}: answers typed within
 * its time and leaves nothing behind; and the good path. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "sandboxd/test-fakes.h"
#include "sandboxd/vm.h"
#include "sandboxd/waiting.h"

#define SB1 "sb00000000000000000001"
#define SB2 "sb00000000000000000002"

static struct fakes *begin(uint32_t waiting)
{
	struct fakes *f = fakes_new(waiting);
	struct spec spec;

	fakes_start(f);
	fake_spec(1, &spec);
	fake_checkpoint(f, &spec);
	return f;
}

/* One fault at one step. The silent ones end with the command's time. */
static void fault_case(enum fake_who who, unsigned op, enum fake_mode mode,
		       enum fault_code expected)
{
	struct fakes *f = begin(0);
	struct outcome o;

	f->is_once = true;
	fake_set(f, who, op, mode);
	fake_ensure(f, SB1, 1, mode == FAKE_SILENT ? 400 : 20000, &o);
	T_TRUE(!o.is_ok);
	T_INT(o.fault.code, expected);
	T_TRUE(o.fault.msg[0] != '\0');
	T_TRUE(f->counts[who][op] > 0);
	/* What was not answered may still be waited for by the slots. */
	fake_set(f, who, op, FAKE_OK);
	fakes_until(f, fakes_are_clean, NULL);
	/* The same command may be tried again, and works. (What was not
	 * answered may hold the checkpoint's search for minutes.) */
	while (mode != FAKE_SILENT && !o.is_ok) {
		fake_ensure(f, SB1, 1, 20000, &o);
		fakes_run_ms(f, 20);
	}
	fakes_free(f);
}

#define FAULTS(name, who, op, on_error, on_close)                              \
	TEST(name##_errs)                                                      \
	{                                                                      \
		fault_case(who, op, FAKE_ERROR, on_error);                     \
	}                                                                      \
	TEST(name##_is_silent)                                                 \
	{                                                                      \
		fault_case(who, op, FAKE_SILENT, FAULT_TIMEOUT);               \
	}                                                                      \
	TEST(name##_disconnects)                                               \
	{                                                                      \
		fault_case(who, op, FAKE_CLOSE, on_close);                     \
	}

FAULTS(spawn_vmm, FAKE_NODED, NODED_SPAWN_VMM, FAULT_NODE, FAULT_NODE)
FAULTS(spawn_monitor, FAKE_NODED, NODED_SPAWN_MONITOR, FAULT_NODE, FAULT_NODE)
FAULTS(ref_get, FAKE_STORE, ST_REF_GET, FAULT_STORE, FAULT_STORE)
FAULTS(open_artifact, FAKE_STORE, ST_OPEN, FAULT_STORE, FAULT_STORE)
FAULTS(overlay_new, FAKE_STORE, ST_OVERLAY_NEW, FAULT_STORE, FAULT_STORE)
FAULTS(monitor_status, FAKE_MONITOR, MON_STATUS, FAULT_VM, FAULT_VM)
FAULTS(monitor_load, FAKE_MONITOR, MON_LOAD, FAULT_VM, FAULT_VM)
FAULTS(monitor_renew, FAKE_MONITOR, MON_RENEW, FAULT_VM, FAULT_VM)
FAULTS(monitor_open, FAKE_MONITOR, MON_OPEN, FAULT_VM, FAULT_VM)

TEST(slot_create_errs)
{
	struct fakes *f = fakes_new(0);
	struct outcome o;
	struct spec spec;

	fake_set(f, FAKE_NODED, NODED_SLOT_CREATE, FAKE_ERROR);
	fakes_start(f);
	fake_spec(1, &spec);
	fake_checkpoint(f, &spec);
	fake_ensure(f, SB1, 1, 20000, &o);
	T_INT(o.fault.code, FAULT_NODE);
	T_HAS(o.fault.msg, "noded says no");
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(slot_create_is_silent)
{
	struct fakes *f = fakes_new(0);
	struct outcome o;
	struct spec spec;

	fake_set(f, FAKE_NODED, NODED_SLOT_CREATE, FAKE_SILENT);
	fakes_start(f);
	fake_spec(1, &spec);
	fake_checkpoint(f, &spec);
	fake_ensure(f, SB1, 1, 300, &o);
	T_INT(o.fault.code, FAULT_TIMEOUT);
	T_HAS(o.fault.msg, "starting a VMM");
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(store_full_is_no_space)
{
	struct fakes *f = begin(0);
	struct outcome o;

	fake_set(f, FAKE_STORE, ST_OVERLAY_NEW, FAKE_ERROR);
	f->error_code[FAKE_STORE][ST_OVERLAY_NEW] = -ENOSPC;
	fake_ensure(f, SB1, 1, 20000, &o);
	T_INT(o.fault.code, FAULT_NO_SPACE);
	T_INT(fault_info(o.fault.code)->status, 507);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(store_is_down)
{
	struct fakes *f = begin(0);
	struct outcome o;

	fakes_down(f, FAKE_STORE);
	fakes_run_ms(f, 50);
	fake_ensure(f, SB1, 1, 20000, &o);
	T_INT(o.fault.code, FAULT_STORE);
	fakes_up(f, FAKE_STORE);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(noded_is_down)
{
	struct fakes *f = begin(0);
	struct outcome o;

	fakes_run_ms(f, 100); /* slots stand ready */
	fakes_down(f, FAKE_NODED);
	fakes_run_ms(f, 50);
	fake_ensure(f, SB1, 1, 20000, &o);
	T_INT(o.fault.code, FAULT_NODE);
	fakes_up(f, FAKE_NODED);
	fakes_until(f, fakes_are_clean, NULL);
	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	fakes_free(f);
}

TEST(running_after_all_steps)
{
	struct fakes *f = begin(0);
	struct outcome o;
	struct sandbox *s;

	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	s = sandbox_get(f->node, SB1);
	T_TRUE(s && s->vm);
	T_STR(sandbox_observed(s), "running");
	T_INT(fake_vms(f), 1);
	T_INT(f->slots[s->vm->slot->number].phase, MON_OPENED);
	T_TRUE(s->timings_us[TIMING_TOTAL] > 0);
	T_INT(s->timings_us[TIMING_STATE], 1500);
	fakes_free(f);
}

TEST(load_names_disks_base_first)
{
	struct fakes *f = begin(0);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	T_INT(f->last_load.n_disks, 3);
	T_INT(f->last_load_fds, 5); /* state, memory, root, layer, overlay */
	T_INT(f->last_load.disks[0].qcow2, 0);
	T_INT(f->last_load.disks[0].writable, 0);
	T_INT(f->last_load.disks[1].qcow2, 1);
	T_INT(f->last_load.disks[1].writable, 0);
	T_INT(f->last_load.disks[2].qcow2, 1);
	T_INT(f->last_load.disks[2].writable, 1);
	fakes_free(f);
}

TEST(renew_carries_the_identity)
{
	struct fakes *f = begin(0);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	T_STR(f->last_renew.sandbox, SB1);
	T_STR(f->last_renew.hostname, "box");
	fakes_free(f);
}

TEST(journal_is_open_when_running)
{
	struct fakes *f = begin(0);
	struct outcome o;
	struct journal j;
	struct sandbox *s;

	fake_ensure(f, SB1, 7, 20000, &o);
	s = sandbox_get(f->node, SB1);
	T_INT(journal_read(f->node->journal_fd, s->vm->slot->number, &j), 0);
	T_INT(j.step, JOURNAL_OPEN);
	T_INT(j.generation, 7);
	T_STR(j.sandbox, SB1);
	T_STR(j.vm, s->vm->id);
	fakes_free(f);
}

TEST(end_leaves_nothing)
{
	struct fakes *f = begin(0);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	fake_end(f, SB1, 2, 20000, &o);
	T_TRUE(o.is_ok);
	T_TRUE(fakes_are_clean(f, NULL));
	fakes_free(f);
}

TEST(end_waits_for_a_stuck_slot_and_repeats)
{
	struct fakes *f = begin(0);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	f->is_once = true;
	fake_set(f, FAKE_NODED, NODED_SLOT_DESTROY, FAKE_ERROR);
	fake_end(f, SB1, 2, 20000, &o);
	T_TRUE(o.is_ok);
	T_TRUE(f->counts[FAKE_NODED][NODED_SLOT_DESTROY] >= 2);
	T_TRUE(fakes_are_clean(f, NULL));
	fakes_free(f);
}

TEST(end_waits_for_a_stuck_overlay_and_repeats)
{
	struct fakes *f = begin(0);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	f->is_once = true;
	fake_set(f, FAKE_STORE, ST_OVERLAY_DROP, FAKE_CLOSE);
	fake_end(f, SB1, 2, 20000, &o);
	T_TRUE(o.is_ok);
	T_TRUE(fakes_are_clean(f, NULL));
	fakes_free(f);
}

TEST(end_cancels_a_start_at_load)
{
	struct fakes *f = begin(0);
	struct outcome ensured, ended;
	struct command cmd;
	struct spec spec;

	fake_set(f, FAKE_MONITOR, MON_LOAD, FAKE_SILENT);
	outcome_init(&ensured);
	fake_spec(1, &spec);
	fake_command(f, 1, 20000, &cmd);
	sandbox_ensure(f->node, SB1, &cmd, &spec, NULL, &ensured.w);
	while (f->counts[FAKE_MONITOR][MON_LOAD] == 0)
		fakes_run_ms(f, 5);
	fake_end(f, SB1, 2, 20000, &ended);
	T_TRUE(ended.is_ok);
	T_TRUE(ensured.is_done);
	T_INT(ensured.fault.code, FAULT_CANCELLED);
	T_TRUE(fakes_are_clean(f, NULL));
	fakes_free(f);
}

TEST(vmm_killed_while_loading)
{
	struct fakes *f = begin(0);
	struct outcome o;
	struct command cmd;
	struct spec spec;

	fake_set(f, FAKE_MONITOR, MON_LOAD, FAKE_SILENT);
	outcome_init(&o);
	fake_spec(1, &spec);
	fake_command(f, 1, 60000, &cmd);
	sandbox_ensure(f->node, SB1, &cmd, &spec, NULL, &o.w);
	while (f->counts[FAKE_MONITOR][MON_LOAD] == 0)
		fakes_run_ms(f, 5);
	fake_kill(f, sandbox_get(f->node, SB1)->vm->vmm.pid);
	fakes_until(f, outcome_is_done, &o);
	T_INT(o.fault.code, FAULT_VM);
	T_HAS(o.fault.msg, "vmm_exit");
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

static bool one_waits(struct fakes *f, void *arg)
{
	(void)arg;
	return waiting_count(f->node->waiting) == 1;
}

TEST(waiting_vmm_is_used_and_replaced)
{
	struct fakes *f = begin(1);
	struct outcome o;
	unsigned spawned;

	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	fakes_until(f, one_waits, NULL);
	spawned = f->counts[FAKE_NODED][NODED_SPAWN_VMM];
	fake_ensure(f, SB2, 1, 20000, &o);
	T_TRUE(o.is_ok);
	T_INT(f->counts[FAKE_NODED][NODED_SPAWN_VMM], spawned);
	fakes_until(f, one_waits, NULL);
	T_INT(fake_vms(f), 3);
	fakes_free(f);
}

TEST(waiting_vmm_that_dies_is_replaced)
{
	struct fakes *f = begin(1);
	struct outcome o;
	unsigned spawned;

	fake_ensure(f, SB1, 1, 20000, &o);
	fake_end(f, SB1, 2, 20000, &o);
	fakes_until(f, one_waits, NULL);
	spawned = f->counts[FAKE_NODED][NODED_SPAWN_VMM];
	for (unsigned i = 0; i < FAKE_SLOTS; i++)
		if (f->slots[i].vmm_pid)
			fake_kill(f, f->slots[i].vmm_pid);
	while (f->counts[FAKE_NODED][NODED_SPAWN_VMM] == spawned)
		fakes_run_ms(f, 10);
	fakes_until(f, one_waits, NULL);
	T_INT(fake_vms(f), 1);
	fakes_free(f);
}

TEST(memory_is_a_limit)
{
	struct fakes *f = fakes_new(0);
	struct outcome o;
	struct spec spec;

	f->conf.memory_mib = 256 + NODE_VM_EXTRA_MIB;
	fakes_start(f);
	fake_spec(1, &spec);
	fake_checkpoint(f, &spec);
	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	fake_ensure(f, SB2, 1, 20000, &o);
	T_INT(o.fault.code, FAULT_CAPACITY);
	T_HAS(o.fault.msg, "memory");
	fake_end(f, SB1, 2, 20000, &o);
	fake_ensure(f, SB2, 1, 20000, &o);
	T_TRUE(o.is_ok);
	fakes_free(f);
}

TEST(slots_are_a_limit)
{
	struct fakes *f = fakes_new(0);
	struct outcome o;
	struct spec spec;

	f->conf.slots = 1;
	fakes_start(f);
	fake_spec(1, &spec);
	fake_checkpoint(f, &spec);
	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	fake_ensure(f, SB2, 1, 20000, &o);
	T_INT(o.fault.code, FAULT_CAPACITY);
	T_HAS(o.fault.msg, "slots");
	fakes_free(f);
}

TEST(root_own_and_client_user_are_let_in)
{
	struct fakes *f = begin(0);

	T_TRUE(node_lets_in(f->node, 0));
	T_TRUE(node_lets_in(f->node, geteuid()));
	T_TRUE(!node_lets_in(f->node, geteuid() + 4711));
	f->node->conf.client_uid = geteuid() + 4711;
	T_TRUE(node_lets_in(f->node, geteuid() + 4711));
	T_TRUE(!node_lets_in(f->node, geteuid() + 4712));
	T_TRUE(!node_lets_peer_in(f->node, -1));
	fakes_free(f);
}
