/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/follow.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/ndjson.h"
#include "net/json.h"

#define GIVE_UP_MS   60000u
#define PAUSE_MIN_MS 100u
#define PAUSE_MAX_MS 2000u

struct following {
	struct follow *f;
	struct ndjson decoder;
	struct err e; /* why feeding ended */
	uint64_t progress_ms;
	bool bad;
};

static void ours(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
}

void unblock_signals(void)
{
	sigset_t set;

	ours(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int follow_signals(void)
{
	sigset_t set;

	ours(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static uint64_t now_ms(void)
{
	return now_mono_us() / 1000;
}

static void forward_signal(struct follow *f, int signo)
{
	owned_str path = xasprintf("/v1/execs/%s/signal", f->exec);
	owned_json body = json_object();
	struct fault fault;
	struct err e = { 0 };
	int r;

	json_set_take(body, "name",
		      json_string(signo == SIGINT   ? "INT"
				  : signo == SIGHUP ? "HUP"
						    : "TERM"));
	json_set_take(body, "scope", json_string("tree"));
	r = client_call(f->control, CLIENT_CONTROL, "POST", path, body, 5, NULL,
			NULL, &fault, &e);
	if (r == CLIENT_OK)
		return;
	fprintf(stderr,
		"caisson: the signal did not reach the command (%s); once "
		"more to leave\n",
		r == CLIENT_FAULT ? fault.message : e.msg);
}

/* Non-zero: leave. */
static int on_signal(void *arg)
{
	struct follow *f = arg;
	struct signalfd_siginfo si;

	while (read(f->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		f->last_signal = (int)si.ssi_signo;
		if (++f->n_signals > 1) {
			f->interrupted = true;
			return 1;
		}
		forward_signal(f, f->last_signal);
	}
	return 0;
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

/* Wait before the next attempt; non-zero if a second signal came. */
static int pause_for(struct follow *f, unsigned ms)
{
	struct pollfd p = { .fd = f->signal_fd, .events = POLLIN };

	if (poll(&p, 1, (int)ms) > 0)
		return on_signal(f);
	return 0;
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
	owned_str path =
	    xasprintf("/v1/execs/%s/output?from=%" PRIu64 "&follow=1", f->exec,
		      g->decoder.next);
	struct fault fault = { 0 };
	struct err e = { 0 };
	int r;

	ndjson_restart(&g->decoder);
	r = client_stream(f->data, CLIENT_DATA, path, "application/x-ndjson",
			  on_bytes, g, &fault, &e);
	if (f->fact || f->interrupted || f->reader_gone)
		return 1;
	if (g->bad) {
		*ret_exit = cli_fail(f->cli, &g->e);
		return -1;
	}
	if (r == CLIENT_FAULT && !passing(&fault)) {
		*ret_exit = cli_fault(f->cli, &fault);
		/* the exec was there a moment ago: 127 would blame a name */
		if (*ret_exit == CLI_NOT_FOUND)
			*ret_exit = CLI_OURS;
		return -1;
	}
	return 0;
}

int follow_output(struct follow *f)
{
	struct following g = { .f = f };
	unsigned pause_ms = PAUSE_MIN_MS;
	int r, ret = CLI_OK;

	ndjson_init(&g.decoder, 0, on_frame, &g);
	g.progress_ms = now_ms();
	if (f->signal_fd >= 0)
		client_watch(f->data, f->signal_fd, on_signal, f);
	for (;;) {
		uint64_t before = g.progress_ms;

		r = attempt(&g, &ret);
		if (r)
			break;
		if (now_ms() - g.progress_ms > GIVE_UP_MS) {
			ret = cli_usage("the connection did not come back for "
					"%u s; the command may still run: "
					"caisson ls",
					GIVE_UP_MS / 1000);
			break;
		}
		if (g.progress_ms != before || pause_ms == PAUSE_MIN_MS) {
			pause_ms = PAUSE_MIN_MS;
			fprintf(stderr,
				"caisson: connection lost at byte %" PRIu64
				", resuming …\n",
				g.decoder.next);
		}
		if (pause_for(f, pause_ms))
			break;
		pause_ms =
		    pause_ms * 2 > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause_ms * 2;
	}
	client_watch(f->data, -1, NULL, NULL);
	ndjson_fini(&g.decoder);
	return ret;
}

void follow_fini(struct follow *f)
{
	json_decref(f->fact);
	f->fact = NULL;
	f->signal_fd = fd_close(f->signal_fd);
}
