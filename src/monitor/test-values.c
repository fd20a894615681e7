/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/values.h"

#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "net/json.h"

static int check(const char *text)
{
	owned_json v = NULL;
	struct err e = { 0 };
	int r;

	T_INT(json_parse(text, strlen(text), &v, NULL), 0);
	r = values_check(v, &e);
	T_TRUE(r == 0 || (r == -EBADMSG && e.msg[0]));
	return r;
}

TEST(true_answers_pass)
{
	T_INT(check("{\"cpu_count\":1,\"mem_total_bytes\":0,"
		    "\"uptime_ms\":9223372036854775807}"),
	      0);
	T_INT(check("{\"items\":[{\"name\":\"a b\\n\",\"path\":\"/x/../a\","
		    "\"type\":\"file\",\"size\":3,\"mode\":\"0644\","
		    "\"uid\":0,\"gid\":0,\"user\":\"root\","
		    "\"mtime\":\"2026-12-01T10:00:00.000Z\","
		    "\"etag\":\"\\\"1-2\\\"\"}],\"next\":null}"),
	      0);
	T_INT(check("{\"id\":\"ex_0a\",\"state\":\"exited\",\"pid\":null,"
		    "\"cmd\":[\"../../x\",\"-1\"],\"stdin\":true,"
		    "\"pty\":null,\"output\":{\"begin\":0,\"end\":7},"
		    "\"exit\":{\"reason\":\"exited\",\"code\":0,"
		    "\"signal\":null,\"bytes\":{\"pty\":0}}}"),
	      0);
	T_INT(check("{\"entries\":2,\"bytes\":10}"), 0);
	T_INT(check("[]"), 0);
	T_INT(check("{}"), 0);
}

TEST(negative_and_broken_numbers_do_not_pass)
{
	T_INT(check("{\"mem_total_bytes\":-5}"), -EBADMSG);
	T_INT(check("{\"size\":1.5}"), -EBADMSG);
	T_INT(check("{\"disk_used_bytes\":1e308}"), -EBADMSG);
	T_INT(check("{\"unknown\":-1}"), -EBADMSG);
	T_INT(check("{\"a\":[{\"b\":[0,-1]}]}"), -EBADMSG);
	T_INT(check("[-1]"), -EBADMSG);
	T_INT(check("-1"), -EBADMSG);
}

TEST(a_number_is_a_number)
{
	T_INT(check("{\"cpu_count\":\"../../x\"}"), -EBADMSG);
	T_INT(check("{\"size\":\"1\"}"), -EBADMSG);
	T_INT(check("{\"pid\":{}}"), -EBADMSG);
	T_INT(check("{\"uid\":true}"), -EBADMSG);
	T_INT(check("{\"stdin\":1}"), -EBADMSG);
}

TEST(an_id_is_a_word)
{
	T_INT(check("{\"id\":\"../../x\"}"), -EBADMSG);
	T_INT(check("{\"id\":\"ex_a b\"}"), -EBADMSG);
	T_INT(check("{\"id\":\"\"}"), -EBADMSG);
	T_INT(check("{\"id\":7}"), -EBADMSG);
	T_INT(check("{\"state\":\"$(reboot)\"}"), -EBADMSG);
	T_INT(check("{\"exit\":{\"reason\":\"\\u001b[2J\"}}"), -EBADMSG);
}

TEST(a_name_is_one_component)
{
	T_INT(check("{\"items\":[{\"name\":\"../../etc/shadow\"}]}"), -EBADMSG);
	T_INT(check("{\"name\":\"..\"}"), -EBADMSG);
	T_INT(check("{\"name\":\".\"}"), -EBADMSG);
	T_INT(check("{\"name\":\"\"}"), -EBADMSG);
	T_INT(check("{\"name\":\"/\"}"), -EBADMSG);
	T_INT(check("{\"name\":\"..a\"}"), 0);
}

TEST(modes_and_times_are_such)
{
	T_INT(check("{\"mode\":\"9999\"}"), -EBADMSG);
	T_INT(check("{\"mode\":\"u+s\"}"), -EBADMSG);
	T_INT(check("{\"mtime\":\"yesterday\"}"), -EBADMSG);
	T_INT(check("{\"created_at\":1}"), -EBADMSG);
}
