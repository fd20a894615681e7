/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/host.h"
#include "cli/jget.h"
#include "cli/names.h"
#include "cli/table.h"
#include "cli/version.h"
#include "net/json.h"

#define SMALL_FILE   (1u << 20)
#define DISK_LOW_MIB 2048u
#define MEM_LOW_MIB  512u
#define SLOTS_UIDS   4096

static const char *const words[] = { "ok", "warn", "fail" };

void doctor_say(struct doctor *d, enum finding f, const char *check,
		const char *remedy, const char *fmt, ...)
{
	json_t *v = json_object();
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_set_take(v, "check", json_string(check));
	json_set_take(v, "state", json_string(words[f]));
	json_set_take(v, "detail", json_str_lossy(text, strlen(text)));
	if (f != FINDING_OK && remedy)
		json_set_take(v, "remedy", json_string(remedy));
	json_array_append_new(d->lines, v);
	d->failed = d->failed || f == FINDING_FAIL;
}

static void say_if(struct doctor *d, bool good, enum finding otherwise,
		   const char *check, const char *good_text,
		   const char *bad_text, const char *remedy)
{
	doctor_say(d, good ? FINDING_OK : otherwise, check, remedy, "%s",
		   good ? good_text : bad_text);
}

/* ---- this machine ---- */

static void look_kernel(struct doctor *d)
{
	struct utsname u;
	unsigned long major, minor;
	char *end;

	uname(&u);
	major = strtoul(u.release, &end, 10);
	minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
	doctor_say(d,
		   major > 5 || (major == 5 && minor >= 10) ? FINDING_OK
							    : FINDING_FAIL,
		   "kernel", "Linux 5.10 or newer", "%s", u.release);
}

static void look_kvm(struct doctor *d)
{
	owned_fd fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		doctor_say(d, FINDING_OK, "kvm", NULL, "/dev/kvm opens");
	else
		doctor_say(d, FINDING_WARN, "kvm",
			   "enable virtualization in the firmware, `modprobe "
			   "kvm`, or pass /dev/kvm in",
			   "/dev/kvm does not open (%m): VMs run in software");
}

static void look_programs(struct doctor *d)
{
	struct host_facts f;

	host_look(d->stack, &f);
	say_if(d, f.qemu, FINDING_FAIL, "qemu", "/usr/bin/qemu-system-x86_64",
	       "missing", "sudo apt install qemu-system-x86");
	say_if(d, f.nft, FINDING_FAIL, "nft", "there", "missing",
	       "sudo apt install nftables");
	say_if(d, f.postgres, FINDING_FAIL, "postgresql programs",
	       d->stack->pg_bin ? d->stack->pg_bin : "there", "missing",
	       "sudo apt install postgresql");
	say_if(d, f.tun, FINDING_FAIL, "tun", "/dev/net/tun is there",
	       "no /dev/net/tun",
	       "modprobe tun, or pass it into this container");
	say_if(d, f.cgroup2, FINDING_FAIL, "cgroup",
	       d->stack->cgroup_root ? d->stack->cgroup_root : "v2",
	       "no cgroup v2 hierarchy",
	       "mount -t cgroup2 none /sys/fs/cgroup/unified");
	say_if(d, f.parts, FINDING_FAIL, "installation", d->stack->libexec,
	       "caisson-noded is not where it belongs", "install it again");
}

static void look_disk(struct doctor *d)
{
	struct statvfs v;
	unsigned long long mib;
	const char *path =
	    access(d->stack->data, F_OK) == 0 ? d->stack->data : "/";

	if (statvfs(path, &v) < 0)
		return;
	mib = (unsigned long long)v.f_bavail * v.f_frsize >> 20;
	doctor_say(d, mib < DISK_LOW_MIB ? FINDING_WARN : FINDING_OK, "disk",
		   "make room, or use --data DIR elsewhere",
		   "%llu MiB free at %s", mib, path);
}

static void look_memory(struct doctor *d)
{
	owned_str text = NULL;
	size_t n;
	long long kib;

	if (file_read("/proc/meminfo", SMALL_FILE, &text, &n, NULL) < 0)
		return;
	kib = proc_status(text, "MemAvailable", 10);
	doctor_say(
	    d, kib / 1024 < (long long)MEM_LOW_MIB ? FINDING_WARN : FINDING_OK,
	    "memory", "end other programs, or give this machine more",
	    "%lld MiB available", kib / 1024);
}

/* A user with a uid of the slots could read a sandbox's memory. */
static void look_uids(struct doctor *d)
{
	int64_t base = d->stack->uid_base, uid;
	owned_str text = NULL;
	char *line, *rest;
	size_t n;

	if (file_read("/etc/passwd", SMALL_FILE, &text, &n, NULL) < 0)
		return;
	for (rest = text; (line = strsep(&rest, "\n"));) {
		char *name = strsep(&line, ":"), *number;

		strsep(&line, ":");
		number = strsep(&line, ":");
		if (!number || !text_int(number, 0, UINT32_MAX, &uid) ||
		    uid < base || uid >= base + SLOTS_UIDS)
			continue;
		doctor_say(d, FINDING_FAIL, "uids", "another --uid-base",
			   "user %.40s has uid %lld, which is a slot's", name,
			   (long long)uid);
		return;
	}
	doctor_say(d, FINDING_OK, "uids", NULL, "%lld to %lld are nobody's",
		   (long long)base, (long long)base + SLOTS_UIDS - 1);
}

static void look_clock(struct doctor *d)
{
	struct timex t = { 0 };
	int r = adjtimex(&t);

	if (now_unix_ms() < 1700000000000)
		doctor_say(d, FINDING_FAIL, "clock", "set it: timedatectl",
			   "it stands before this program was made");
	else if (r < 0 || r == TIME_ERROR)
		doctor_say(d, FINDING_WARN, "clock",
			   "run chrony or systemd-timesyncd",
			   "nobody keeps it right");
	else
		doctor_say(d, FINDING_OK, "clock", NULL, "kept right");
}

void doctor_host(struct doctor *d)
{
	look_kernel(d);
	look_kvm(d);
	look_programs(d);
	look_disk(d);
	look_memory(d);
	look_uids(d);
	look_clock(d);
}

/* ---- the service ---- */

static void look_daemons(struct doctor *d)
{
	owned_str path = xasprintf("%s/state.json", d->stack->run);
	owned_str text = NULL;
	owned_json v = NULL;
	json_t *u;
	size_t n, i;

	if (file_read(path, SMALL_FILE, &text, &n, NULL) < 0 ||
	    json_parse(text, n, &v, NULL) < 0) {
		doctor_say(d, FINDING_WARN, "daemons", "sudo caisson up",
			   "nothing was started here");
		return;
	}
	json_array_foreach(json_object_get(v, "units"), i, u)
	{
		bool ready = !strcmp(jget_str(u, "state", ""), "ready");
		char why[128];

		jget_shown(u, "last_end", "", why, sizeof(why));
		if (!json_is_true(json_object_get(u, "task")) || !ready)
			doctor_say(d, ready ? FINDING_OK : FINDING_FAIL,
				   jget_str(u, "name", "?"),
				   "its log in DATA/log says why; sudo caisson "
				   "up",
				   "%s%s%s", jget_str(u, "state", "?"),
				   *why ? ": " : "", why);
	}
}

static bool ask(struct doctor *d, struct client *cl, const char *check,
		const char *method, const char *path, const json_t *body,
		json_t **ret)
{
	struct fault f = { 0 };
	struct err e = { 0 };
	int r = client_call(cl, CLIENT_CONTROL, method, path, body, 75, ret,
			    NULL, &f, &e);

	if (r == CLIENT_OK)
		return true;
	doctor_say(d, FINDING_FAIL, check,
		   r == CLIENT_FAULT && *f.remedy ? f.remedy : "caisson status",
		   "%s", r == CLIENT_FAULT ? f.message : e.msg);
	return false;
}

/* NULL if none is ready. */
static char *look_templates(struct doctor *d, struct client *cl)
{
	owned_json body = NULL;
	const char *found = NULL;
	json_t *t;
	size_t i;

	if (!ask(d, cl, "template", "GET", "/v1/templates?limit=200", NULL,
		 &body))
		return NULL;
	json_array_foreach(json_object_get(body, "items"), i, t)
	{
		const char *name = jget_str(t, "name", "");

		if (jget_str(t, "release", NULL) &&
		    (!found || !strcmp(name, "base")))
			found = name;
	}
	doctor_say(d, found ? FINDING_OK : FINDING_FAIL, "template",
		   "sudo caisson template build base", "%s",
		   found ? found : "none is ready");
	return found ? xstrdup(found) : NULL;
}

static void look_sandbox(struct doctor *d, struct client *cl,
			 const char *template_ref)
{
	owned_json body = json_pack("{s:s,s:{s:i}}", "template", template_ref,
				    "lifetime", "ttl_s", 300);
	owned_json cmd = json_pack("{s:[s,s]}", "cmd", "echo", "alive");
	owned_json made = NULL;
	owned_json ran = NULL;
	owned_json ended = NULL;
	owned_str run = NULL;
	owned_str end = NULL;
	uint64_t from = now_mono_us();
	const char *id;

	if (!ask(d, cl, "sandbox", "POST", "/v1/sandboxes?wait_s=60", body,
		 &made))
		return;
	id = jget_str(made, "sandbox.id", "");
	run = xasprintf("/v1/sandboxes/%s/run?wait_s=60", id);
	end = xasprintf("/v1/sandboxes/%s?wait_s=60", id);
	if (ask(d, cl, "sandbox", "POST", run, cmd, &ran)) {
		bool good =
		    jget_int(ran, "exit.code", -1) == 0 &&
		    !strcmp(jget_str(ran, "stdout.head", ""), "alive\n");

		doctor_say(d, good ? FINDING_OK : FINDING_FAIL, "sandbox",
			   "caisson logs, and the node's log in DATA/log",
			   good ? "made, and it answered, in %.1f s"
				: "made, but it does not answer as it should "
				  "(%.1f s)",
			   (double)(now_mono_us() - from) / 1e6);
	}
	ask(d, cl, "sandbox end", "DELETE", end, NULL, &ended);
}

static void look_node(struct doctor *d, const json_t *who)
{
	const char *weakest = jget_str(who, "weakest_isolation", NULL);
	const char *version = jget_str(who, "version", "?");

	say_if(d, !strcmp(version, CAISSON_VERSION), FINDING_WARN, "versions",
	       CAISSON_VERSION, "this program and the server differ",
	       "install the same version on both, then sudo caisson up");
	if (json_array_size(json_object_get(who, "engines")) == 0)
		doctor_say(d, FINDING_FAIL, "node", "caisson node ls",
			   "no node takes sandboxes");
	else
		doctor_say(d,
			   weakest && !strcmp(weakest, "hardware")
			       ? FINDING_OK
			       : FINDING_WARN,
			   "node", "`caisson node ls` has the reason",
			   "isolation: %s", weakest ? weakest : "unknown");
}

void doctor_service(struct doctor *d, bool quick)
{
	struct context_file file = { 0 };
	struct context ctx = { 0 };
	owned_json who = NULL;
	owned_str t = NULL;
	struct client *cl = NULL;
	struct err e = { 0 };

	look_daemons(d);
	if (context_locate(&file, &e) < 0 || context_load(&file, &e) < 0 ||
	    context_get(&file, d->cli->context, &ctx, &e) < 0) {
		doctor_say(d, FINDING_FAIL, "context",
			   "sudo caisson up, or caisson login URL", "%s",
			   e.msg);
		context_file_fini(&file);
		return;
	}
	context_file_fini(&file);
	cl = client_new_take(&ctx);
	if (ask(d, cl, "api", "GET", "/v1/whoami", NULL, &who)) {
		doctor_say(d, FINDING_OK, "api", NULL, "%s, role %s",
			   client_context(cl)->url, jget_str(who, "role", "?"));
		look_node(d, who);
		t = look_templates(d, cl);
		if (t && !quick)
			look_sandbox(d, cl, t);
	}
	client_free(cl);
}

int doctor_print(const struct doctor *d)
{
	struct table t;
	json_t *v;
	size_t i;

	if (d->cli->json) {
		cli_print_json(d->lines);
		return d->failed;
	}
	table_init(&t, 3);
	json_array_foreach(d->lines, i, v)
	{
		owned_str text = name_shown_str(jget_str(v, "detail", ""));
		const char *remedy = jget_str(v, "remedy", NULL);

		table_cell(&t, jget_str(v, "state", "?"));
		table_cell(&t, jget_str(v, "check", "?"));
		table_cell(&t, text);
		if (remedy) {
			owned_str line = xasprintf("remedy: %s", remedy);

			table_cell(&t, "");
			table_cell(&t, "");
			table_cell(&t, line);
		}
	}
	table_print(&t);
	table_fini(&t);
	return d->failed;
}
