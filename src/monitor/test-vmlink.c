/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/vmlink.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/own.h"
#include "base/test.h"
#include "base/text.h"

/* A VMM that is its sockets alone. */
static struct rig {
	struct loop *loop;
	struct vmlink *vm;
	int qmp, serial; /* the VMM's ends */
	bool is_gone;
	enum mon_reason reason;
} rig;

static void on_ready(void *owner, const char *status)
{
	(void)owner;
	(void)status;
}

static void on_gone(void *owner, enum mon_reason reason, const char *detail)
{
	(void)owner;
	(void)detail;
	rig.is_gone = true;
	rig.reason = reason;
}

static const struct vmlink_ops ops = { on_ready, on_ready, on_gone };

static int take(int listener)
{
	int fd = -1;

	for (int i = 0; i < 3000 && fd < 0; i++) {
		loop_once(rig.loop, 1);
		fd =
		    accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	}
	T_TRUE(fd >= 0);
	close(listener);
	return fd;
}

static void begin(void)
{
	struct err e = { 0 };
	int qmp, serial;

	memset(&rig, 0, sizeof(rig));
	T_INT(chdir(test_tmpdir()), 0);
	qmp = unix_listen("qmp", SOCK_STREAM, 0600, &e);
	serial = unix_listen("serial", SOCK_STREAM, 0600, &e);
	T_TRUE(qmp >= 0 && serial >= 0);
	rig.loop = loop_new();
	rig.vm = vmlink_new(rig.loop, &ops, NULL);
	rig.qmp = take(qmp);
	rig.serial = take(serial);
}

static void end(void)
{
	vmlink_free(rig.vm);
	close(rig.qmp);
	close(rig.serial);
	loop_free(rig.loop);
}

/* Write as fast as it goes for so long: bytes that were taken. */
static size_t flood_ms(uint64_t ms)
{
	static const char chunk[4096];
	uint64_t until = now_mono_us() / 1000 + ms;
	size_t n = 0;

	while (now_mono_us() / 1000 < until) {
		ssize_t w = send(rig.serial, chunk, sizeof(chunk),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		n += w > 0 ? (size_t)w : 0;
		loop_once(rig.loop, w > 0 ? 0 : 1);
	}
	return n;
}

TEST(a_flood_of_the_console_is_slowed_down)
{
	size_t n;

	begin();
	flood_ms(1000); /* the burst, and what sockets hold */
	n = flood_ms(2000);
	/* 64 KiB/s; far from what a socket carries */
	T_TRUE(n > 0 && n < 1u << 20);
	end();
}

TEST(the_console_goes_on_after_a_flood)
{
	char tail[64] = "";

	begin();
	flood_ms(500);
	for (int i = 0; i < 20000 && !strstr(tail, "still here"); i++) {
		send(rig.serial, "still here\n", 11,
		     MSG_DONTWAIT | MSG_NOSIGNAL);
		loop_once(rig.loop, 1);
		vmlink_tail(rig.vm, tail, sizeof(tail));
	}
	T_HAS(tail, "still here");
	end();
}

TEST(a_console_that_ends_is_no_spin)
{
	uint64_t cpu;

	begin();
	flood_ms(500); /* no credit is left */
	shutdown(rig.serial, SHUT_RDWR);
	cpu = (uint64_t)clock();
	for (int i = 0; i < 50; i++)
		loop_once(rig.loop, 10);
	/* half a second of waiting, not of work */
	T_TRUE((uint64_t)clock() - cpu < CLOCKS_PER_SEC / 3);
	end();
}

static void shutdown_after(const char *console, enum mon_reason reason)
{
	static const char event[] =
	    "{\"QMP\":{\"version\":{\"qemu\":{\"major\":7,\"minor\":2,"
	    "\"micro\":0},\"package\":\"\"},\"capabilities\":[\"oob\"]}}\r\n"
	    "{\"return\":{},\"id\":\"0\"}\r\n"
	    "{\"event\":\"SHUTDOWN\",\"data\":{\"guest\":true,\"reason\":"
	    "\"guest-reset\"},\"timestamp\":{\"seconds\":1,\"microseconds\":0}}"
	    "\r\n";

	begin();
	T_INT(write_all(rig.serial, console, strlen(console)), 0);
	for (int i = 0; i < 50; i++)
		loop_once(rig.loop, 1);
	T_INT(write_all(rig.qmp, event, sizeof(event) - 1), 0);
	for (int i = 0; i < 3000 && !rig.is_gone; i++)
		loop_once(rig.loop, 5);
	T_TRUE(rig.is_gone);
	T_INT(rig.reason, reason);
	end();
}

TEST(a_reset_is_a_shutdown)
{
	shutdown_after("reboot: Restarting system\n",
		       MON_REASON_GUEST_SHUTDOWN);
}

TEST(a_reset_after_a_panic_is_a_panic)
{
	shutdown_after("Kernel panic - not syncing: sysrq\n",
		       MON_REASON_GUEST_PANIC);
}

TEST(a_panic_for_memory_is_out_of_memory)
{
	shutdown_after("Kernel panic - not syncing: Out of memory: compulsory "
		       "panic_on_oom\n",
		       MON_REASON_GUEST_OOM);
}
