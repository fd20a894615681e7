/* SPDX-License-Identifier: Apache-2.0 */

/* doctor: what is wrong here, and the remedy. */

#include "base/own.h"
#include "cli/cg.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/pginit.h"
#include "net/json.h"

int verb_doctor(struct cli *c, int argc, char **argv)
{
	struct stack_opts o = { 0 };
	bool quick = false, boundary = false;
	const struct arg_opt opts[] = {
		{ "quick", 0, ARG_FLAG, &quick, NULL,
		  "do not make a sandbox to see", 0, 0 },
		{ "boundary", 0, ARG_FLAG, &boundary, NULL,
		  "who listens, and who runs with which rights (root)", 0, 0 },
		STACK_OPTS(&o),
		CLI_COMMON(c),
	};
	const struct args a = {
		.usage = "doctor [options]",
		.summary = "Look at this machine and its Caisson; exit 1 if "
			   "something is wrong.",
		.more = "  caisson doctor\n  sudo caisson doctor --boundary\n",
		.opts = opts,
		.n_opts = ARRAY_SIZE(opts),
	};
	struct doctor d = { .cli = c };
	struct stack s;
	struct err e = { 0 };
	int rest, ret;

	if (!cli_args(&a, argc, argv, &rest, &ret))
		return ret;
	stack_init(&s);
	if (stack_load(&s, &o, &e) < 0) {
		stack_fini(&s);
		return cli_fail(c, &e);
	}
	s.pg_bin = pg_find_bin();
	s.cgroup_root = cg_root();
	d.stack = &s;
	d.lines = json_array();
	if (boundary) {
		doctor_boundary(&d);
	} else {
		doctor_host(&d);
		doctor_service(&d, quick);
	}
	ret = doctor_print(&d);
	json_decref(d.lines);
	stack_fini(&s);
	return ret;
}
