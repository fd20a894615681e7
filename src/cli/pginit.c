/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pginit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/user.h"
#include "cli/stack.h"
#include "cli/tree.h"

#define PG_DIR	    "/usr/lib/postgresql"
#define PG_MIN	    15
#define DB_USER	    "caisson-db"
#define DB_ENCODING "UTF8"

char *pg_find_bin(void)
{
	DIR *d = opendir(PG_DIR);
	struct dirent *de;
	long best = 0;
	char *found = NULL;

	while (d && (de = readdir(d))) {
		char *end;
		long v = strtol(de->d_name, &end, 10);
		owned_str initdb = NULL;
		owned_str server = NULL;

		if (*end || v < PG_MIN || v <= best)
			continue;
		initdb = xasprintf("%s/%ld/bin/initdb", PG_DIR, v);
		server = xasprintf("%s/%ld/bin/postgres", PG_DIR, v);
		if (access(initdb, X_OK) < 0 || access(server, X_OK) < 0)
			continue;
		best = v;
		free(found);
		found = xasprintf("%s/%ld/bin", PG_DIR, v);
	}
	if (d)
		closedir(d);
	return found;
}

/* Run a program as caisson-db to its end. */
static int run_as_db(const char *const *argv, struct err *e)
{
	static const char *const env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C",
					   "TZ=UTC", NULL };
	struct spawn s = {
		.argv = argv,
		.envp = env,
		.exe_fd = -1,
		/* stdout is noise; what goes wrong is on stderr: our log */
		.stdio = { -1, -1, STDERR_FILENO },
		.set_ids = true,
		.die_with_parent = true,
	};
	owned_fd pidfd = -1;
	pid_t pid;
	int status, r;

	r = user_lookup(DB_USER, &s.uid, &s.gid, e);
	if (r < 0)
		return r;
	r = spawn_start(&s, &pid, &pidfd, e);
	if (r < 0)
		return r;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return err_errno(e, errno, "wait for %s", argv[0]);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, -EIO, ERR_INTERNAL, "%s failed (status %d)",
			       argv[0], status);
	return 0;
}

int pg_init(const char *pg_bin, const char *data, struct err *e)
{
	owned_str final = xasprintf("%s/postgres", data);
	owned_str version = xasprintf("%s/PG_VERSION", final);
	owned_str fresh = xasprintf("%s/postgres.new", data);
	owned_str initdb = xasprintf("%s/initdb", pg_bin);
	const char *argv[] = { initdb,	      "-D",
			       fresh,	      "--username=" DB_USER,
			       "--auth=peer", "--encoding=" DB_ENCODING,
			       "--locale=C",  "--data-checksums",
			       NULL };
	uid_t uid;
	gid_t gid;
	int r;

	if (access(version, F_OK) == 0)
		return 0;
	r = user_lookup(DB_USER, &uid, &gid, e);
	if (r == 0)
		r = tree_remove(fresh, e);
	if (r < 0)
		return r;
	if (mkdir(fresh, 0700) < 0 || chown(fresh, uid, gid) < 0)
		return err_errno(e, errno, "%s", fresh);
	r = run_as_db(argv, e);
	if (r < 0)
		return r;
	if (rename(fresh, final) < 0)
		return err_errno(e, errno, "rename to %s", final);
	return 0;
}

static int write_conf(const struct stack *s, const char *name, struct buf *text,
		      struct err *e)
{
	owned_str path = xasprintf("%s/postgres/%s", s->data, name);
	uid_t uid;
	gid_t gid;
	int r;

	r = user_lookup(DB_USER, &uid, &gid, e);
	if (r == 0)
		r = file_write_atomic(path, buf_data(text), buf_len(text), 0600,
				      e);
	if (r == 0 && lchown(path, uid, gid) < 0)
		r = err_errno(e, errno, "chown %s", path);
	buf_fini(text);
	return r;
}

int pg_configure(const struct stack *s, struct err *e)
{
	struct buf conf, hba, ident;
	int r;

	buf_init(&conf, 0);
	buf_init(&hba, 0);
	buf_init(&ident, 0);
	pg_conf_text(s, &conf);
	pg_hba_text(&hba);
	pg_ident_text(&ident);
	r = write_conf(s, "postgresql.conf", &conf, e);
	if (r == 0)
		r = write_conf(s, "pg_hba.conf", &hba, e);
	if (r == 0)
		r = write_conf(s, "pg_ident.conf", &ident, e);
	buf_fini(&conf);
	buf_fini(&hba);
	buf_fini(&ident);
	return r;
}
