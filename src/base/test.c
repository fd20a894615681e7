/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"

enum outcome { PASSED, FAILED, SKIPPED, OUTCOME_MAX_ };

static struct test *first, **last = &first;
static jmp_buf back;
static char why[1024];
static char tmpdir[64];

void test_register(struct test *t)
{
	*last = t;
	last = &t->next;
}

void test_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(why, sizeof(why), "%s:%d: ", file, line);

	va_start(ap, fmt);
	vsnprintf(why + n, sizeof(why) - (size_t)n, fmt, ap);
	va_end(ap);
	longjmp(back, 1 + FAILED);
}

void test_skip(const char *reason)
{
	snprintf(why, sizeof(why), "%s", reason);
	longjmp(back, 1 + SKIPPED);
}

const char *test_tmpdir(void)
{
	const char *base = getenv("TMPDIR");

	if (!tmpdir[0]) {
		/* short: names of sockets hold 107 bytes */
		snprintf(tmpdir, sizeof(tmpdir), "%s/caisson-test-XXXXXX",
			 base && strlen(base) < 32 ? base : "/tmp");
		CHECK(mkdtemp(tmpdir));
	}
	return tmpdir;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *w)
{
	(void)st;
	(void)type;
	(void)w;
	(void)remove(path);
	return 0;
}

static enum outcome run(struct test *t)
{
	int r = setjmp(back);

	if (r == 0)
		t->run();
	if (tmpdir[0])
		(void)nftw(tmpdir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	tmpdir[0] = 0;
	return r == 0 ? PASSED : (enum outcome)(r - 1);
}

/* TAP wants one line. */
static void print_why(const char *prefix)
{
	for (char *s = strtok_r(why, "\n", &(char *){ NULL }); s; s = NULL)
		printf("%s%s\n", prefix, s);
}

int main(int argc, char **argv)
{
	unsigned count[OUTCOME_MAX_] = { 0 }, n = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (struct test *t = first; t; t = t->next) {
		enum outcome o;

		if (argc > 1 && !strstr(t->name, argv[1]))
			continue;
		o = run(t);
		count[o]++;
		printf("%s %u %s", o == FAILED ? "not ok" : "ok", ++n, t->name);
		if (o == SKIPPED)
			print_why(" # SKIP ");
		else
			printf("\n");
		if (o == FAILED)
			print_why("# ");
	}
	printf("1..%u\n# %u passed, %u failed, %u skipped\n", n, count[PASSED],
	       count[FAILED], count[SKIPPED]);
	return count[FAILED] ? 1 : 0;
}
