/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_MS     30000u
#define MARK_EVERY_MS 1000u
#define PLAIN_MS      5000u

void progress_init(struct progress *p)
{
	*p = (struct progress){ 0 };
}

void progress_set(struct progress *p, uint64_t done, uint64_t total,
		  const char *phase, uint64_t now_ms)
{
	size_t last;

	if (done > total)
		done = total;
	/* another phase or a step back: the old speed says nothing */
	if (strcmp(p->phase, phase) != 0 || done < p->done ||
	    total != p->total) {
		p->n_marks = 0;
		p->first = 0;
		snprintf(p->phase, sizeof(p->phase), "%.63s", phase);
		p->phase_ms = now_ms;
	}
	p->done = done;
	p->total = total;
	if (p->n_marks > 0) {
		last = (p->first + p->n_marks - 1) % PROGRESS_MARKS;
		if (now_ms - p->marks[last].at_ms < MARK_EVERY_MS)
			return;
	}
	if (p->n_marks == PROGRESS_MARKS) {
		p->first = (p->first + 1) % PROGRESS_MARKS;
		p->n_marks--;
	}
	last = (p->first + p->n_marks++) % PROGRESS_MARKS;
	p->marks[last].at_ms = now_ms;
	p->marks[last].done = done;
}

bool progress_line(struct progress *p, const char *line, uint64_t now_ms)
{
	char phase[64];
	char *end;
	unsigned long long done, total;
	size_t n = 0;

	if (strncmp(line, "progress ", 9) != 0)
		return false;
	line += 9;
	if (*line < '0' || *line > '9')
		return false;
	done = strtoull(line, &end, 10);
	if (*end != ' ' || end[1] < '0' || end[1] > '9')
		return false;
	total = strtoull(end + 1, &end, 10);
	if (*end != ' ' || total == 0)
		return false;
	for (end++; *end && n + 1 < sizeof(phase); end++)
		phase[n++] = (unsigned char)*end < 0x20 ? '?' : *end;
	phase[n] = '\0';
	progress_set(p, done, total, phase, now_ms);
	p->seconds = true;
	return true;
}

/* Seconds of the plan that are over: never all while the phase lasts. */
static uint64_t planned_done(const struct progress *p, uint64_t now_ms)
{
	uint64_t s = p->done + (now_ms - p->phase_ms) / 1000;

	return s < p->total || p->done == p->total ? s : p->total - 1;
}

/* The phase alone has taken all that was planned: nobody knows any more. */
static bool is_overdue(const struct progress *p, uint64_t now_ms)
{
	return p->seconds && p->done < p->total &&
	       p->done + (now_ms - p->phase_ms) / 1000 >= p->total;
}

int64_t progress_eta_s(const struct progress *p, uint64_t now_ms)
{
	uint64_t at = 0, did, ms;
	size_t i;

	if (p->total == 0 || p->n_marks == 0)
		return -1;
	if (p->done == p->total)
		return 0;
	if (p->seconds)
		return is_overdue(p, now_ms)
			   ? -1
			   : (int64_t)(p->total - planned_done(p, now_ms));
	for (i = 0; i < p->n_marks; i++) {
		at = p->marks[(p->first + i) % PROGRESS_MARKS].at_ms;
		if (now_ms - at <= WINDOW_MS)
			break;
	}
	if (i == p->n_marks)
		i--; /* stalled: count the stall too */
	at = p->marks[(p->first + i) % PROGRESS_MARKS].at_ms;
	did = p->done - p->marks[(p->first + i) % PROGRESS_MARKS].done;
	ms = now_ms - at;
	if (did == 0 || ms < MARK_EVERY_MS)
		return -1;
	return (int64_t)((double)(p->total - p->done) / (double)did *
			     (double)ms / 1000.0 +
			 0.5);
}

static void left(const struct progress *p, uint64_t now_ms, char *ret, size_t n)
{
	int64_t s = progress_eta_s(p, now_ms);

	if (is_overdue(p, now_ms))
		snprintf(ret, n, "  longer than planned");
	else if (s <= 0)
		ret[0] = '\0'; /* not known, or over */
	else if (s < 60)
		snprintf(ret, n, "  %" PRId64 "s left", s);
	else if (s < 3600)
		snprintf(ret, n, "  %" PRId64 "m %02" PRId64 "s left", s / 60,
			 s % 60);
	else
		snprintf(ret, n, "  %" PRId64 "h %02" PRId64 "m left", s / 3600,
			 s / 60 % 60);
}

static unsigned percent(const struct progress *p, uint64_t now_ms)
{
	uint64_t done = p->done;

	if (p->total == 0)
		return 0;
	if (p->seconds && p->done < p->total)
		done = planned_done(p, now_ms);
	return (unsigned)((double)done * 100.0 / (double)p->total);
}

void progress_bar(const struct progress *p, uint64_t now_ms, unsigned columns,
		  char *ret, size_t n)
{
	char rest[48], bar[41];
	unsigned room = 0, filled;

	left(p, now_ms, rest, sizeof(rest));
	/* 20 for the phase, 9 for the percentage, 4 for brackets and space */
	if (columns > 20 + 9 + 4 + strlen(rest))
		room = columns - (unsigned)(20 + 9 + 4 + strlen(rest));
	if (room > sizeof(bar) - 1)
		room = sizeof(bar) - 1;
	filled = room * percent(p, now_ms) / 100;
	memset(bar, '.', room);
	memset(bar, '#', filled);
	bar[room] = '\0';
	snprintf(ret, n, "%-18.18s  [%s]  %3u %%%s", p->phase, bar,
		 percent(p, now_ms), rest);
}

bool progress_plain(struct progress *p, uint64_t now_ms, char *ret, size_t n)
{
	char rest[48];

	if (p->said_ms != 0 && !strcmp(p->said_phase, p->phase) &&
	    now_ms - p->said_ms < PLAIN_MS)
		return false;
	p->said_ms = now_ms ? now_ms : 1;
	snprintf(p->said_phase, sizeof(p->said_phase), "%s", p->phase);
	left(p, now_ms, rest, sizeof(rest));
	snprintf(ret, n, "%s: %u %%%s", p->phase, percent(p, now_ms), rest);
	return true;
}
