/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"

static char out[8192];
static int saved_stderr = -1, capture[2];

static void begin(const char *format, enum log_level level)
{
	setenv("CAISSON_LOG_FORMAT", format, 1);
	log_init("prog", level);
	log_set_trace(NULL);
	T_INT(pipe2(capture, O_CLOEXEC | O_NONBLOCK), 0);
	saved_stderr = fcntl(2, F_DUPFD_CLOEXEC, 10);
	T_TRUE(saved_stderr >= 0);
	T_INT(dup3(capture[1], 2, 0), 2);
}

static const char *end(void)
{
	ssize_t n;

	dup3(saved_stderr, 2, 0);
	close(saved_stderr);
	n = read(capture[0], out, sizeof(out) - 1);
	out[n > 0 ? n : 0] = 0;
	close(capture[0]);
	close(capture[1]);
	return out;
}

/* without the time, which differs */
static const char *rest(const char *line)
{
	const char *s = strstr(line, "level");

	return s ? s : line;
}

TEST(log_kv_line)
{
	begin("kv", LOG_INFO_);
	log_info("slot_created", "slot=%d name=%s", 3, "a");
	T_STR(rest(end()), "level=info program=prog event=slot_created slot=3 "
			   "name=a\n");
	T_TRUE(strncmp(out, "ts=20", 5) == 0);
}

TEST(log_json_line)
{
	begin("json", LOG_INFO_);
	log_set_trace("0af7651916cd43dd8448eb211c80319c");
	log_warn("x", "slot=%d name=a r=-5 f=1.5 v=007 e=", 3);
	T_STR(rest(end()),
	      "level\":\"warn\",\"program\":\"prog\",\"event\":\"x\","
	      "\"trace\":\"0af7651916cd43dd8448eb211c80319c\",\"slot\":3,"
	      "\"name\":\"a\",\"r\":-5,\"f\":1.5,\"v\":\"007\",\"e\":\"\"}\n");
}

TEST(log_levels_filter)
{
	begin("kv", LOG_WARN_);
	log_info("no", "a=1");
	log_debug("no", "a=1");
	log_error("yes", "a=1");
	T_TRUE(!strstr(end(), "event=no"));
	T_HAS(out, "event=yes");
}

TEST(log_environment_wins)
{
	setenv("CAISSON_LOG", "debug", 1);
	begin("kv", LOG_ERROR_);
	unsetenv("CAISSON_LOG");
	log_debug("deep", "a=1");
	T_HAS(end(), "level=debug");
}

TEST(log_value_cannot_break_the_line)
{
	begin("kv", LOG_INFO_);
	log_info("x", "why=%s", "a\nlevel=error \"q\" \\ \x01 \xff \xc3\xa4");
	end();
	T_INT(strchr(out, '\n') - out, strlen(out) - 1);
	T_TRUE(!strchr(out, '\x01') && !strchr(out, '\xff'));
	T_HAS(out, "\\u0001 \\ufffd \xc3\xa4");
}

TEST(log_quote_protects_a_value)
{
	begin("json", LOG_INFO_);
	log_info("x", "why=%s n=1", log_quote("a b=c \"d\" \\"));
	T_HAS(end(), "\"why\":\"a b=c \\\"d\\\" \\\\\",\"n\":1}");
}

TEST(log_last_value_may_hold_spaces)
{
	begin("kv", LOG_INFO_);
	log_info("x", "slot=1 err=%s", "no such file");
	T_HAS(end(), "slot=1 err=\"no such file\"\n");
}

TEST(log_text_that_is_no_pair_is_kept)
{
	begin("kv", LOG_INFO_);
	log_info("x", "%s", "hello world");
	T_HAS(end(), "event=x text=\"hello world\"\n");
}

TEST(log_long_lines_stay_whole)
{
	char big[6000];

	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	begin("json", LOG_INFO_);
	log_info("x", "a=%s b=1", big);
	T_TRUE(strlen(end()) <= 4096);
	T_STR(out + strlen(out) - 2, "}\n");
	T_HAS(log_quote(big), "aaaa\"");
	T_TRUE(strlen(log_quote(big)) <= 512);
}

TEST(log_keeps_errno)
{
	begin("kv", LOG_INFO_);
	errno = ENOTTY;
	log_info("x", "a=%d", 1);
	T_INT(errno, ENOTTY);
	end();
}

TEST(log_quote_keeps_four_results)
{
	const char *a = log_quote("a"), *b = log_quote("b"),
		   *c = log_quote(NULL), *d = log_quote("d");

	T_STR(a, "\"a\"");
	T_STR(b, "\"b\"");
	T_STR(c, "\"\"");
	T_STR(d, "\"d\"");
}
