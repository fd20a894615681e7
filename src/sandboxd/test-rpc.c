/* SPDX-License-Identifier: Apache-2.0 */

/* The node RPC and data listener as a client sees them: the null engine end to
 * end, and what the qemu engine adds, against fakes. */

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "net/http.h"
#include "net/json.h"
#include "proto/data.h"
#include "sandboxd/data.h"
#include "sandboxd/rpc.h"
#include "sandboxd/test-fakes.h"

#define SB1 "sb00000000000000000001"
#define D   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct rig {
	struct fakes *f;
	struct rpc *rpc;
	struct data *data;
	struct http_conn *c;
	char data_path[300];
	/* the last answer */
	bool is_done;
	int status;
	json_t *body;
	char *text;
};

static const struct http_conn_ops client_ops;

static struct rig *begin(const char *engine)
{
	struct rig *r = xnew(struct rig);
	char path[300];
	struct err e = { 0 };
	int fd;

	r->f = fakes_new(0);
	r->f->conf.engine = engine;
	fakes_start(r->f);
	snprintf(path, sizeof(path), "%s/rpc", r->f->dir);
	snprintf(r->data_path, sizeof(r->data_path), "%s/data", r->f->dir);
	r->rpc =
	    rpc_new_take(r->f->node, unix_listen(path, SOCK_STREAM, 0600, &e));
	r->data = data_new_take(
	    r->f->node, unix_listen(r->data_path, SOCK_STREAM, 0600, &e));
	fd = unix_connect(path, SOCK_STREAM, &e);
	T_TRUE(fd >= 0);
	r->c =
	    http_conn_client_take(r->f->loop, fd, HTTP_2, NULL, &client_ops, r);
	return r;
}

static void end(struct rig *r)
{
	http_conn_free(r->c);
	fakes_run_ms(r->f, 10);
	rpc_free(r->rpc);
	data_free(r->data);
	json_decref(r->body);
	free(r->text);
	fakes_free(r->f);
	free(r);
}

static void on_answer(void *arg, int status, const char *body, size_t n,
		      const struct err *e)
{
	struct rig *r = arg;
	struct err ignored = { 0 };

	r->is_done = true;
	r->status = e ? 0 : status;
	free(r->text);
	r->text = xstrndup(body ? body : "", body ? n : 0);
	json_decref(r->body);
	r->body = NULL;
	if (body)
		json_parse(body, n, &r->body, &ignored);
}

static bool rig_is_done(struct fakes *f, void *arg)
{
	(void)f;
	return ((struct rig *)arg)->is_done;
}

static void start_call(struct rig *r, const char *method, const char *path,
		       const char *body)
{
	struct err e = { 0 };

	r->is_done = false;
	T_INT(http_call(r->c, method, path, body, 1 << 20, 30000, on_answer, r,
			&e),
	      0);
}

static int call(struct rig *r, const char *method, const char *path,
		const char *body)
{
	start_call(r, method, path, body);
	fakes_until(r->f, rig_is_done, r);
	return r->status;
}

static const char *code_of(struct rig *r)
{
	return json_string_value(
	    json_object_get(json_object_get(r->body, "error"), "code"));
}

static const char *word_of(struct rig *r, const char *name)
{
	return json_string_value(json_object_get(r->body, name));
}

static char *ensure_body(struct rig *r, int generation, int left_ms)
{
	return xasprintf("{\"incarnation\":\"%s\",\"generation\":%d,"
			 "\"fence\":1,\"operation\":\"op_1\","
			 "\"time_left_ms\":%d,\"hostname\":\"h\","
			 "\"resources\":{\"vcpus\":1,\"memory_mib\":256,"
			 "\"disk_mib\":64},\"release\":{\"digest\":\"sha256:" D
			 "\",\"kernel\":\"" D "\",\"initramfs\":\"" D
			 "\",\"root\":\"" D "\",\"root_format\":\"raw\"}}",
			 r->f->node->incarnation, generation, left_ms);
}

static int ensure(struct rig *r, int generation, int left_ms)
{
	owned_str body = ensure_body(r, generation, left_ms);

	return call(r, "POST", "/v1/sandboxes/" SB1 "/ensure", body);
}

static int end_sandbox(struct rig *r, int generation, int left_ms)
{
	owned_str body =
	    xasprintf("{\"incarnation\":\"%s\",\"generation\":%d,\"fence\":1,"
		      "\"operation\":\"op_2\",\"time_left_ms\":%d}",
		      r->f->node->incarnation, generation, left_ms);

	return call(r, "POST", "/v1/sandboxes/" SB1 "/end", body);
}

TEST(node_says_what_it_is)
{
	struct rig *r = begin("null");

	T_INT(call(r, "GET", "/v1/node", NULL), 200);
	T_STR(word_of(r, "name"), "test");
	T_STR(word_of(r, "incarnation"), r->f->node->incarnation);
	T_HAS(r->text, "\"isolation\":\"software\"");
	T_HAS(r->text, "the null engine runs no VM");
	end(r);
}

TEST(null_ensure_list_end)
{
	struct rig *r = begin("null");

	T_INT(ensure(r, 1, 5000), 200);
	T_STR(word_of(r, "observed"), "running");
	T_HAS(r->text, "\"engine\":\"null\"");
	T_INT(call(r, "GET", "/v1/sandboxes", NULL), 200);
	T_HAS(r->text, SB1);
	T_INT(end_sandbox(r, 2, 5000), 200);
	T_STR(word_of(r, "observed"), "ended");
	T_INT(call(r, "GET", "/v1/sandboxes", NULL), 200);
	T_HAS(r->text, "\"items\":[]");
	end(r);
}

TEST(null_has_no_checkpoints)
{
	struct rig *r = begin("null");
	owned_str body = xasprintf(
	    "{\"incarnation\":\"%s\",\"time_left_ms\":1000,\"resources\":{},"
	    "\"release\":{\"digest\":\"" D "\",\"kernel\":\"" D
	    "\",\"initramfs\":\"" D "\",\"root\":\"" D "\"}}",
	    r->f->node->incarnation);

	T_INT(call(r, "POST", "/v1/releases/sha256:" D "/prepare", body), 422);
	T_STR(code_of(r), "not_supported");
	end(r);
}

TEST(wrong_incarnation_is_told_the_right_one)
{
	struct rig *r = begin("null");

	T_INT(call(r, "POST", "/v1/sandboxes/" SB1 "/end",
		   "{\"incarnation\":\"other\",\"generation\":1,\"fence\":1,"
		   "\"operation\":\"op_2\",\"time_left_ms\":1000}"),
	      409);
	T_STR(code_of(r), "wrong_incarnation");
	T_STR(word_of(r, "incarnation"), r->f->node->incarnation);
	end(r);
}

TEST(stale_is_409)
{
	struct rig *r = begin("null");

	T_INT(ensure(r, 5, 5000), 200);
	T_INT(ensure(r, 4, 5000), 409);
	T_STR(code_of(r), "stale");
	end(r);
}

TEST(bad_id_is_400)
{
	struct rig *r = begin("null");

	T_INT(call(r, "POST", "/v1/sandboxes/x/end", "{}"), 400);
	T_STR(code_of(r), "invalid_field");
	end(r);
}

TEST(bad_body_names_the_field)
{
	struct rig *r = begin("null");

	T_INT(call(r, "POST", "/v1/sandboxes/" SB1 "/ensure", "{}"), 400);
	T_HAS(r->text, "incarnation");
	T_INT(call(r, "POST", "/v1/sandboxes/" SB1 "/ensure", "nonsense"), 400);
	end(r);
}

TEST(huge_body_is_refused)
{
	struct rig *r = begin("null");
	char *body = xcalloc(1, 100001);

	memset(body, ' ', 100000);
	T_INT(call(r, "POST", "/v1/sandboxes/" SB1 "/ensure", body), 400);
	free(body);
	end(r);
}

TEST(unknown_path_is_404)
{
	struct rig *r = begin("null");

	T_INT(call(r, "GET", "/v1/nodes", NULL), 404);
	T_INT(call(r, "GET", "/v1/sandboxes/" SB1 "/ensure", NULL), 404);
	T_INT(call(r, "GET", "/v1/prepares/a/b", NULL), 404);
	T_INT(call(r, "GET", "/v1/prepares/prp_1", NULL), 404);
	T_STR(code_of(r), "not_found");
	end(r);
}

TEST(metrics_are_prometheus)
{
	struct rig *r = begin("null");

	T_INT(ensure(r, 1, 5000), 200);
	T_INT(call(r, "GET", "/v1/metrics", NULL), 200);
	T_HAS(r->text, "caisson_sandboxd_creates_total{outcome=\"ok\"}");
	T_HAS(r->text, "caisson_sandboxd_create_step_seconds_bucket");
	end(r);
}

TEST(events_answer_at_once_without_wait)
{
	struct rig *r = begin("null");

	T_INT(call(r, "GET", "/v1/events?after=0", NULL), 200);
	T_HAS(r->text, "\"resync\":false");
	T_HAS(r->text, "\"next\":0");
	end(r);
}

TEST(events_of_the_future_are_a_resync)
{
	struct rig *r = begin("null");

	T_INT(call(r, "GET", "/v1/events?after=77&wait_s=30", NULL), 200);
	T_HAS(r->text, "\"resync\":true");
	T_INT(
	    call(r, "GET", "/v1/events?after=0&incarnation=x&wait_s=30", NULL),
	    200);
	T_HAS(r->text, "\"resync\":true");
	T_INT(call(r, "GET", "/v1/events?after=-1", NULL), 400);
	end(r);
}

TEST(events_are_long_polled)
{
	struct rig *r = begin("null");

	start_call(r, "GET", "/v1/events?after=0&wait_s=30", NULL);
	fakes_run_ms(r->f, 50);
	T_TRUE(!r->is_done);
	events_push(&r->f->node->events, SB1, 3, "oom", "d", NULL);
	fakes_until(r->f, rig_is_done, r);
	T_HAS(r->text, "\"reason\":\"oom\"");
	T_HAS(r->text, "\"next\":1");
	end(r);
}

TEST(poller_that_leaves_is_forgotten)
{
	struct rig *r = begin("null");

	start_call(r, "GET", "/v1/events?after=0&wait_s=30", NULL);
	fakes_run_ms(r->f, 50);
	r->c = http_conn_free(r->c);
	fakes_run_ms(r->f, 50);
	T_TRUE(list_empty(&r->f->node->events.waiters));
	end(r);
}

TEST(capacity_is_503_with_retry)
{
	struct rig *r = begin("null");

	r->f->node->conf.slots = 0;
	T_INT(ensure(r, 1, 5000), 503);
	T_STR(code_of(r), "capacity");
	T_HAS(r->text, "retry_after_s");
	end(r);
}

TEST(qemu_ensure_has_timings)
{
	struct rig *r = begin("qemu");

	T_INT(ensure(r, 1, 20000), 200);
	T_HAS(r->text, "\"total\":");
	T_HAS(r->text, "\"prepare\":");
	T_INT(call(r, "GET", "/v1/sandboxes", NULL), 200);
	T_HAS(r->text, "\"vmm_pid\":");
	end(r);
}

TEST(qemu_end_late_is_504_and_joined)
{
	struct rig *r = begin("qemu");

	T_INT(ensure(r, 1, 20000), 200);
	fake_set(r->f, FAKE_NODED, NODED_SLOT_DESTROY, FAKE_ERROR);
	T_INT(end_sandbox(r, 2, 300), 504);
	T_STR(code_of(r), "timeout");
	fake_set(r->f, FAKE_NODED, NODED_SLOT_DESTROY, FAKE_OK);
	T_INT(end_sandbox(r, 2, 20000), 200);
	T_TRUE(fakes_are_clean(r->f, NULL));
	end(r);
}

TEST(qemu_prepare_is_polled)
{
	struct rig *r = begin("qemu");
	owned_str path = NULL;
	owned_str body = xasprintf(
	    "{\"incarnation\":\"%s\",\"time_left_ms\":1000,\"resources\":{},"
	    "\"release\":{\"digest\":\"" D "\",\"kernel\":\"" D
	    "\",\"initramfs\":\"" D "\",\"root\":\"" D "\"}}",
	    r->f->node->incarnation);

	T_INT(call(r, "POST", "/v1/releases/" D "/prepare", body), 202);
	T_STR(word_of(r, "phase"), "hashing");
	path = xasprintf("/v1/prepares/%s?wait_s=20", word_of(r, "id"));
	T_INT(call(r, "GET", path, NULL), 200);
	T_STR(word_of(r, "phase"), "ready");
	end(r);
}

/* ---- data connections ---- */

static int data_connect(struct rig *r, const char *id, size_t n)
{
	struct data_preamble p = { .magic = DATA_MAGIC };
	struct err e = { 0 };
	int fd = unix_connect(r->data_path, SOCK_STREAM, &e);

	T_TRUE(fd >= 0);
	snprintf(p.sandbox, sizeof(p.sandbox), "%s", id);
	T_INT(send(fd, &p, n, MSG_NOSIGNAL), n);
	fakes_run_ms(r->f, 60);
	return fd;
}

static char data_byte(int fd)
{
	char c = 0;

	return recv(fd, &c, 1, MSG_DONTWAIT) == 1 ? c : 0;
}

TEST(data_of_the_unknown)
{
	struct rig *r = begin("qemu");
	int fd = data_connect(r, SB1, sizeof(struct data_preamble));

	T_INT(data_byte(fd), DATA_NO_SANDBOX);
	T_INT(data_byte(fd), 0);
	close(fd);
	end(r);
}

TEST(data_goes_to_the_monitor)
{
	struct rig *r = begin("qemu");
	int fd;

	T_INT(ensure(r, 1, 20000), 200);
	fd = data_connect(r, SB1, sizeof(struct data_preamble));
	T_INT(data_byte(fd), DATA_OK);
	T_INT(data_byte(fd), 'D'); /* the monitor's own byte */
	T_INT(r->f->data_fds, 1);
	close(fd);
	end(r);
}

TEST(data_before_it_runs)
{
	struct rig *r = begin("qemu");
	owned_str body = ensure_body(r, 1, 20000);
	int fd;

	fake_set(r->f, FAKE_MONITOR, MON_LOAD, FAKE_SILENT);
	start_call(r, "POST", "/v1/sandboxes/" SB1 "/ensure", body);
	while (r->f->counts[FAKE_MONITOR][MON_LOAD] == 0)
		fakes_run_ms(r->f, 5);
	fd = data_connect(r, SB1, sizeof(struct data_preamble));
	T_INT(data_byte(fd), DATA_NOT_READY);
	close(fd);
	end(r);
}

TEST(data_preamble_must_come)
{
	struct rig *r = begin("null");
	int fd = data_connect(r, SB1, 7);
	char c;

	fakes_run_ms(r->f, 2500);
	T_INT(recv(fd, &c, 1, MSG_DONTWAIT), 0);
	close(fd);
	end(r);
}

TEST(data_of_null_is_not_supported)
{
	struct rig *r = begin("null");
	struct err e = { 0 };
	int fd;

	T_INT(ensure(r, 1, 5000), 200);
	fd = data_connect(r, SB1, sizeof(struct data_preamble));
	T_INT(data_byte(fd), DATA_OK);
	http_conn_free(r->c);
	r->c =
	    http_conn_client_take(r->f->loop, fd, HTTP_2, NULL, &client_ops, r);
	r->is_done = false;
	T_INT(http_call(r->c, "POST", "/v1/execs", "{}", 65536, 30000,
			on_answer, r, &e),
	      0);
	fakes_until(r->f, rig_is_done, r);
	T_INT(r->status, 422);
	T_STR(code_of(r), "not_supported");
	end(r);
}

/* ---- what sandboxes use ---- */

static struct rig *begin_sampled(void)
{
	struct rig *r;
	struct spec spec;

	samples_every_ms = 20;
	r = begin("qemu");
	fake_spec(1, &spec);
	fake_checkpoint(r->f, &spec);
	T_INT(ensure(r, 1, 20000), 200);
	return r;
}

static void end_sampled(struct rig *r)
{
	end(r);
	samples_every_ms = 10000;
}

static bool has_samples(struct fakes *f, void *arg)
{
	return f->node->samples.next > *(uint64_t *)arg;
}

TEST(samples_are_counted_and_follow)
{
	struct rig *r = begin_sampled();
	uint64_t three = 3;
	json_t *item;

	fakes_until(r->f, has_samples, &three);
	T_INT(call(r, "GET", "/v1/samples?after=1", NULL), 200);
	T_HAS(r->text, "\"resync\":false");
	item = json_array_get(json_object_get(r->body, "items"), 0);
	T_INT(json_integer_value(json_object_get(item, "seq")), 2);
	T_STR(json_string_value(json_object_get(item, "sandbox")), SB1);
	T_TRUE(json_integer_value(json_object_get(item, "memory_bytes")) > 0);
	T_TRUE(json_is_integer(json_object_get(item, "cpu_ms")));
	T_TRUE(json_is_integer(json_object_get(item, "disk_bytes")));
	end_sampled(r);
}

TEST(samples_of_another_life_are_a_resync)
{
	struct rig *r = begin("null");

	T_INT(call(r, "GET", "/v1/samples", NULL), 200);
	T_HAS(r->text, "\"resync\":false,\"items\":[]");
	T_INT(call(r, "GET", "/v1/samples?after=9", NULL), 200);
	T_HAS(r->text, "\"resync\":true");
	T_INT(call(r, "GET", "/v1/samples?after=0&incarnation=x", NULL), 200);
	T_HAS(r->text, "\"resync\":true");
	T_INT(call(r, "GET", "/v1/samples?after=x", NULL), 400);
	end(r);
}

TEST(an_end_says_what_was_used)
{
	struct rig *r = begin_sampled();
	json_t *u;

	T_INT(end_sandbox(r, 2, 20000), 200);
	u = json_object_get(r->body, "last_usage");
	T_TRUE(json_integer_value(json_object_get(u, "memory_bytes")) > 0);
	/* and again, to whoever repeats it */
	T_INT(end_sandbox(r, 2, 20000), 200);
	T_TRUE(json_is_object(json_object_get(r->body, "last_usage")));
	end_sampled(r);
}

TEST(a_vm_that_dies_says_what_was_used)
{
	struct rig *r = begin_sampled();
	uint64_t one = 1;

	fakes_until(r->f, has_samples, &one);
	fake_kill(r->f, r->f->slots[0].vmm_pid ? r->f->slots[0].vmm_pid
					       : r->f->slots[1].vmm_pid);
	T_INT(call(r, "GET", "/v1/events?after=0&wait_s=30", NULL), 200);
	T_HAS(r->text, "\"reason\":\"vmm_exit\"");
	T_HAS(r->text, "\"last_usage\":{\"at\":\"");
	end_sampled(r);
}
