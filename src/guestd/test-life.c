/* SPDX-License-Identifier: Apache-2.0 */

/* The lives of a guest, its routes, and its files. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "guestd/test-frames.h"

static struct rig r;

static int call(const char *method, const char *path, const char *body,
		const char *has)
{
	struct rig_reply p;
	int status = rig_call(&r, &p, method, path, body);

	if (has)
		T_HAS(buf_cstr(&p.body), has);
	rig_reply_fini(&p);
	return status;
}

static void up_frozen(void)
{
	rig_spawn(&r);
	T_TRUE(rig_wait_up(&r));
}

TEST(guest_begins_frozen)
{
	up_frozen();
	T_INT(call("GET", "/g1/hello", NULL, "\"state\":\"frozen\""), 200);
	rig_fini(&r);
}

TEST(hello_names_version_and_kernel)
{
	up_frozen();
	T_INT(call("GET", "/g1/hello", NULL, "\"version\":1"), 200);
	T_INT(call("GET", "/g1/hello", NULL, "\"boot_id\":\""), 200);
	T_INT(call("GET", "/g1/hello", NULL, "\"clocksource\":\""), 200);
	rig_fini(&r);
}

TEST(no_thaw_before_a_renewal)
{
	up_frozen();
	T_INT(call("POST", "/g1/thaw", "{}", "wrong_state"), 409);
	rig_fini(&r);
}

TEST(nothing_starts_while_frozen)
{
	up_frozen();
	T_INT(call("POST", "/v1/execs",
		   "{\"id\":\"ex_abcdefgh\",\"cmd\":[\"true\"]}",
		   "wrong_state"),
	      409);
	T_INT(call("GET", "/v1/files?path=/etc/passwd", NULL, "wrong_state"),
	      409);
	rig_fini(&r);
}

TEST(renewal_and_thaw)
{
	up_frozen();
	T_INT(rig_go(&r, "sb1"), 200);
	T_INT(call("GET", "/g1/hello", NULL, "\"state\":\"running\""), 200);
	T_INT(call("GET", "/g1/hello", NULL, "\"sandbox\":\"sb1\""), 200);
	rig_fini(&r);
}

TEST(thaw_twice_is_once)
{
	guest_up(&r);
	T_INT(call("POST", "/g1/thaw", "{}", "running"), 200);
	rig_fini(&r);
}

TEST(no_renewal_while_running)
{
	guest_up(&r);
	T_INT(rig_go(&r, "sb2"), 409);
	rig_fini(&r);
}

TEST(freeze_answers_with_its_nonce)
{
	guest_up(&r);
	T_INT(call("POST", "/g1/freeze", "{\"nonce\":\"n7\"}",
		   "\"frozen\":\"n7\""),
	      200);
	T_INT(call("GET", "/g1/hello", NULL, "\"nonce\":\"n7\""), 200);
	rig_fini(&r);
}

TEST(same_freeze_again)
{
	guest_up(&r);
	T_INT(call("POST", "/g1/freeze", "{\"nonce\":\"n7\"}", NULL), 200);
	T_INT(call("POST", "/g1/freeze", "{\"nonce\":\"n7\"}", "n7"), 200);
	T_INT(call("POST", "/g1/freeze", "{\"nonce\":\"n8\"}", "wrong_state"),
	      409);
	rig_fini(&r);
}

TEST(continue_with_the_nonce)
{
	guest_up(&r);
	T_INT(call("POST", "/g1/freeze", "{\"nonce\":\"n7\"}", NULL), 200);
	T_INT(call("POST", "/g1/continue",
		   "{\"nonce\":\"n8\",\"realtime_ns\":1}", "wrong_state"),
	      409);
	T_INT(call("POST", "/g1/continue",
		   "{\"nonce\":\"n7\",\"realtime_ns\":1}", "running"),
	      200);
	T_INT(call("POST", "/g1/continue",
		   "{\"nonce\":\"n7\",\"realtime_ns\":1}", "wrong_state"),
	      409);
	rig_fini(&r);
}

TEST(no_continue_in_a_new_life)
{
	guest_up(&r);
	T_INT(call("POST", "/g1/freeze", "{\"nonce\":\"n7\"}", NULL), 200);
	T_INT(rig_go(&r, "sb2"), 200);
	T_INT(call("POST", "/g1/continue",
		   "{\"nonce\":\"n7\",\"realtime_ns\":1}", "wrong_state"),
	      409);
	T_INT(call("GET", "/g1/hello", NULL, "\"sandbox\":\"sb2\""), 200);
	rig_fini(&r);
}

TEST(freeze_survives_a_reconnect)
{
	guest_up(&r);
	T_INT(call("POST", "/g1/freeze", "{\"nonce\":\"n7\"}", NULL), 200);
	T_TRUE(rig_reconnect(&r));
	T_INT(call("GET", "/g1/hello", NULL, "\"nonce\":\"n7\""), 200);
	T_INT(call("POST", "/g1/thaw", "{}", NULL), 409);
	rig_fini(&r);
}

TEST(renewal_empties_the_keys)
{
	static const char a[] = "{\"id\":\"ex_aaaaaaaa\",\"cmd\":[\"true\"]}";
	static const char b[] = "{\"id\":\"ex_bbbbbbbb\",\"cmd\":[\"true\"]}";
	const char *head[] = { "idempotency-key", "k", NULL };
	struct rig_reply p;

	guest_up(&r);
	rig_start(&r, &p, "POST", "/v1/execs", head, a, sizeof(a) - 1);
	T_TRUE(rig_finish(&p));
	T_INT(p.status, 201);
	rig_reply_fini(&p);
	T_INT(call("POST", "/g1/freeze", "{\"nonce\":\"n7\"}", NULL), 200);
	T_INT(rig_go(&r, "sb2"), 200);
	rig_start(&r, &p, "POST", "/v1/execs", head, b, sizeof(b) - 1);
	T_TRUE(rig_finish(&p));
	T_INT(p.status, 201);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(freeze_needs_a_nonce)
{
	guest_up(&r);
	T_INT(call("POST", "/g1/freeze", "{}", "nonce"), 400);
	T_INT(call("POST", "/g1/freeze", "{\"nonce\":\"\"}", "nonce"), 400);
	T_INT(call("POST", "/g1/freeze", "nonsense", NULL), 400);
	rig_fini(&r);
}

TEST(finish_checks_the_clock)
{
	struct rig_reply p;
	int status;

	guest_up(&r);
	status = rig_call(&r, &p, "POST", "/g1/finish", "{}");
	/* the host's clock source decides which answer this is */
	if (status == 200)
		T_HAS(buf_cstr(&p.body), "\"realtime_ns\":");
	else
		T_STR(error_code(&p), "wrong_state");
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(shutdown_ends_guestd)
{
	guest_up(&r);
	T_INT(call("POST", "/g1/shutdown", "{}", NULL), 202);
	for (int i = 0; i < 200 && !r.lost; i++)
		rig_run(&r, 50, NULL);
	T_TRUE(r.lost);
	rig_fini(&r);
}

TEST(unknown_routes)
{
	guest_up(&r);
	T_INT(call("GET", "/", NULL, "not_found"), 404);
	T_INT(call("GET", "/v1/nothing", NULL, "not_found"), 404);
	T_INT(call("POST", "/g1/reboot", "{}", "not_found"), 404);
	T_INT(call("GET", "/v1/execs/ex_unknown1/size", NULL, "not_found"),
	      404);
	rig_fini(&r);
}

TEST(wrong_methods)
{
	guest_up(&r);
	T_INT(call("POST", "/g1/hello", "{}", NULL), 405);
	T_INT(call("GET", "/g1/renew", NULL, NULL), 405);
	T_INT(call("PUT", "/v1/execs", "{}", NULL), 405);
	T_INT(call("POST", "/v1/metrics", "{}", NULL), 405);
	T_INT(call("POST", "/v1/files?path=/x", "{}", NULL), 405);
	rig_fini(&r);
}

TEST(body_that_is_too_long)
{
	owned_str text = xcalloc(1, 400000);
	struct rig_reply p;

	memset(text, ' ', 399999);
	guest_up(&r);
	rig_start(&r, &p, "POST", "/v1/execs", NULL, text, 399999);
	T_TRUE(rig_finish(&p));
	T_INT(p.status, 413);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(metrics_are_plausible)
{
	guest_up(&r);
	T_INT(call("GET", "/v1/metrics", NULL, "\"mem_total_bytes\":"), 200);
	T_INT(call("GET", "/v1/metrics", NULL, "\"oom_kills\":"), 200);
	rig_fini(&r);
}
