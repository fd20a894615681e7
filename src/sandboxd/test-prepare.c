/* SPDX-License-Identifier: Apache-2.0 */

/* Boot checkpoints: built once, joined, found again, and nothing left behind
 * when a step fails. */

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "sandboxd/test-fakes.h"
#include "sandboxd/waiting.h"

#define SB1 "sb00000000000000000001"

static struct fakes *begin(void)
{
	struct fakes *f = fakes_new(0);

	fakes_start(f);
	return f;
}

static void need(struct fakes *f, unsigned number, struct outcome *o)
{
	struct spec spec;
	struct fault fault;

	outcome_init(o);
	fake_spec(number, &spec);
	T_TRUE(prepare_need(f->node->prepares, &spec, &o->w, &fault) != NULL);
}

static void prepare(struct fakes *f, unsigned number, struct outcome *o)
{
	need(f, number, o);
	fakes_until(f, outcome_is_done, o);
}

TEST(builds_and_keeps)
{
	struct fakes *f = begin();
	struct outcome o;

	prepare(f, 1, &o);
	T_TRUE(o.is_ok);
	T_INT(map_len(f->refs), 1);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 1);
	T_INT(f->counts[FAKE_MONITOR][MON_SAVE], 1);
	T_INT(f->counts[FAKE_STORE][ST_OVERLAY_COMMIT], 1);
	T_TRUE(fakes_are_clean(f, NULL));
	fakes_free(f);
}

TEST(second_need_builds_nothing)
{
	struct fakes *f = begin();
	struct outcome o;

	prepare(f, 1, &o);
	prepare(f, 1, &o);
	T_TRUE(o.is_ok);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 1);
	fakes_free(f);
}

TEST(two_at_once_are_one)
{
	struct fakes *f = begin();
	struct outcome a, b;

	need(f, 1, &a);
	need(f, 1, &b);
	fakes_until(f, outcome_is_done, &a);
	fakes_until(f, outcome_is_done, &b);
	T_TRUE(a.is_ok && b.is_ok);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 1);
	fakes_free(f);
}

TEST(two_releases_one_after_the_other)
{
	struct fakes *f = begin();
	struct outcome a, b;

	need(f, 1, &a);
	need(f, 2, &b);
	fakes_until(f, outcome_is_done, &a);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 1);
	fakes_until(f, outcome_is_done, &b);
	T_TRUE(a.is_ok && b.is_ok);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 2);
	T_INT(map_len(f->refs), 2);
	fakes_free(f);
}

TEST(found_again_after_a_restart)
{
	struct fakes *f = begin();
	struct outcome o;

	prepare(f, 1, &o);
	fakes_stop(f);
	fakes_start(f);
	prepare(f, 1, &o);
	T_TRUE(o.is_ok);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 1);
	fakes_free(f);
}

TEST(missing_artifact_is_built_again)
{
	struct fakes *f = begin();
	struct outcome o;
	struct spec spec;
	char digest[72];

	fake_spec(1, &spec);
	fake_checkpoint(f, &spec);
	spec_hash("memory", digest);
	map_set(f->missing, digest, f);
	prepare(f, 1, &o);
	T_TRUE(o.is_ok);
	T_INT(f->counts[FAKE_STORE][ST_REF_DROP], 1);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 1);
	fakes_free(f);
}

TEST(artifact_lost_later_is_built_again_by_a_create)
{
	struct fakes *f = begin();
	struct outcome o;
	struct spec spec;
	char digest[72];

	fake_spec(1, &spec);
	fake_checkpoint(f, &spec);
	prepare(f, 1, &o);
	spec_hash("layer", digest);
	map_set(f->missing, digest, f);
	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 1);
	fake_end(f, SB1, 2, 20000, &o);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(garbage_ref_is_built_again)
{
	struct fakes *f = begin();
	struct outcome o;
	struct spec spec;
	struct err e = { 0 };
	char ref[72];

	fake_spec(1, &spec);
	T_INT(prepares_ref(f->node->prepares, &spec, ref, &e), 0);
	map_set(f->refs, ref, xstrdup("{\"v\":1,"));
	prepare(f, 1, &o);
	T_TRUE(o.is_ok);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 1);
	fakes_free(f);
}

TEST(missing_kernel_is_not_found)
{
	struct fakes *f = begin();
	struct outcome o;
	struct spec spec;

	fake_spec(1, &spec);
	map_set(f->missing, spec.release.kernel, f);
	prepare(f, 1, &o);
	T_INT(o.fault.code, FAULT_NOT_FOUND);
	T_HAS(o.fault.remedy, "import the release");
	T_TRUE(fakes_are_clean(f, NULL));
	fakes_free(f);
}

TEST(boot_is_tried_twice)
{
	struct fakes *f = begin();
	struct outcome o;

	f->is_once = true;
	fake_set(f, FAKE_MONITOR, MON_BOOT, FAKE_ERROR);
	prepare(f, 1, &o);
	T_TRUE(o.is_ok);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 2);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

TEST(boot_is_not_tried_thrice)
{
	struct fakes *f = begin();
	struct outcome o;

	fake_set(f, FAKE_MONITOR, MON_BOOT, FAKE_ERROR);
	prepare(f, 1, &o);
	T_INT(o.fault.code, FAULT_BOOT);
	T_HAS(o.fault.msg, "monitor says no");
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 2);
	fakes_until(f, fakes_are_clean, NULL);
	fakes_free(f);
}

static void fails(enum fake_who who, unsigned op, enum fake_mode mode,
		  enum fault_code expected)
{
	struct fakes *f = begin();
	struct outcome o;

	fake_set(f, who, op, mode);
	prepare(f, 1, &o);
	T_INT(o.fault.code, expected);
	T_INT(map_len(f->refs), 0);
	fake_set(f, who, op, FAKE_OK);
	fakes_until(f, fakes_are_clean, NULL);
	/* Nothing of it stands in the way of the next. */
	for (int i = 0; i < 100 && !o.is_ok; i++) {
		fakes_run_ms(f, 30);
		prepare(f, 1, &o);
	}
	T_TRUE(o.is_ok);
	fakes_free(f);
}

TEST(save_errs)
{
	fails(FAKE_MONITOR, MON_SAVE, FAKE_ERROR, FAULT_BOOT);
}

TEST(save_disconnects)
{
	fails(FAKE_MONITOR, MON_SAVE, FAKE_CLOSE, FAULT_BOOT);
}

TEST(renew_errs)
{
	fails(FAKE_MONITOR, MON_RENEW, FAKE_ERROR, FAULT_BOOT);
}

TEST(open_errs)
{
	fails(FAKE_MONITOR, MON_OPEN, FAKE_ERROR, FAULT_BOOT);
}

TEST(draft_errs)
{
	fails(FAKE_STORE, ST_DRAFT_NEW, FAKE_ERROR, FAULT_STORE);
}

TEST(commit_errs)
{
	fails(FAKE_STORE, ST_DRAFT_COMMIT, FAKE_ERROR, FAULT_STORE);
}

TEST(layer_errs)
{
	fails(FAKE_STORE, ST_OVERLAY_COMMIT, FAKE_ERROR, FAULT_STORE);
}

TEST(layer_disconnects)
{
	fails(FAKE_STORE, ST_OVERLAY_COMMIT, FAKE_CLOSE, FAULT_STORE);
}

TEST(ref_set_errs)
{
	fails(FAKE_STORE, ST_REF_SET, FAKE_ERROR, FAULT_STORE);
}

TEST(overlay_errs)
{
	fails(FAKE_STORE, ST_OVERLAY_NEW, FAKE_ERROR, FAULT_STORE);
}

TEST(spawn_errs)
{
	fails(FAKE_NODED, NODED_SPAWN_VMM, FAKE_ERROR, FAULT_NODE);
}

TEST(create_builds_what_is_missing)
{
	struct fakes *f = begin();
	struct outcome o;

	fake_ensure(f, SB1, 1, 20000, &o);
	T_TRUE(o.is_ok);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 1);
	T_INT(f->counts[FAKE_MONITOR][MON_LOAD], 1);
	T_TRUE(sandbox_get(f->node, SB1)->timings_us[TIMING_PREPARE] > 0);
	fakes_free(f);
}

TEST(create_that_times_out_leaves_the_build)
{
	struct fakes *f = begin();
	struct outcome o, p;

	fake_set(f, FAKE_MONITOR, MON_BOOT, FAKE_SILENT);
	fake_ensure(f, SB1, 1, 300, &o);
	T_INT(o.fault.code, FAULT_TIMEOUT);
	T_HAS(o.fault.msg, "boot checkpoint");
	T_INT(map_len(f->node->sandboxes), 0);
	need(f, 1, &p);
	T_TRUE(!p.is_done);
	T_INT(f->counts[FAKE_MONITOR][MON_BOOT], 1);
	list_del(&p.w.link);
	fakes_free(f);
}

TEST(odd_memory_is_invalid)
{
	struct fakes *f = begin();
	struct outcome o;
	struct spec spec;
	struct fault fault;

	outcome_init(&o);
	fake_spec(1, &spec);
	spec.res.memory_mib = 129;
	T_TRUE(prepare_need(f->node->prepares, &spec, &o.w, &fault) == NULL);
	T_INT(fault.code, FAULT_INVALID);
	T_HAS(fault.msg, "memory_mib");
	fakes_free(f);
}

TEST(phases_have_names)
{
	T_STR(prepare_phase_name(PREPARE_HASHING), "hashing");
	T_STR(prepare_phase_name(PREPARE_BOOTING), "booting");
	T_STR(prepare_phase_name(PREPARE_CHECKPOINTING), "checkpointing");
	T_STR(prepare_phase_name(PREPARE_READY), "ready");
	T_STR(prepare_phase_name(PREPARE_FAILED), "failed");
}
