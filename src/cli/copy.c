/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/copy.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/sigs.h"

#define PAUSE_MIN_MS 100u
#define PAUSE_MAX_MS 2000u

bool copy_interrupted(struct copy *x)
{
	struct signalfd_siginfo si;

	if (read(x->signal_fd, &si, sizeof(si)) != (ssize_t)sizeof(si))
		return false;
	x->signo = (int)si.ssi_signo;
	return true;
}

static int on_signal(void *arg)
{
	return copy_interrupted(arg);
}

void copy_init(struct copy *x)
{
	x->signal_fd = follow_signals();
	client_watch(x->client, x->signal_fd, on_signal, x);
	meter_init(&x->meter, x->quiet || !isatty(STDERR_FILENO));
	x->started_ms = now_mono_us() / 1000;
}

void copy_fini(struct copy *x)
{
	meter_end(&x->meter);
	client_watch(x->client, -1, NULL, NULL);
	x->signal_fd = fd_close(x->signal_fd);
	unblock_signals();
}

void copy_progress(struct copy *x, uint64_t done, uint64_t total)
{
	uint64_t now = now_mono_us() / 1000;

	x->moved = done;
	if (total) {
		meter_set(&x->meter, done, total, x->what);
		return;
	}
	if (x->meter.quiet || now - x->meter.painted_ms < 200)
		return;
	fprintf(stderr, "\r%.40s  %.1f MiB\033[K", x->what,
		(double)done / 1048576);
	fflush(stderr);
	x->meter.painted = true;
	x->meter.painted_ms = now;
}

int copy_failed(struct copy *x, int r, const struct fault *f,
		const struct err *e)
{
	meter_end(&x->meter);
	if (x->signo)
		return 128 + x->signo;
	if (r == CLIENT_FAULT)
		return cli_fault(x->cli, f);
	return cli_fail(x->cli, e);
}

void copy_pause(unsigned try)
{
	unsigned ms = PAUSE_MIN_MS << (try < 5 ? try : 5);

	usleep(1000 * (ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : ms));
}
