/* SPDX-License-Identifier: Apache-2.0 */

/* The one that takes its minute: an exec nobody attaches to. */

#include <stdio.h>

#include "base/test.h"
#include "guestd/test-frames.h"

TEST(nobody_came_in_time)
{
	struct rig r;
	struct rig_reply p;
	struct session s, watcher;
	char id[40], path[96];

	guest_up(&r);
	T_INT(guest_exec(&r, "\"cmd\":[\"true\"],\"start\":\"attach\"", id),
	      201);
	session_open(&r, &watcher, id, "?watch=1", 0);
	snprintf(path, sizeof(path), "/v1/execs/%s", id);
	session_run(&watcher, 50000, false);
	T_TRUE(!watcher.p.closed);
	T_INT(rig_call(&r, &p, "GET", path, NULL), 200);
	T_HAS(buf_cstr(&p.body), "\"state\":\"created\"");
	rig_reply_fini(&p);
	/* who watches did not attach */
	session_finish(&watcher);
	T_STR(watcher.f.closing, "expired");
	T_INT(rig_call(&r, &p, "GET", path, NULL), 200);
	T_HAS(buf_cstr(&p.body), "\"state\":\"expired\"");
	T_HAS(buf_cstr(&p.body), "\"exit\":null");
	rig_reply_fini(&p);
	session_open(&r, &s, id, "", 0);
	session_finish(&s);
	T_INT(s.p.status, 409);
	T_STR(error_code(&s.p), "exec_expired");
	T_INT(rig_call(&r, &p, "GET", "/v1/execs", NULL), 200);
	T_HAS(buf_cstr(&p.body), id);
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "DELETE", path, NULL), 204);
	rig_reply_fini(&p);
	session_close(&s);
	session_close(&watcher);
	rig_fini(&r);
}
