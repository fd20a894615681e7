/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/h-usage.h"
#include "api/handlers.h"
#include "base/own.h"
#include "base/text.h"

#define GROUPS_MAX  "1000"
#define LABEL_MAX   128u
#define STEPS_MAX   2000
#define STEP_S_MAX  86400
#define SPAN_MS	    3600000  /* of a series without `from` */
#define DAY_MS	    86400000 /* usage without `from`: one day */
#define TIME_DIGITS "0123456789"

static bool bad(struct req *r, const char *field, const char *expected)
{
	struct fault f;

	fault_set(&f, "invalid_field", "request",
		  "GET /v1/openapi.json describes it", "%s: expected %s", field,
		  expected);
	snprintf(f.field, sizeof(f.field), "%s", field);
	req_fault(r, &f);
	return false;
}

static bool two(const char *s, int min, int max, int *ret)
{
	if (s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9')
		return false;
	*ret = (s[0] - '0') * 10 + s[1] - '0';
	return *ret >= min && *ret <= max;
}

/* Days from 1970-01-01 to a date of the Gregorian calendar. */
static int64_t days_of(int y, int m, int d)
{
	int64_t era, yoe, doy;

	y -= m <= 2;
	era = y / 400;
	yoe = y - era * 400;
	doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

bool time_parse(const char *s, int64_t *ret_ms)
{
	int hi, lo, mon, day, h, m, sec, year, ms = 0, scale = 100;
	static const int length[] = { 31, 29, 31, 30, 31, 30,
				      31, 31, 30, 31, 30, 31 };

	if (strlen(s) < 20 || !two(s, 19, 99, &hi) || !two(s + 2, 0, 99, &lo) ||
	    s[4] != '-' || !two(s + 5, 1, 12, &mon) || s[7] != '-' ||
	    !two(s + 8, 1, length[mon - 1], &day) || s[10] != 'T' ||
	    !two(s + 11, 0, 23, &h) || s[13] != ':' ||
	    !two(s + 14, 0, 59, &m) || s[16] != ':' ||
	    !two(s + 17, 0, 59, &sec))
		return false;
	s += 19;
	if (*s == '.') {
		if (!strspn(s + 1, TIME_DIGITS) ||
		    strspn(s + 1, TIME_DIGITS) > 9)
			return false;
		for (s++; *s >= '0' && *s <= '9'; s++, scale /= 10)
			ms += (*s - '0') * scale;
	}
	if (strcmp(s, "Z") != 0)
		return false;
	year = hi * 100 + lo;
	if (mon == 2 && day == 29 &&
	    (year % 4 != 0 || (year % 100 == 0 && year % 400 != 0)))
		return false;
	*ret_ms =
	    (((days_of(year, mon, day) * 24 + h) * 60 + m) * 60 + sec) * 1000 +
	    ms;
	return true;
}

/* from and to, or the last span_ms. false: answered. */
static bool read_span(struct req *r, int64_t span_ms, int64_t *ret_from,
		      int64_t *ret_to)
{
	owned_str from = req_query(r, "from");
	owned_str to = req_query(r, "to");

	*ret_to = now_unix_ms();
	if (to && !time_parse(to, ret_to))
		return bad(r, "to", "a time such as 2026-12-01T10:00:00Z");
	*ret_from = *ret_to - span_ms;
	if (from && !time_parse(from, ret_from))
		return bad(r, "from", "a time such as 2026-12-01T10:00:00Z");
	if (*ret_from >= *ret_to)
		return bad(r, "from", "a time before `to`");
	return true;
}

/* ---- usage ---- */

static struct pg_stmt st_usage = {
	"usage_report",
	"SELECT caisson.usage_report($1, $2, $3::timestamptz, "
	"$4::timestamptz, $5, $6, $7)",
	7, 0
};

static void on_text(struct req *r, const struct pg_result *res,
		    const char *sqlstate)
{
	struct fault f;

	(void)sqlstate;
	if (pg_rows(res) && pg_text(res, 0, 0)) {
		req_json(r, 200, pg_text(res, 0, 0));
		return;
	}
	fault_set(&f, "not_found", "request",
		  "`caisson ls -a` shows what there is", "no such sandbox");
	req_fault(r, &f);
}

void h_usage(struct req *r)
{
	owned_str group = req_query(r, "group");
	const char *word = group ? group : "project", *label = NULL;
	char from[25], to[25];
	int64_t from_ms, to_ms;

	if (!read_span(r, DAY_MS, &from_ms, &to_ms))
		return;
	if (strncmp(word, "label:", 6) == 0 && word[6] &&
	    strlen(word) <= 6 + LABEL_MAX) {
		label = word + 6;
		word = "label";
	} else if (strcmp(word, "project") != 0 &&
		   strcmp(word, "sandbox") != 0) {
		bad(r, "group", "project, sandbox or label:KEY");
		return;
	}
	text_rfc3339(from_ms, from);
	text_rfc3339(to_ms, to);
	req_db(
	    r, &st_usage,
	    (const char *[]){ r->who.tenant,
			      r->who.role >= ROLE_ADMIN ? NULL : r->who.project,
			      from, to, word, label, GROUPS_MAX },
	    on_text);
}

/* ---- a sandbox's series ---- */

static struct pg_stmt st_series = {
	"metrics_series",
	"SELECT caisson.metrics_series($1, $2, $3, $4::timestamptz, "
	"$5::timestamptz, $6)",
	6, 0
};

bool metrics_series_asked(struct req *r)
{
	owned_str from = req_query(r, "from");
	owned_str to = req_query(r, "to");
	owned_str step = req_query(r, "step_s");

	return from || to || step;
}

void metrics_series(struct req *r)
{
	char from[25], to[25], step[24];
	int64_t from_ms, to_ms, step_s;

	if (!read_span(r, SPAN_MS, &from_ms, &to_ms) ||
	    !req_query_int(r, "step_s", 10, STEP_S_MAX, 60, &step_s))
		return;
	if ((to_ms - from_ms) / (step_s * 1000) > STEPS_MAX) {
		bad(r, "step_s", "at most 2000 steps between `from` and `to`");
		return;
	}
	text_rfc3339(from_ms, from);
	text_rfc3339(to_ms, to);
	snprintf(step, sizeof(step), "%" PRId64, step_s);
	req_db(r, &st_series,
	       (const char *[]){ r->who.tenant, r->who.project,
				 req_param(r, "id"), from, to, step },
	       on_text);
}
