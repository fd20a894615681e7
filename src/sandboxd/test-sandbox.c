/* SPDX-License-Identifier: Apache-2.0 */

/* The order of commands, joining, tombstones, and how a running sandbox's end
 * is told. */

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "sandboxd/test-fakes.h"
#include "sandboxd/vm.h"

#define SB1 "sb00000000000000000001"

static struct fakes *begin(void)
{
	struct fakes *f = fakes_new(0);
	struct spec spec;

	fakes_start(f);
	fake_spec(1, &spec);
	fake_checkpoint(f, &spec);
	return f;
}

static struct fakes *begin_running(uint64_t generation)
{
	struct fakes *f = begin();
	struct outcome o;

	fake_ensure(f, SB1, generation, 20000, &o);
	T_TRUE(o.is_ok);
	return f;
}

TEST(ensure_twice_is_one)
{
	struct fakes *f = begin_running(1);
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	T_INT(fake_vms(f), 1);
	T_INT(f->counts[FAKE_MONITOR][MON_LOAD], 1);
	fakes_free(f);
}

TEST(ensure_joins_the_one_that_runs)
{
	struct fakes *f = begin();
	struct outcome a, b;
	struct command cmd;
	struct spec spec;

	outcome_init(&a);
	outcome_init(&b);
	fake_spec(1, &spec);
	fake_command(f, 1, 20000, &cmd);
	sandbox_ensure(f->node, SB1, &cmd, &spec, NULL, &a.w);
	sandbox_ensure(f->node, SB1, &cmd, &spec, NULL, &b.w);
	fakes_until(f, outcome_is_done, &a);
	fakes_until(f, outcome_is_done, &b);
	T_TRUE(a.is_ok && b.is_ok);
	T_INT(f->counts[FAKE_MONITOR][MON_LOAD], 1);
	fakes_free(f);
}

TEST(older_ensure_is_stale)
{
	struct fakes *f = begin_running(5);
	struct outcome o;

	fake_ensure(f, SB1, 4, 20000, &o);
	T_INT(o.fault.code, FAULT_STALE);
	fakes_free(f);
}

TEST(older_end_is_stale)
{
	struct fakes *f = begin_running(5);
	struct outcome o;

	fake_end(f, SB1, 4, 20000, &o);
	T_INT(o.fault.code, FAULT_STALE);
	T_INT(fake_vms(f), 1);
	fakes_free(f);
}

TEST(older_fence_is_stale)
{
	struct fakes *f = begin_running(5);
	struct outcome o;
	struct command cmd;

	fake_command(f, 9, 20000, &cmd);
	cmd.fence = 0;
	outcome_init(&o);
	sandbox_end(f->node, SB1, &cmd, NULL, &o.w);
	T_INT(o.fault.code, FAULT_STALE);
	fakes_free(f);
}

TEST(other_spec_is_refused)
{
	struct fakes *f = begin_running(1);
	struct outcome o;
	struct command cmd;
	struct spec spec;

	fake_spec(2, &spec);
	fake_command(f, 2, 20000, &cmd);
	outcome_init(&o);
	sandbox_ensure(f->node, SB1, &cmd, &spec, NULL, &o.w);
	T_INT(o.fault.code, FAULT_STATE);
	fakes_free(f);
}

TEST(end_of_the_unknown_is_success)
{
	struct fakes *f = begin();
	struct outcome o;

	fake_end(f, SB1, 3, 20000, &o);
	T_TRUE(o.is_ok);
	fakes_free(f);
}

TEST(end_overtakes_its_create)
{
	struct fakes *f = begin();
	struct outcome o;

	fake_end(f, SB1, 2, 20000, &o);
	fake_ensure(f, SB1, 1, 20000, &o);
	T_INT(o.fault.code, FAULT_STALE);
	T_INT(fake_vms(f), 0);
	fakes_free(f);
}

TEST(ended_is_not_created_again_by_the_same_command)
{
	struct fakes *f = begin_running(1);
	struct outcome o;

	fake_end(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	fake_ensure(f, SB1, 1, 20000, &o);
	T_INT(o.fault.code, FAULT_STATE);
	T_HAS(o.fault.msg, "request");
	fakes_free(f);
}

TEST(newer_generation_may_run_again)
{
	struct fakes *f = begin_running(1);
	struct outcome o;

	fake_end(f, SB1, 2, 20000, &o);
	fake_ensure(f, SB1, 3, 20000, &o);
	T_TRUE(o.is_ok);
	fakes_free(f);
}

TEST(end_twice_is_success)
{
	struct fakes *f = begin_running(1);
	struct outcome o;

	fake_end(f, SB1, 2, 20000, &o);
	fake_end(f, SB1, 2, 20000, &o);
	T_TRUE(o.is_ok);
	fakes_free(f);
}

TEST(ensure_while_ending_is_refused)
{
	struct fakes *f = begin_running(1);
	struct outcome end, o;
	struct command cmd;

	fake_set(f, FAKE_NODED, NODED_SLOT_DESTROY, FAKE_SILENT);
	outcome_init(&end);
	fake_command(f, 2, 20000, &cmd);
	sandbox_end(f->node, SB1, &cmd, NULL, &end.w);
	T_TRUE(!end.is_done);
	fake_ensure(f, SB1, 3, 20000, &o);
	T_INT(o.fault.code, FAULT_STATE);
	fakes_free(f);
}

static bool has_event(struct fakes *f, void *arg)
{
	(void)arg;
	return f->node->events.next > 1;
}

static void expect_gone(struct fakes *f, const char *reason)
{
	uint64_t begin_us = now_mono_us();
	const struct event *e;

	fakes_until(f, has_event, NULL);
	/* The promise is two seconds; a busy machine gets ten. */
	T_TRUE(now_mono_us() - begin_us < 10000000);
	e = events_next(&f->node->events, 0);
	T_TRUE(e != NULL);
	T_STR(e->sandbox, SB1);
	T_STR(e->reason, reason);
	T_INT(e->generation, 1);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(killed_vmm_is_vmm_exit)
{
	struct fakes *f = begin_running(1);

	fake_kill(f, sandbox_get(f->node, SB1)->vm->vmm.pid);
	expect_gone(f, "vmm_exit");
}

TEST(killed_vmm_with_oom_count_is_oom)
{
	struct fakes *f = begin_running(1);
	struct vm *v = sandbox_get(f->node, SB1)->vm;

	f->slots[v->slot->number].oom_kills = 1;
	fake_kill(f, v->vmm.pid);
	expect_gone(f, "oom");
}

TEST(killed_monitor_is_vmm_error)
{
	struct fakes *f = begin_running(1);

	fake_kill(f, sandbox_get(f->node, SB1)->vm->monitor.pid);
	expect_gone(f, "vmm_error");
}

TEST(closed_channel_is_vmm_error)
{
	struct fakes *f = begin_running(1);
	struct fake_slot *s =
	    &f->slots[sandbox_get(f->node, SB1)->vm->slot->number];

	s->chan = channel_free(s->chan);
	expect_gone(f, "vmm_error");
}

static void monitor_says(uint32_t reason, const char *expected)
{
	struct fakes *f = begin_running(1);

	fake_monitor_gone(f, sandbox_get(f->node, SB1)->vm->slot->number,
			  reason, "as the monitor saw it");
	expect_gone(f, expected);
}

TEST(monitor_says_panic)
{
	monitor_says(MON_REASON_GUEST_PANIC, "guest_panic");
}

TEST(monitor_says_out_of_memory)
{
	monitor_says(MON_REASON_GUEST_OOM, "oom");
}

TEST(monitor_says_shutdown)
{
	monitor_says(MON_REASON_GUEST_SHUTDOWN, "guest_shutdown");
}

TEST(monitor_says_lost)
{
	monitor_says(MON_REASON_GUEST_LOST, "guest_lost");
}

TEST(monitor_says_vmm_exit)
{
	monitor_says(MON_REASON_VMM_EXIT, "vmm_exit");
}

TEST(monitor_says_nonsense)
{
	monitor_says(4711, "vmm_error");
}

TEST(monitor_text_without_end)
{
	struct fakes *f = begin_running(1);
	char text[1024];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	fake_monitor_gone(f, sandbox_get(f->node, SB1)->vm->slot->number,
			  MON_REASON_GUEST_PANIC, text);
	expect_gone(f, "guest_panic");
}

TEST(gone_is_not_created_again_by_its_command)
{
	struct fakes *f = begin_running(1);
	struct outcome o;

	fake_kill(f, sandbox_get(f->node, SB1)->vm->vmm.pid);
	fakes_until(f, has_event, NULL);
	fakes_until(f, fakes_are_clean, NULL);
	fake_ensure(f, SB1, 1, 20000, &o);
	T_INT(o.fault.code, FAULT_STATE);
	T_HAS(o.fault.msg, "vmm_exit");
	fakes_free(f);
}

TEST(noded_restart_keeps_running_sandboxes)
{
	struct fakes *f = begin_running(1);
	struct outcome o;

	fakes_down(f, FAKE_NODED);
	fakes_run_ms(f, 100);
	fakes_up(f, FAKE_NODED);
	while (f->counts[FAKE_NODED][NODED_LIST] < 2)
		fakes_run_ms(f, 10);
	fakes_run_ms(f, 100);
	T_STR(sandbox_observed(sandbox_get(f->node, SB1)), "running");
	T_INT(f->node->events.next, 1);
	fake_end(f, SB1, 2, 20000, &o);
	T_TRUE(o.is_ok);
	fakes_free(f);
}
