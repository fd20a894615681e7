/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/meter.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

#define PAINT_MS 200u

static uint64_t now_ms(void)
{
	return now_mono_us() / 1000;
}

void meter_init(struct meter *m, bool quiet)
{
	*m =
	    (struct meter){ .terminal = isatty(STDERR_FILENO), .quiet = quiet };
	progress_init(&m->p);
}

static void show(struct meter *m, bool now)
{
	struct winsize ws = { 0 };
	char line[256];

	if (m->quiet || m->p.total == 0)
		return;
	if (!m->terminal) {
		if (progress_plain(&m->p, now_ms(), line, sizeof(line)))
			fprintf(stderr, "%s\n", line);
		return;
	}
	if (!now && now_ms() - m->painted_ms < PAINT_MS)
		return;
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) < 0 || ws.ws_col < 20)
		ws.ws_col = 80;
	progress_bar(&m->p, now_ms(), ws.ws_col - 1u, line, sizeof(line));
	fprintf(stderr, "\r%s\033[K", line);
	fflush(stderr);
	m->painted = true;
	m->painted_ms = now_ms();
}

void meter_line(struct meter *m, const char *line)
{
	if (progress_line(&m->p, line, now_ms()))
		show(m, true);
}

void meter_set(struct meter *m, uint64_t done, uint64_t total,
	       const char *phase)
{
	m->p.seconds = false;
	progress_set(&m->p, done, total, phase, now_ms());
	show(m, false);
}

void meter_tick(struct meter *m)
{
	show(m, false);
}

void meter_end(struct meter *m)
{
	if (m->painted)
		fputc('\n', stderr);
	m->painted = false;
}
