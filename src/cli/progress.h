/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Progress of a long step: `progress DONE TOTAL phase` lines in, a bar with
 * remaining time out (terminal), or a plain line at most every 5 s. The
 * estimate looks at the last 30 s only, so a slow start is forgotten; it says
 * nothing before it knows something. Lines count in seconds expected and come
 * at the beginning of a phase: between them time itself is the progress. Pure;
 * the caller has the clock.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_MARKS 32u

struct progress {
	char phase[64];
	uint64_t done, total;
	bool seconds;	   /* done and total are seconds expected */
	uint64_t phase_ms; /* when the phase began */
	struct {
		uint64_t at_ms, done;
	} marks[PROGRESS_MARKS]; /* ring, oldest overwritten */
	size_t n_marks, first;
	uint64_t said_ms; /* last plain line; 0 = none */
	char said_phase[64];
};

void progress_init(struct progress *p);
/* Parse one line (without newline); false if it is none. */
bool progress_line(struct progress *p, const char *line, uint64_t now_ms);
void progress_set(struct progress *p, uint64_t done, uint64_t total,
		  const char *phase, uint64_t now_ms);
/* Seconds left, or -1 while unknown. */
int64_t progress_eta_s(const struct progress *p, uint64_t now_ms);
/* "phase  [#####.....]  52 %  1m 10s left", at most `columns` wide. */
void progress_bar(const struct progress *p, uint64_t now_ms, unsigned columns,
		  char *ret, size_t n);
/* The same without a bar; true if it is time for one (new phase, or 5 s). */
bool progress_plain(struct progress *p, uint64_t now_ms, char *ret, size_t n);
