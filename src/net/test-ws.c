/* SPDX-License-Identifier: Apache-2.0 */

/* Open WebSockets: frames, pressure, time, ends. */

#include <string.h>
#include <sys/socket.h>

#include "base/own.h"
#include "net/test-ws-rig.h"

TEST(messages_go_both_ways)
{
	duo_open();
	duo.s.echo = true;
	T_TRUE(ws_send(duo.c.w, true, "hello", 5));
	T_WAIT(&duo, duo.c.messages == 1);
	T_STR(duo.c.text, "hello");
	T_TRUE(duo.c.is_text && duo.s.is_text);
	T_TRUE(ws_send(duo.c.w, false, "", 0));
	T_WAIT(&duo, duo.c.messages == 2);
	T_INT(duo.c.n, 0);
	T_TRUE(!duo.c.is_text);
	duo_end();
	T_INT(duo.s.closes, 1);
	T_INT(duo.c.code, WS_ABNORMAL);
}

TEST(both_see_the_close_and_connections_end)
{
	duo_open();
	ws_close(duo.c.w, 4001, "enough");
	T_WAIT(&duo, duo.c.closes && duo.s.closes);
	T_INT(duo.s.code, 4001);
	T_STR(duo.s.reason, "enough");
	T_INT(duo.c.code, 4001);
	T_WAIT(&duo, !duo.client && !duo.server);
	duo_end();
}

TEST(the_server_closes_after_what_is_queued)
{
	static char big[200000];

	duo_open();
	memset(big, 'x', sizeof(big));
	T_TRUE(ws_send(duo.s.w, false, big, sizeof(big)));
	ws_close(duo.s.w, 1000, NULL);
	T_WAIT(&duo, duo.c.closes && duo.s.closes);
	T_INT(duo.c.bytes, sizeof(big));
	T_INT(duo.c.code, 1000);
	T_INT(duo.s.code, 1000);
	duo_end();
}

/* ---- frames by hand ---- */

TEST(a_ping_is_answered_between_fragments)
{
	duo_open_raw();
	say_frame(0x01, "he", 2);
	say_frame(0x89, "abc", 3);
	hear("\x8a\x03"
	     "abc",
	     5);
	T_INT(duo.s.messages, 0);
	say_frame(0x80, "llo", 3);
	T_WAIT(&duo, duo.s.messages == 1);
	T_STR(duo.s.text, "hello");
	duo_end();
}

/* A frame that breaks the protocol: its close code comes, then the end. */
static void violates(unsigned first, const void *p, size_t n, unsigned code)
{
	uint8_t close[4] = { 0x88, 0, (uint8_t)(code >> 8), (uint8_t)code };

	duo_open_raw();
	say_frame(first, p, n);
	listen_for(4);
	T_TRUE(by_hand.n >= 4);
	close[1] = (uint8_t)by_hand.text[1];
	T_TRUE(close[1] > 2); /* it has a reason */
	T_TRUE(!memcmp(by_hand.text, close, 4));
	listen_for(100000);
	T_TRUE(by_hand.eof);
	duo.raw = fd_close(duo.raw);
	T_WAIT(&duo, duo.s.closes);
	T_INT(duo.s.code, code);
	T_INT(duo.s.messages, 0);
	duo_end();
}

TEST(violations)
{
	static uint8_t big[MAX_MESSAGE + 1];

	violates(0xc1, "x", 1, WS_PROTOCOL);
	violates(0x83, "x", 1, WS_PROTOCOL);
	violates(0x80, "x", 1, WS_PROTOCOL);
	violates(0x09, "x", 1, WS_PROTOCOL);
	violates(0x89, big, 126, WS_PROTOCOL);
	violates(0x88, "x", 1, WS_PROTOCOL);
	violates(0x81, "\xff", 1, WS_DATA);
	violates(0x88, "\x03\xe8\xff", 3, WS_DATA);
}

TEST(a_message_that_is_too_long_is_refused_by_its_head)
{
	static const uint8_t head[] = { 0x82, 0xff, 0, 0, 0, 0, 0,
					0x04, 0,    1, 0, 0, 0, 0 };

	duo_open_raw();
	say(head, sizeof(head));
	listen_for(4);
	T_TRUE(!memcmp(by_hand.text + 2, "\x03\xf1", 2));
	duo_end();
	T_INT(duo.s.code, WS_TOO_BIG);
}

TEST(an_endless_message_in_fragments)
{
	static uint8_t block[16384];

	duo_open_raw();
	say_frame(0x02, block, 1);
	for (unsigned i = 0; i < 2 * MAX_MESSAGE / sizeof(block); i++) {
		loop_once(duo.l, 0);
		if (duo.s.code || duo.s.closes)
			break;
		if (send(duo.raw, "\x80", 0, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		say_frame(0x00, block, sizeof(block));
	}
	listen_for(4);
	T_TRUE(!memcmp(by_hand.text + 2, "\x03\xf1", 2));
	duo_end();
}

TEST(a_peer_that_leaves_without_a_close)
{
	duo_open_raw();
	say_frame(0x01, "half", 4);
	duo.raw = fd_close(duo.raw);
	T_WAIT(&duo, duo.s.closes);
	T_INT(duo.s.code, WS_ABNORMAL);
	T_INT(duo.s.messages, 0);
	T_WAIT(&duo, !duo.server);
	duo_end();
}

TEST(a_peer_that_half_closes_without_a_close)
{
	duo_open_raw();
	say_frame(0x81, "last", 4);
	T_INT(shutdown(duo.raw, SHUT_WR), 0);
	T_WAIT(&duo, duo.s.closes);
	T_INT(duo.s.code, WS_ABNORMAL);
	T_INT(duo.s.messages, 1); /* what was whole arrived */
	listen_for(100000);
	T_TRUE(by_hand.eof);
	duo_end();
}

TEST(what_comes_after_a_close_is_for_nobody)
{
	duo_open_raw();
	say_frame(0x88, "\x03\xe8", 2);
	say_frame(0x81, "late", 4);
	hear("\x88\x02\x03\xe8", 4);
	listen_for(1);
	T_TRUE(by_hand.eof);
	T_INT(shutdown(duo.raw, SHUT_WR), 0);
	T_WAIT(&duo, duo.s.closes);
	T_INT(duo.s.messages, 0);
	T_INT(duo.s.code, 1000);
	duo_end();
}

TEST(an_empty_close_is_answered_by_an_empty_one)
{
	duo_open_raw();
	say_frame(0x88, "", 0);
	hear("\x88\x00", 2);
	duo.raw = fd_close(duo.raw);
	T_WAIT(&duo, duo.s.closes);
	T_INT(duo.s.code, WS_NO_CODE);
	duo_end();
}

/* ---- pressure ---- */

TEST(a_full_queue_refuses_and_calls_back)
{
	static uint8_t block[65536];
	unsigned sent = 0;

	duo_open_raw();
	while (ws_send(duo.s.w, false, block, sizeof(block)) && sent < 1000) {
		sent++;
		loop_once(duo.l, 0);
	}
	T_TRUE(sent > 2 && sent < 100); /* queue, connection, socket */
	T_TRUE(ws_room(duo.s.w) < sizeof(block));
	T_INT(duo.s.writables, 0);
	while (!duo.s.writables && !by_hand.eof) {
		by_hand.n = 0;
		listen_for(1000);
	}
	T_INT(duo.s.writables, 1);
	T_TRUE(ws_send(duo.s.w, false, block, sizeof(block)));
	duo_end();
}

TEST(a_message_larger_than_the_queue_goes_alone)
{
	static uint8_t big[1000000];

	duo_open();
	T_TRUE(ws_send(duo.s.w, true, "x", 1));
	T_TRUE(!ws_send(duo.s.w, false, big, sizeof(big)));
	T_WAIT(&duo, duo.s.writables == 1);
	T_TRUE(ws_send(duo.s.w, false, big, sizeof(big)));
	T_TRUE(!ws_send(duo.s.w, false, big, 1));
	/* and is too long for this receiver */
	T_WAIT(&duo, duo.c.closes && duo.s.closes);
	T_INT(duo.c.code, WS_TOO_BIG);
	T_INT(duo.s.code, WS_TOO_BIG);
	duo_end();
}

TEST(a_holder_gets_one_message_less_and_pings_are_answered)
{
	duo_open_raw();
	ws_hold(duo.s.w, true);
	say_frame(0x89, "1", 1);
	say_frame(0x81, "first", 5);
	say_frame(0x89, "2", 1);
	say_frame(0x81, "second", 6);
	hear("\x8a\x01"
	     "1",
	     3);
	for (int i = 0; i < 10; i++)
		loop_once(duo.l, 1);
	T_INT(duo.s.messages, 0);
	duo.s.hold_after = true;
	ws_hold(duo.s.w, false);
	T_INT(duo.s.messages, 0); /* not from within the call */
	T_WAIT(&duo, duo.s.messages == 1);
	T_STR(duo.s.text, "first");
	hear("\x8a\x01"
	     "2",
	     3);
	T_INT(duo.s.messages, 1);
	duo.s.hold_after = false;
	ws_hold(duo.s.w, false);
	T_WAIT(&duo, duo.s.messages == 2);
	duo_end();
}

TEST(a_holder_stops_the_sender)
{
	static uint8_t block[60000];
	uint64_t sent = 0;

	duo_open();
	ws_hold(duo.s.w, true);
	for (int i = 0; i < 3000; i++) {
		if (ws_send(duo.c.w, false, block, sizeof(block)))
			sent += sizeof(block);
		loop_once(duo.l, 0);
	}
	T_TRUE(sent < 2000000);
	ws_hold(duo.s.w, false);
	T_WAIT(&duo, duo.s.bytes == sent);
	T_TRUE(duo.c.writables > 0);
	duo_end();
}

TEST(a_flood_of_pings_is_bounded)
{
	static uint8_t flood[131 * 500];
	size_t sent = 0;

	duo_open_raw();
	for (size_t i = 0; i < sizeof(flood); i += 131) {
		flood[i] = 0x89;
		flood[i + 1] = 0x80 | 125;
	}
	/* nobody reads the pongs */
	for (int i = 0; i < 2000; i++) {
		ssize_t n =
		    send(duo.raw, flood + sent % 131, 131 * 400, MSG_DONTWAIT);

		if (n > 0)
			sent += (size_t)n;
		loop_once(duo.l, 0);
		T_TRUE(!duo.s.w || ws_room(duo.s.w) <= HTTP_OUT_MAX);
	}
	T_TRUE(sent > 1000000);
	T_TRUE(duo.server != NULL);
	T_INT(duo.s.closes, 0);
	duo_end();
}

/* ---- callbacks that end things ---- */

TEST(freed_within_its_message)
{
	duo_open();
	duo.s.free_on_message = true;
	T_TRUE(ws_send(duo.c.w, true, "a", 1));
	T_TRUE(ws_send(duo.c.w, true, "b", 1));
	T_WAIT(&duo, duo.c.closes);
	T_INT(duo.s.messages, 1);
	T_INT(duo.s.closes, 0);
	T_INT(duo.c.code, WS_ABNORMAL);
	duo_end();
}

TEST(cut_within_its_message)
{
	duo_open();
	duo.s.cut_on_message = true;
	T_TRUE(ws_send(duo.c.w, true, "a", 1));
	T_TRUE(ws_send(duo.c.w, true, "b", 1));
	T_WAIT(&duo, duo.c.closes && duo.s.closes);
	T_INT(duo.s.messages, 1);
	T_INT(duo.s.code, WS_ABNORMAL);
	duo_end();
}

TEST(sends_after_the_end_are_dropped)
{
	duo_open();
	ws_cut(duo.s.w);
	T_TRUE(ws_send(duo.s.w, true, "a", 1));
	ws_close(duo.s.w, 1000, NULL);
	ws_cut(duo.s.w);
	T_WAIT(&duo, duo.s.closes);
	T_INT(duo.s.closes, 1);
	duo_end();
}

/* ---- time ---- */

TEST(a_silent_peer_is_pinged_then_cut)
{
	ws_ping_ms = 20;
	ws_idle_ms = 100;
	duo_open_raw();
	hear("\x89\x00", 2);
	T_WAIT(&duo, duo.s.closes);
	T_INT(duo.s.code, WS_ABNORMAL);
	T_HAS(duo.s.reason, "silent");
	ws_ping_ms = 20000;
	ws_idle_ms = 60000;
	duo_end();
}

TEST(a_peer_that_answers_pings_stays)
{
	uint64_t until;

	ws_ping_ms = 10;
	ws_idle_ms = 2000;
	duo_open();
	until = peer_now() + 3000;
	while (peer_now() < until)
		loop_once(duo.l, 10);
	T_TRUE(duo.s.w && duo.c.w);
	ws_ping_ms = 20000;
	ws_idle_ms = 60000;
	duo_end();
}

TEST(one_who_holds_does_not_call_the_peer_silent)
{
	uint64_t until;

	ws_idle_ms = 50;
	duo_open_raw();
	ws_hold(duo.s.w, true);
	say_frame(0x81, "first", 5);
	loop_once(duo.l, 5);
	until = peer_now() + 300;
	while (peer_now() < until)
		loop_once(duo.l, 10);
	T_INT(duo.s.closes, 0);
	ws_hold(duo.s.w, false);
	T_WAIT(&duo, duo.s.messages == 1);
	T_WAIT(&duo, duo.s.closes); /* now he has to speak */
	ws_idle_ms = 60000;
	duo_end();
}

TEST(a_close_that_is_not_answered)
{
	ws_close_ms = 50;
	duo_open_raw();
	ws_close(duo.s.w, 1000, "bye");
	hear("\x88\x05\x03\xe8"
	     "bye",
	     7);
	T_WAIT(&duo, duo.s.closes);
	T_INT(duo.s.code, WS_ABNORMAL);
	ws_close_ms = 5000;
	duo_end();
}

TEST(a_peer_that_never_half_closes)
{
	ws_close_ms = 50;
	duo_open_raw();
	say_frame(0x88, "\x03\xe8", 2);
	T_WAIT(&duo, duo.s.closes);
	T_INT(duo.s.code, 1000);
	ws_close_ms = 5000;
	duo_end();
}
