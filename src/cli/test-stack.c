/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stack.h"

#include "base/own.h"
#include "base/test.h"
#include "cli/host.h"

static int config(struct stack *s, const char *text, struct err *e)
{
	return stack_config(s, "x.conf", text, strlen(text), e);
}

TEST(the_defaults_are_valid)
{
	struct stack s;
	struct err e = { 0 };

	stack_init(&s);
	T_INT(stack_check(&s, &e), 0);
	T_STR(s.control, "127.0.0.1:7700");
	stack_fini(&s);
}

TEST(a_file_changes_what_it_names)
{
	struct stack s;
	struct err e = { 0 };

	stack_init(&s);
	T_INT(config(&s,
		     "[caisson]\nrun = /tmp/r\ncontrol = 10.0.0.1:80\n"
		     "slots = 5\n",
		     &e),
	      0);
	T_STR(s.run, "/tmp/r");
	T_STR(s.control, "10.0.0.1:80");
	T_INT(s.slots, 5);
	T_STR(s.data, "/var/lib/caisson");
	stack_fini(&s);
}

TEST(an_unknown_key_is_an_error_with_its_line)
{
	struct stack s;
	struct err e = { 0 };

	stack_init(&s);
	T_INT(config(&s, "[caisson]\nrun = /tmp/r\nruhn = /x\n", &e), -EINVAL);
	T_HAS(e.msg, "x.conf:3");
	stack_fini(&s);
}

TEST(a_value_out_of_range_is_an_error)
{
	struct stack s;
	struct err e = { 0 };

	stack_init(&s);
	T_INT(config(&s, "[caisson]\nslots = 0\n", &e), -EINVAL);
	T_INT(config(&s, "[caisson]\nuid_base = 5\n", &e), -EINVAL);
	stack_fini(&s);
}

static int check_run(const char *run)
{
	struct stack s;
	struct err e = { 0 };
	int r;

	stack_init(&s);
	free(s.run);
	s.run = xstrdup(run);
	r = stack_check(&s, &e);
	if (r < 0)
		T_HAS(e.msg, "--run");
	stack_fini(&s);
	return r;
}

TEST(run_must_leave_room_for_sockets)
{
	T_INT(check_run("/run/caisson-2"), 0);
	T_INT(check_run("/run/0123456789012345678901234567890123456789012345678"
			"901234567890123456789012345678901234567890"),
	      -EINVAL);
}

TEST(run_must_be_a_plain_absolute_path)
{
	T_INT(check_run("run"), -EINVAL);
	T_INT(check_run("/"), -EINVAL);
	T_INT(check_run("/run/x/"), -EINVAL);
	T_INT(check_run("/run/../etc"), -EINVAL);
	T_INT(check_run("/run/it's"), -EINVAL);
	T_INT(check_run("/run/a b"), -EINVAL);
}

TEST(listeners_are_address_and_port)
{
	T_TRUE(listen_valid("127.0.0.1:7700"));
	T_TRUE(listen_valid("0.0.0.0:1"));
	T_TRUE(listen_valid("[::1]:7700"));
	T_TRUE(listen_valid("localhost:65535"));
	T_TRUE(!listen_valid("7700"));
	T_TRUE(!listen_valid(":7700"));
	T_TRUE(!listen_valid("127.0.0.1:0"));
	T_TRUE(!listen_valid("127.0.0.1:65536"));
	T_TRUE(!listen_valid("127.0.0.1:77x"));
	T_TRUE(!listen_valid("[]:1"));
	T_TRUE(!listen_valid("example.org:1"));
}

TEST(both_listeners_cannot_be_the_same)
{
	struct stack s;
	struct err e = { 0 };

	stack_init(&s);
	free(s.data_listen);
	s.data_listen = xstrdup(s.control);
	T_INT(stack_check(&s, &e), -EINVAL);
	T_HAS(e.msg, "--data-listen");
	stack_fini(&s);
}

TEST(options_win_over_the_file)
{
	struct stack s;
	struct err e = { 0 };
	struct stack_opts o = { .config = "/dev/null",
				.engine = "null",
				.slots = 3 };

	stack_init(&s);
	T_INT(stack_load(&s, &o, &e), 0);
	T_STR(s.engine, "null");
	T_INT(s.slots, 3);
	o.engine = "xen";
	T_INT(stack_load(&s, &o, &e), -EINVAL);
	T_HAS(e.msg, "--engine xen");
	stack_fini(&s);
}

static char *words(const struct unit_argv *a)
{
	struct buf b;
	char *text;

	buf_init(&b, 0);
	for (size_t i = 0; i < a->n; i++)
		buf_printf(&b, "%s ", a->v[i]);
	text = xstrdup(buf_cstr(&b));
	buf_fini(&b);
	return text;
}

TEST(every_unit_has_a_command_line_that_names_the_folders)
{
	struct stack s;

	stack_init(&s);
	for (int i = 0; i < UNIT_MAX_; i++) {
		struct unit_argv a;
		owned_str text = NULL;

		unit_argv(&s, (enum unit_id)i, &a);
		text = words(&a);
		T_TRUE(a.n >= 3 && !a.v[a.n]);
		T_TRUE(strstr(text, s.run) || strstr(text, s.data));
		unit_argv_fini(&a);
	}
	stack_fini(&s);
}

TEST(each_database_client_comes_as_its_role)
{
	struct stack s;
	struct unit_argv a;
	owned_str api = NULL;
	owned_str controller = NULL;

	stack_init(&s);
	unit_argv(&s, UNIT_API, &a);
	api = words(&a);
	unit_argv_fini(&a);
	unit_argv(&s, UNIT_CONTROLLER, &a);
	controller = words(&a);
	unit_argv_fini(&a);
	T_HAS(api, "user=caisson_api");
	T_HAS(controller, "user=caisson_controller");
	stack_fini(&s);
}

TEST(sizes_left_to_the_daemon_are_not_said)
{
	struct stack s;
	struct unit_argv a;
	owned_str text = NULL;
	owned_str more = NULL;

	stack_init(&s);
	unit_argv(&s, UNIT_SANDBOXD, &a);
	text = words(&a);
	unit_argv_fini(&a);
	T_TRUE(!strstr(text, "--slots"));
	s.slots = 7;
	unit_argv(&s, UNIT_SANDBOXD, &a);
	more = words(&a);
	unit_argv_fini(&a);
	T_HAS(more, "--slots 7");
	stack_fini(&s);
}

TEST(the_cleanup_run_is_noded_with_the_same_names)
{
	struct stack s;
	struct unit_argv a;
	owned_str text = NULL;

	stack_init(&s);
	noded_cleanup_argv(&s, &a);
	text = words(&a);
	unit_argv_fini(&a);
	T_HAS(text, "--cgroup caisson");
	T_HAS(text, "--cleanup");
	stack_fini(&s);
}

TEST(units_wait_for_what_they_need)
{
	T_TRUE(unit_defs[UNIT_API].after & (1u << UNIT_MIGRATE));
	T_TRUE(unit_defs[UNIT_SANDBOXD].after & (1u << UNIT_NODED));
	T_TRUE(unit_defs[UNIT_SANDBOXD].after & (1u << UNIT_STORAGED));
	T_TRUE(!(unit_defs[UNIT_API].after & (1u << UNIT_SANDBOXD)));
	for (int i = 0; i < UNIT_MAX_; i++)
		T_TRUE(!(unit_defs[i].after & (1u << i)));
}

TEST(postgres_listens_on_its_socket_only_and_keeps_its_promises)
{
	struct stack s;
	struct buf b;

	stack_init(&s);
	buf_init(&b, 0);
	pg_conf_text(&s, &b);
	T_HAS(buf_cstr(&b), "listen_addresses = ''");
	T_HAS(buf_cstr(&b), "unix_socket_directories = "
			    "'/run/caisson/postgres'");
	T_HAS(buf_cstr(&b), "fsync = on");
	T_HAS(buf_cstr(&b), "full_page_writes = on");
	buf_fini(&b);
	stack_fini(&s);
}

TEST(only_known_system_users_get_in_as_their_roles)
{
	struct buf hba, ident;

	buf_init(&hba, 0);
	buf_init(&ident, 0);
	pg_hba_text(&hba);
	pg_ident_text(&ident);
	T_HAS(buf_cstr(&hba), "local all all peer map=caisson\n");
	T_TRUE(!strstr(buf_cstr(&hba), "host"));
	T_TRUE(!strstr(buf_cstr(&hba), "trust"));
	T_HAS(buf_cstr(&ident), "caisson caisson caisson_api\n");
	T_TRUE(!strstr(buf_cstr(&ident), "caisson caisson caisson-db"));
	buf_fini(&hba);
	buf_fini(&ident);
}

#define PIDFILE(state)                                                         \
	"4711\n/var/lib/caisson/postgres\n1796119200\n5432\n/run/x\n\n"        \
	"  7 9\n" state "\n"

TEST(postmaster_is_ready_when_its_file_says_so)
{
	static const char ready[] = PIDFILE("ready   ");
	static const char starting[] = PIDFILE("starting");
	pid_t pid = 0;

	T_TRUE(postmaster_ready(ready, sizeof(ready) - 1, &pid));
	T_INT(pid, 4711);
	T_TRUE(!postmaster_ready(starting, sizeof(starting) - 1, &pid));
	for (size_t n = 0; n < 50; n++)
		T_TRUE(!postmaster_ready(ready, n, &pid));
	T_TRUE(!postmaster_ready("x\n\n\n\n\n\n\nready\n", 14, &pid));
}

static const struct host_facts good = { .root = true,
					.cgroup2 = true,
					.tun = true,
					.qemu = true,
					.nft = true,
					.postgres = true,
					.useradd = true,
					.parts = true,
					.needs_vm = true };

TEST(a_machine_with_everything_misses_nothing)
{
	struct buf b;

	buf_init(&b, 0);
	T_INT(host_missing(&good, "/x", &b), 0);
	T_INT(buf_len(&b), 0);
	buf_fini(&b);
}

TEST(all_that_is_missing_is_said_at_once_with_one_command)
{
	struct host_facts f = good;
	struct buf b;

	f.qemu = f.postgres = f.nft = f.tun = false;
	buf_init(&b, 0);
	T_INT(host_missing(&f, "/x", &b), 4);
	T_HAS(buf_cstr(&b), "sudo apt install qemu-system-x86 nftables "
			    "postgresql\n");
	T_HAS(buf_cstr(&b), "/dev/net/tun");
	buf_fini(&b);
}

TEST(the_null_engine_needs_no_vm_parts)
{
	struct host_facts f = good;
	struct buf b;

	f.qemu = f.nft = f.tun = f.needs_vm = false;
	buf_init(&b, 0);
	T_INT(host_missing(&f, "/x", &b), 0);
	buf_fini(&b);
}

TEST(without_root_the_remedy_is_sudo)
{
	struct host_facts f = good;
	struct buf b;

	f.root = false;
	buf_init(&b, 0);
	T_INT(host_missing(&f, "/x", &b), 1);
	T_HAS(buf_cstr(&b), "sudo caisson up");
	buf_fini(&b);
}
