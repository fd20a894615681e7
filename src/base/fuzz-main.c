/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() of a fuzz harness that is built without libFuzzer: runs every file
 * named, and every file in the directories named, once. So the corpus is a
 * regression test for every compiler and sanitizer.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/text.h"

#define SEED_MAX (16u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool run_file(const char *path)
{
	owned_str text = NULL;
	struct err e = { 0 };
	uint8_t *exact;
	size_t n;

	if (file_read(path, SEED_MAX, &text, &n, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		return false;
	}
	/* to the byte, so that a sanitizer sees a read behind the end */
	exact = malloc(n ? n : 1);
	if (!exact)
		return false;
	memcpy(exact, text, n);
	(void)LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	return true;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool run_dir(const char *path, size_t *n_run)
{
	struct dirent **names;
	int n = scandir(path, &names, NULL, by_name);
	bool ok = n >= 0;

	for (int i = 0; i < n; i++) {
		owned_str file = xasprintf("%s/%s", path, names[i]->d_name);

		if (names[i]->d_name[0] != '.') {
			ok &= run_file(file);
			++*n_run;
		}
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return ok;
}

int main(int argc, char **argv)
{
	size_t n_run = 0;
	bool ok = true;

	for (int i = 1; i < argc; i++) {
		struct stat st;

		if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
			ok &= run_dir(argv[i], &n_run);
		} else {
			ok &= run_file(argv[i]);
			n_run++;
		}
	}
	printf("%zu inputs\n", n_run);
	/* a corpus that was not found must not look like success */
	return ok && n_run > 0 ? 0 : 1;
}
