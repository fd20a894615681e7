/* SPDX-License-Identifier: Apache-2.0 */
#include "db/test-cluster.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "base/own.h"
#include "base/spawn.h"
#include "base/test.h"
#include "base/text.h"
#include "base/user.h"

static struct {
	char dir[64], bin[128], conninfo[200], why[ERR_MSG_MAX];
	uid_t uid;
	gid_t gid;
	pid_t pid;
	bool tried;
} c;

static bool find_bin(void)
{
	static const char *const bins[] = {
		"/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/16/bin",
		"/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/14/bin",
		"/usr/local/pgsql/bin",	      "/usr/bin",
	};
	char path[160];

	for (size_t i = 0; i < ARRAY_SIZE(bins); i++) {
		snprintf(path, sizeof(path), "%s/initdb", bins[i]);
		if (access(path, X_OK) == 0) {
			snprintf(c.bin, sizeof(c.bin), "%s", bins[i]);
			return true;
		}
	}
	return false;
}

static pid_t run(const char *const *argv, int *ret_pidfd)
{
	static const char *const env[] = { "LC_ALL=C", "PATH=/usr/bin:/bin",
					   NULL };
	struct err e = { 0 };
	pid_t pid = -1;
	int log = -1;
	char path[100];

	snprintf(path, sizeof(path), "%s/log", c.dir);
	log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (spawn_start(
		&(struct spawn){
		    .argv = argv,
		    .envp = env,
		    .exe_fd = -1,
		    .stdio = { -1, log, log },
		    .set_ids = getuid() == 0,
		    .uid = c.uid,
		    .gid = c.gid,
		    .die_with_parent = true,
		    .cwd = c.dir,
		},
		&pid, ret_pidfd, &e) < 0)
		snprintf(c.why, sizeof(c.why), "%s", e.msg);
	fd_close(log);
	return pid;
}

static bool initdb(void)
{
	char exe[160], data[100];
	const char *argv[] = { exe,	     "-D",   data,	 "-A",
			       "trust",	     "-U",   "boss",	 "--no-sync",
			       "--encoding", "UTF8", "--locale", "C",
			       NULL };
	int status = -1, pidfd = -1;
	pid_t pid;

	snprintf(exe, sizeof(exe), "%s/initdb", c.bin);
	snprintf(data, sizeof(data), "%s/data", c.dir);
	pid = run(argv, &pidfd);
	fd_close(pidfd);
	if (pid < 0)
		return false;
	waitpid(pid, &status, 0);
	if (status != 0)
		snprintf(c.why, sizeof(c.why), "initdb failed, see %s/log",
			 c.dir);
	return status == 0;
}

static bool start(void)
{
	char exe[160], data[100];
	const char *argv[] = { exe,
			       "-D",
			       data,
			       "-k",
			       c.dir,
			       "-c",
			       "listen_addresses=",
			       "-c",
			       "fsync=off",
			       "-c",
			       "max_connections=60",
			       NULL };
	int pidfd = -1;

	snprintf(exe, sizeof(exe), "%s/postgres", c.bin);
	snprintf(data, sizeof(data), "%s/data", c.dir);
	/* after a crash the old backends may hold shared memory for a moment,
	 * and the new postmaster then gives up: try again */
	for (int i = 0; i < 300; i++) {
		if (c.pid <= 0)
			c.pid = run(argv, &pidfd);
		pidfd = fd_close(pidfd);
		if (c.pid <= 0)
			return false;
		if (PQping(c.conninfo) == PQPING_OK)
			return true;
		if (waitpid(c.pid, NULL, WNOHANG) == c.pid)
			c.pid = 0;
		usleep(100000);
	}
	snprintf(c.why, sizeof(c.why), "postgres does not start, see %s/log",
		 c.dir);
	return false;
}

static int remove_one(const char *path, const struct stat *st, int flag,
		      struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	remove(path);
	return 0;
}

static void stop(void)
{
	if (c.pid > 0) {
		kill(c.pid, SIGQUIT);
		waitpid(c.pid, NULL, 0);
		c.pid = 0;
	}
	nftw(c.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool setup(void)
{
	struct err e = { 0 };

	if (!find_bin()) {
		snprintf(c.why, sizeof(c.why),
			 "no PostgreSQL server is installed (postgresql-15)");
		return false;
	}
	if (getuid() == 0 && user_lookup("postgres", &c.uid, &c.gid, &e) < 0 &&
	    user_lookup("nobody", &c.uid, &c.gid, &e) < 0) {
		snprintf(c.why, sizeof(c.why), "%s", e.msg);
		return false;
	}
	snprintf(c.dir, sizeof(c.dir), "/tmp/caisson-pg-XXXXXX");
	if (!mkdtemp(c.dir))
		return false;
	atexit(stop);
	if (getuid() == 0 && chown(c.dir, c.uid, c.gid) < 0)
		return false;
	snprintf(c.conninfo, sizeof(c.conninfo),
		 "host=%s dbname=postgres user=boss", c.dir);
	return initdb() && start();
}

const char *test_cluster(void)
{
	static bool up;

	if (!c.tried) {
		c.tried = true;
		snprintf(c.why, sizeof(c.why), "no private PostgreSQL");
		up = setup();
	}
	if (!up)
		test_skip(c.why);
	return c.conninfo;
}

void test_cluster_crash(void)
{
	test_cluster();
	kill(c.pid, SIGKILL);
	waitpid(c.pid, NULL, 0);
	c.pid = 0;
	T_TRUE(start());
}

void test_cluster_sql(const char *sql)
{
	PGconn *pg = PQconnectdb(test_cluster());
	PGresult *res = PQexec(pg, sql);
	ExecStatusType st = PQresultStatus(res);
	char why[300];

	snprintf(why, sizeof(why), "%s", PQerrorMessage(pg));
	PQclear(res);
	PQfinish(pg);
	if (st != PGRES_COMMAND_OK && st != PGRES_TUPLES_OK)
		test_fail(__FILE__, __LINE__, "%s", why);
}

static int numbered(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 8 && d->d_name[3] == '_' &&
	       strcmp(d->d_name + n - 4, ".sql") == 0;
}

void test_cluster_migrate(const char *dir)
{
	struct dirent **names = NULL;
	int n = scandir(dir, &names, numbered, alphasort);

	T_TRUE(n > 0);
	for (int i = 0; i < n; i++) {
		owned_str path = xasprintf("%s/%s", dir, names[i]->d_name);
		owned_str text = NULL;
		owned_str sql = NULL;
		size_t len;

		T_INT(file_read(path, 1 << 20, &text, &len, NULL), 0);
		sql = xasprintf("BEGIN;\n%s\nCOMMIT;", text);
		test_cluster_sql(sql);
		free(names[i]);
	}
	free(names);
}
