/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stream.h"

#include <unistd.h>

#include "base/own.h"
#include "base/text.h"

#define PAUSE_MIN_MS 100u
#define PAUSE_MAX_MS 2000u

struct following {
	struct stream *s;
	struct sse decoder;
	struct err e;
	uint64_t progress_ms;
	bool stopped, bad;
};

static int on_event(void *arg, const struct sse_event *ev)
{
	struct following *g = arg;
	int r = g->s->on_event(g->s->arg, ev);

	g->stopped = r != 0;
	return r;
}

static int on_bytes(void *arg, const void *p, size_t n)
{
	struct following *g = arg;
	int r;

	g->progress_ms = now_mono_us() / 1000;
	r = sse_feed(&g->decoder, p, n, &g->e);
	g->bad = r == -EMSGSIZE;
	return r;
}

static bool passing(const struct fault *f)
{
	return f->status == 429 || f->status == 502 || f->status == 503 ||
	       f->status == 504;
}

/* 1: over with *ret; 0: lost. */
static int attempt(struct following *g, bool first, int *ret)
{
	struct stream *s = g->s;
	owned_str path = s->path(s->arg, g->decoder.id);
	struct fault f = { 0 };
	struct err e = { 0 };
	int r;

	sse_restart(&g->decoder);
	r = client_stream(s->client, s->side, path, "text/event-stream",
			  on_bytes, g, &f, &e);
	*ret = CLI_OK;
	if (g->stopped)
		return 1;
	if (g->bad)
		*ret = cli_fail(s->cli, &g->e);
	else if (r == CLIENT_FAULT && (first || !passing(&f)))
		*ret = cli_fault(s->cli, &f);
	else if (r < 0 && (!s->resumes || (first && e.code == -ECONNREFUSED)))
		*ret = cli_fail(s->cli, &e);
	else if (s->resumes)
		return 0;
	return 1;
}

int stream_follow(struct stream *s)
{
	struct following g = { .s = s, .progress_ms = now_mono_us() / 1000 };
	unsigned pause_ms = PAUSE_MIN_MS;
	bool first = true;
	int ret;

	sse_init(&g.decoder, on_event, &g);
	while (!attempt(&g, first, &ret)) {
		uint64_t silent = now_mono_us() / 1000 - g.progress_ms;

		first = false;
		if (silent > UINT64_C(1000) * STREAM_GIVE_UP_S) {
			ret = cli_usage("the connection did not come back for "
					"%d s; to go on: --after %s",
					STREAM_GIVE_UP_S, g.decoder.id);
			break;
		}
		if (silent < 1000)
			pause_ms = PAUSE_MIN_MS;
		usleep(1000 * pause_ms);
		pause_ms =
		    pause_ms * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause_ms * 2;
	}
	sse_fini(&g.decoder);
	return ret;
}
