/* SPDX-License-Identifier: Apache-2.0 */

/* What passes between a client and a sandbox. */

#include <stdio.h>
#include <string.h>

#include "api/test-rig.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

/* ---- the guest ---- */

TEST(an_exec_carries_merged_environment_and_an_id_of_its_sandbox)
{
	owned_str id = NULL;
	owned_str path = NULL;
	char want[64];

	rig_up();
	id = rig_create("{\"template\":\"base\",\"env\":{\"B\":\"sandbox\","
			"\"C\":\"sandbox\"}}");
	path = xasprintf("/v1/sandboxes/%s/execs", id);
	T_INT(ASK("POST", path, DEV,
		  "{\"cmd\":[\"id\"],\"env\":{\"C\":\"exec\"}}",
		  "idempotency-key", "e1"),
	      201);
	T_HAS(rig_fake.last_exec, "\"A\":\"template\"");
	T_HAS(rig_fake.last_exec, "\"B\":\"sandbox\"");
	T_HAS(rig_fake.last_exec, "\"C\":\"exec\"");
	T_HAS(rig_fake.last_exec, "\"user\":\"u\"");
	T_HAS(rig_fake.last_exec, "\"cwd\":\"/home/u\"");
	snprintf(want, sizeof(want), "\"id\":\"ex_%.20s", id + 2);
	T_HAS(rig_fake.last_exec, want);
	T_STR(rig_fake.last_idem, "e1");
	T_INT(ASK("POST", path, STRANGER, "{\"cmd\":[\"id\"]}"), 404);
	T_INT(ASK("GET", path, VIEWER), 200);
	T_INT(rig_fake.n_data, 1); /* the connection was kept */
	rig_down();
}

TEST(output_streams_through_the_data_listener)
{
	owned_str id = NULL;
	owned_str path = NULL;

	rig_up();
	id = rig_create(BASE);
	path = xasprintf("/v1/execs/ex_%.20sabcdefgh/output?from=7&follow=1",
			 id + 2);
	T_INT(ASK("GET", path, VIEWER, .data = true), 200);
	T_STR(rig_last.type, "application/x-ndjson");
	T_HAS(buf_cstr(&rig_last.body), "aGVsbG8K");
	T_HAS(rig_fake.last_path, "/output?from=7&follow=1");
	rig_fake.guest = GUEST_CUTS;
	ASK("GET", path, VIEWER, .data = true);
	/* never a clean end of a broken stream */
	T_TRUE(rig_last.cut || rig_last.status == 503);
	T_INT(ASK("GET", path, STRANGER, .data = true), 404);
	T_INT(ASK("GET", "/v1/execs/ex_1/output", VIEWER, .data = true), 404);
	rig_down();
}

TEST(a_data_call_to_an_ended_sandbox_is_410_with_the_reason)
{
	owned_str id = NULL;
	owned_str path = NULL;

	rig_up();
	id = rig_create(BASE);
	path = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	T_INT(ASK("DELETE", path, DEV), 200);
	free(path);
	path = xasprintf("/v1/sandboxes/%s/files?path=/a", id);
	T_INT(ASK("GET", path, DEV, .data = true), 410);
	T_STR(rig_field("error.code"), "sandbox_ended");
	T_HAS(rig_field("error.message"), "request");
	rig_down();
}

TEST(a_guest_cannot_choose_status_type_or_cookies)
{
	owned_str id = NULL;
	owned_str exec = NULL;
	owned_str file = NULL;

	rig_up();
	id = rig_create(BASE);
	exec = xasprintf("/v1/sandboxes/%s/execs", id);
	file = xasprintf("/v1/sandboxes/%s/files?path=/a%%20b", id);
	rig_fake.guest = GUEST_TEAPOT;
	T_INT(ASK("POST", exec, DEV, "{\"cmd\":[\"id\"]}"), 503);
	T_STR(rig_field("error.cause"), "guest");
	rig_fake.guest = GUEST_NOT_UTF8;
	T_INT(ASK("POST", exec, DEV, "{\"cmd\":[\"id\"]}"), 503);
	rig_fake.guest = GUEST_HTML;
	T_INT(ASK("GET", file, DEV, .data = true), 200);
	T_STR(rig_last.type, "application/octet-stream");
	T_STR(rig_last.cookie, "");
	T_STR(rig_fake.last_path, "/v1/files?path=/a%20b");
	T_INT(ASK("HEAD", file, DEV, .data = true), 200);
	T_INT(rig_last.received, 0);
	rig_down();
}

TEST(a_sandbox_that_its_node_does_not_know_is_wrong_state)
{
	owned_str id = NULL;
	owned_str path = NULL;

	rig_up();
	id = rig_create(BASE);
	path = xasprintf("/v1/sandboxes/%s/metrics", id);
	rig_fake.guest = GUEST_ABSENT;
	T_INT(ASK("GET", path, DEV), 409);
	rig_fake.guest = GUEST_CLOSED;
	T_INT(ASK("GET", path, DEV), 409);
	rig_fake.guest = GUEST_GOOD;
	T_INT(ASK("GET", path, DEV), 200);
	T_HAS(buf_cstr(&rig_last.body), "cpu_count");
	rig_down();
}

TEST(a_client_that_does_not_read_holds_the_guest_back)
{
	owned_str id = NULL;
	owned_str path = NULL;
	struct call c;

	rig_up();
	id = rig_create(BASE);
	path = xasprintf("/v1/sandboxes/%s/files?path=/big", id);
	rig_fake.download = 64 << 20;
	rig_send(&c,
		 &(struct ask){ "GET", path, DEV, .data = true, .h2 = true });
	c.paused = true;
	rig_spin(1500);
	T_TRUE(rig_fake.download_sent > 0);
	T_TRUE(rig_fake.download_sent < (8 << 20));
	rig_resume(&c);
	rig_wait(&c);
	T_TRUE(!c.cut);
	T_INT(c.received, 64 << 20);
	rig_end(&c);
	rig_down();
}

TEST(an_upload_streams_and_answers_as_json)
{
	owned_str id = NULL;
	owned_str path = NULL;

	rig_up();
	id = rig_create(BASE);
	path = xasprintf("/v1/sandboxes/%s/files?path=/up&mode=0600&parents=1",
			 id);
	T_INT(ASK("PUT", path, DEV, .data = true, .upload = 20 << 20), 201);
	T_INT(rig_fake.uploaded, 20 << 20);
	T_STR(rig_fake.last_path, "/v1/files?path=/up&mode=0600&parents=1");
	T_INT(ASK("PUT", path, VIEWER, .data = true, .upload = 10), 403);
	rig_down();
}

TEST(a_client_that_leaves_in_the_middle_breaks_nothing)
{
	owned_str id = NULL;
	owned_str path = NULL;
	struct call c;

	rig_up();
	id = rig_create(BASE);
	path = xasprintf("/v1/sandboxes/%s/files?path=/big", id);
	rig_fake.download = 64 << 20;
	rig_send(&c, &(struct ask){ "GET", path, DEV, .data = true });
	while (c.received == 0)
		loop_once(rig_loop, 20);
	rig_end(&c);
	rig_spin(100);
	rig_fake.download = 5;
	T_INT(ASK("GET", path, DEV, .data = true), 200);
	T_INT(rig_last.received, 5);
	rig_down();
}
