/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/ndjson.h"
#include "net/json.h"

#define PAUSE_MIN_MS 100u
#define PAUSE_MAX_MS 2000u

struct following {
	struct follow *f;
	struct ndjson decoder;
	struct err e; /* why feeding ended */
	uint64_t progress_ms;
	bool bad;
};

static uint64_t now_ms(void)
{
	return now_mono_us() / 1000;
}

static int print_json_frame(const struct ndjson_frame *fr, uint64_t next)
{
	static const char *const streams[] = { "", "stdout", "stderr", "pty" };
	owned_json v = json_object();
	owned_str text = NULL;

	if (fr->type == NDJSON_OUTPUT) {
		text = xcalloc(text_base64_len(fr->n) + 1, 1);
		text_base64(fr->p, fr->n, text);
		json_set_take(v, "offset",
			      json_integer((json_int_t)(next - fr->n)));
		json_set_take(v, "stream", json_string(streams[fr->stream]));
		json_set_take(v, "b64", json_string(text));
	} else if (fr->type == NDJSON_GAP) {
		json_set_take(v, "gap",
			      json_pack("{s:I,s:I}", "from",
					(json_int_t)fr->from, "to",
					(json_int_t)fr->to));
	} else {
		json_set_take(v, "exit", json_deep_copy(fr->fact));
	}
	free(text);
	text = json_text(v);
	return printf("%s\n", text) < 0 || fflush(stdout) ? -EPIPE : 0;
}

static int on_frame(void *arg, const struct ndjson_frame *fr)
{
	struct following *g = arg;
	int r = 0;

	if (fr->type == NDJSON_EXIT)
		g->f->fact = json_deep_copy(fr->fact);
	if (fr->type == NDJSON_GAP)
		fprintf(stderr,
			"caisson: %" PRIu64
			" bytes of output are gone (%" PRIu64 " to %" PRIu64
			")\n",
			fr->to - fr->from, fr->from, fr->to);
	if (fr->type == NDJSON_STARTED || fr->type == NDJSON_OTHER)
		return 0;
	if (g->f->cli->json)
		r = print_json_frame(fr, g->decoder.next);
	else if (fr->type == NDJSON_OUTPUT)
		r = write_all(fr->stream == 2 ? STDERR_FILENO : STDOUT_FILENO,
			      fr->p, fr->n);
	if (r < 0) {
		g->f->reader_gone = true;
		return 1;
	}
	return 0;
}

static int on_bytes(void *arg, const void *p, size_t n)
{
	struct following *g = arg;
	int r;

	g->progress_ms = now_ms();
	r = ndjson_feed(&g->decoder, p, n, &g->e);
	if (r == -EBADMSG)
		g->bad = true;
	return r;
}

static bool passing(const struct fault *f)
{
	return f->status == 429 || f->status == 500 || f->status == 502 ||
	       f->status == 503 || f->status == 504;
}

/* One connection. 1: over (as f says); 0: lost, try again; < 0: for good, with
 * *ret_exit. */
static int attempt(struct following *g, int *ret_exit)
{
	struct follow *f = g->f;
	owned_str path = xasprintf("%s?from=%" PRIu64 "&follow=%d", f->path,
				   g->decoder.next, f->follow);
	struct fault fault = { 0 };
	struct err e = { 0 };
	int r;

	ndjson_restart(&g->decoder);
	r = client_stream(f->client, f->side, path, "application/x-ndjson",
			  on_bytes, g, &fault, &e);
	if (f->fact || f->reader_gone)
		return 1;
	if (r == CLIENT_OK && (!f->follow || !f->has_end))
		return 1;
	if (g->bad) {
		*ret_exit = cli_fail(f->cli, &g->e);
		return -1;
	}
	if (r == CLIENT_FAULT && (!f->follow || !passing(&fault))) {
		*ret_exit = cli_fault(f->cli, &fault);
		return -1;
	}
	if (!f->follow && r < 0) {
		*ret_exit = cli_fail(f->cli, &e);
		return -1;
	}
	return 0;
}

int follow_log(struct follow *f)
{
	struct following g = { .f = f };
	unsigned pause_ms = PAUSE_MIN_MS;
	int r, ret = CLI_OK;

	ndjson_init(&g.decoder, f->from, on_frame, &g);
	g.decoder.unnamed = !f->has_end;
	g.progress_ms = now_ms();
	for (;;) {
		uint64_t before = g.progress_ms;

		r = attempt(&g, &ret);
		if (r)
			break;
		if (now_ms() - g.progress_ms >
		    FOLLOW_GIVE_UP_S * UINT64_C(1000)) {
			ret = cli_usage("the connection did not come back for "
					"%d s; to go on: --from %" PRIu64,
					FOLLOW_GIVE_UP_S, g.decoder.next);
			break;
		}
		if (g.progress_ms != before || pause_ms == PAUSE_MIN_MS) {
			pause_ms = PAUSE_MIN_MS;
			fprintf(stderr,
				"caisson: connection lost at byte %" PRIu64
				", resuming …\n",
				g.decoder.next);
		}
		usleep(1000 * pause_ms);
		pause_ms =
		    pause_ms * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause_ms * 2;
	}
	ndjson_fini(&g.decoder);
	return ret;
}
