/* SPDX-License-Identifier: Apache-2.0 */

/*
 * guest-client SOCKET COMMAND...: speak to a guest by hand, over the socket of
 * its channel. Commands: hello | go (renew and thaw) | METHOD PATH [BODY] |
 * run WORD... (exec, its output, its exit fact) | time N (calls of hello). A
 * developer's tool, not installed.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/channel.h"
#include "base/own.h"
#include "base/text.h"
#include "guestd/test-rig.h"
#include "net/json.h"
#include "proto/data.h"

static int show(struct rig *r, const char *method, const char *path,
		const char *body)
{
	struct rig_reply p;
	uint64_t from = now_mono_us();
	int status = rig_call(r, &p, method, path, body);

	printf("%d %.2f ms %.*s\n", status,
	       (double)(now_mono_us() - from) / 1000, (int)buf_len(&p.body),
	       (const char *)buf_data(&p.body));
	rig_reply_fini(&p);
	return status >= 200 && status < 300 ? 0 : 1;
}

static uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

static void show_frames(struct buf *b)
{
	while (buf_len(b) >= EXEC_FRAME_HEADER) {
		const uint8_t *h = buf_data(b);
		size_t n = get_u32(h + 4);

		if (buf_len(b) < EXEC_FRAME_HEADER + n)
			return;
		if (h[0] == EXEC_STDOUT || h[0] == EXEC_STDERR)
			fwrite(h + EXEC_FRAME_HEADER, 1, n,
			       h[0] == EXEC_STDOUT ? stdout : stderr);
		else
			fprintf(stderr, "[%02x %.*s]\n", h[0], (int)n,
				(const char *)h + EXEC_FRAME_HEADER);
		buf_consume(b, EXEC_FRAME_HEADER + n);
	}
}

static int run(struct rig *r, char **words, int n)
{
	json_t *cmd = json_array(), *spec = json_object();
	char id[32] = "ex_", path[96];
	owned_str body = NULL;
	struct rig_reply p;
	uint64_t from = now_mono_us();

	random_id(id + 3, 28);
	for (int i = 0; i < n; i++)
		(void)json_array_append_new(cmd, json_string(words[i]));
	json_set_take(spec, "id", json_string(id));
	json_set_take(spec, "cmd", cmd);
	json_set_take(spec, "start", json_string("now"));
	json_set_take(spec, "overflow", json_string("block"));
	body = json_text(spec);
	json_decref(spec);
	if (show(r, "POST", "/v1/execs", body) != 0)
		return 1;
	snprintf(path, sizeof(path), "/v1/execs/%s/output?from=0&follow=1", id);
	rig_start(r, &p, "GET", path, NULL, NULL, 0);
	while (!p.closed) {
		rig_run(r, 1000, &p.closed);
		show_frames(&p.body);
	}
	show_frames(&p.body);
	fprintf(stderr, "%.2f ms, %llu bytes on the channel\n",
		(double)(now_mono_us() - from) / 1000,
		(unsigned long long)r->rx_bytes);
	rig_reply_fini(&p);
	return 0;
}

static int time_calls(struct rig *r, int n)
{
	uint64_t from = now_mono_us();

	for (int i = 0; i < n; i++) {
		struct rig_reply p;

		(void)rig_call(r, &p, "GET", "/g1/hello", NULL);
		rig_reply_fini(&p);
	}
	printf("%d calls, %.3f ms each\n", n,
	       (double)(now_mono_us() - from) / 1000 / (n ? n : 1));
	return 0;
}

int main(int argc, char **argv)
{
	struct rig r;
	struct err e = { 0 };
	int fd, res;
	struct loop *l;

	if (argc < 3)
		return 2;
	fd = unix_connect(argv[1], SOCK_STREAM, &e);
	if (fd < 0) {
		fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	l = loop_new();
	rig_init_take(&r, l, fd);
	if (!rig_wait_up(&r)) {
		fprintf(stderr, "the guest does not answer\n");
		return 1;
	}
	if (strcmp(argv[2], "hello") == 0)
		res = show(&r, "GET", "/g1/hello", NULL);
	else if (strcmp(argv[2], "go") == 0)
		res = printf("%d\n", rig_go(&r, "sb00000000000000000000")) < 0;
	else if (strcmp(argv[2], "run") == 0)
		res = run(&r, argv + 3, argc - 3);
	else if (strcmp(argv[2], "time") == 0 && argc > 3)
		res = time_calls(&r, (int)strtol(argv[3], NULL, 10));
	else if (argc > 3)
		res = show(&r, argv[2], argv[3], argc > 4 ? argv[4] : NULL);
	else
		res = 2;
	rig_fini(&r);
	loop_free(l);
	return res;
}
