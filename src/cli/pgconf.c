/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Configuration of the private PostgreSQL cluster (cli/stack.h). Reachable by
 * one unix socket only; who connects is known from the kernel (peer), so there
 * is no password to lose. Durability is on: an accepted operation is never
 * lost.
 */

#include "cli/stack.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"

void pg_conf_text(const struct stack *s, struct buf *out)
{
	buf_printf(out,
		   "# written by `caisson up` at each start; changes are lost\n"
		   "listen_addresses = ''\n"
		   "unix_socket_directories = '%s/postgres'\n"
		   "unix_socket_permissions = 0777\n"
		   "max_connections = 120\n"
		   "shared_buffers = 64MB\n"
		   "fsync = on\n"
		   "synchronous_commit = on\n"
		   "full_page_writes = on\n"
		   "wal_compression = on\n"
		   "max_wal_size = 512MB\n"
		   "min_wal_size = 80MB\n"
		   "checkpoint_timeout = 15min\n"
		   "jit = off\n"
		   "idle_in_transaction_session_timeout = 60s\n"
		   "log_destination = 'stderr'\n"
		   "logging_collector = off\n"
		   "log_line_prefix = '%%m [%%p] %%u '\n"
		   "log_checkpoints = off\n"
		   "timezone = 'UTC'\n"
		   "log_timezone = 'UTC'\n"
		   "lc_messages = 'C'\n"
		   "cluster_name = 'caisson'\n",
		   s->run);
}

void pg_hba_text(struct buf *out)
{
	buf_puts(out, "# written by `caisson up`\n"
		      "local all all peer map=caisson\n");
}

void pg_ident_text(struct buf *out)
{
	buf_puts(out, "# written by `caisson up`: system user, database role\n"
		      "caisson root caisson-db\n"
		      "caisson caisson-db caisson-db\n"
		      "caisson caisson caisson_api\n"
		      "caisson caisson caisson_controller\n");
}

char *pg_conninfo(const struct stack *s, const char *role)
{
	return xasprintf("host=%s/postgres dbname=caisson user=%s "
			 "connect_timeout=10",
			 s->run, role);
}

/* Line 1 is the pid, line 8 the state: "starting", "ready", "stopping". */
int postmaster_ready(const char *text, size_t n, pid_t *ret_pid)
{
	const char *p = text, *end = text + n;
	char first[16] = "";
	long pid;

	for (int line = 1; p < end; line++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((nl ? nl : end) - p);

		if (line == 1 && len < sizeof(first))
			memcpy(first, p, len);
		if (line == 8) {
			pid = strtol(first, NULL, 10);
			if (pid <= 1 || pid > INT32_MAX || len < 5 ||
			    memcmp(p, "ready", 5) != 0)
				return 0;
			*ret_pid = (pid_t)pid;
			return 1;
		}
		if (!nl)
			break;
		p = nl + 1;
	}
	return 0;
}
