/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "net/json.h"
#include "sandboxd/engine.h"
#include "sandboxd/node.h"
#include "sandboxd/prepare.h"
#include "sandboxd/rpc-int.h"
#include "sandboxd/vm.h"
#include "sandboxd/waiting.h"

#define EVENTS_AT_ONCE	512u
#define SAMPLES_AT_ONCE 1024u

void reply_json(struct req *q, int status, json_t *body_take)
{
	owned_json body = body_take;
	owned_str text = json_text(body);

	http_stream_reply(q->s, status, "application/json", text, strlen(text));
}

void reply_fault(struct req *q, const struct fault *f)
{
	const struct fault_info *info = fault_info(f->code);
	const char *remedy = f->remedy ? f->remedy : info->remedy;
	json_t *error = json_object();
	json_t *body = json_object();

	json_set_take(error, "code", json_string(info->code));
	json_set_take(error, "message", json_str_lossy(f->msg, strlen(f->msg)));
	json_set_take(error, "cause", json_string(info->cause));
	if (remedy)
		json_set_take(error, "remedy", json_string(remedy));
	if (info->retry_after_s)
		json_set_take(error, "retry_after_s",
			      json_integer(info->retry_after_s));
	json_set_take(body, "error", error);
	json_set_take(body, "incarnation", json_string(q->node->incarnation));
	reply_json(q, info->status, body);
}

void reply_refuse(struct req *q, enum fault_code code, const char *fmt, ...)
{
	struct fault f = { .code = code };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f.msg, sizeof(f.msg), fmt, ap);
	va_end(ap);
	reply_fault(q, &f);
}

static const char *isolation_level(const struct node *n)
{
	return n->engine->is_virtual && n->kvm ? "hardware" : "software";
}

json_t *json_node(struct node *n)
{
	json_t *o = json_object(), *engine = json_object();
	json_t *capacity = json_object(), *used = json_object();

	json_set_take(engine, "name", json_string(n->engine->name));
	json_set_take(engine, "isolation", json_string(isolation_level(n)));
	json_set_take(engine, "reason", json_string(n->isolation_reason));
	json_set_take(capacity, "slots", json_integer(n->conf.slots));
	json_set_take(capacity, "memory_mib", json_integer(n->conf.memory_mib));
	json_set_take(capacity, "vcpus", json_integer(n->vcpus));
	json_set_take(used, "sandboxes",
		      json_integer((json_int_t)map_len(n->sandboxes)));
	json_set_take(used, "slots",
		      json_integer(n->engine->is_virtual
				       ? n->slots.used + n->slots.dying
				       : (json_int_t)map_len(n->sandboxes)));
	json_set_take(used, "memory_mib", json_integer(n->memory_used_mib));
	json_set_take(o, "name", json_string(n->conf.name));
	json_set_take(o, "incarnation", json_string(n->incarnation));
	json_set_take(o, "version", json_string(CAISSON_VERSION));
	json_set_take(o, "ready", json_boolean(n->ready));
	json_set_take(o, "engine", engine);
	json_set_take(o, "capacity", capacity);
	json_set_take(o, "used", used);
	json_set_take(o, "waiting_vmms",
		      json_integer(n->waiting ? waiting_count(n->waiting) : 0));
	/* No command carries an epoch yet: none was seen. */
	json_set_take(o, "cluster_epoch", json_integer(0));
	return o;
}

static json_t *json_sandbox(const struct sandbox *s)
{
	json_t *o = json_object();

	json_set_take(o, "id", json_string(s->id));
	json_set_take(o, "observed", json_string(sandbox_observed(s)));
	json_set_take(o, "generation", json_integer((json_int_t)s->generation));
	json_set_take(o, "fence", json_integer((json_int_t)s->fence));
	if (!s->vm || !s->vm->slot)
		return o;
	json_set_take(o, "slot", json_integer(s->vm->slot->number));
	json_set_take(o, "vmm_pid", json_integer(s->vm->vmm.pid));
	json_set_take(o, "monitor_pid", json_integer(s->vm->monitor.pid));
	json_set_take(o, "netns", json_integer((json_int_t)s->vm->slot->netns));
	return o;
}

json_t *json_sandboxes(struct node *n)
{
	json_t *o = json_object(), *items = json_array();
	const char *key;
	void *value;

	for (size_t pos = 0; map_next(n->sandboxes, &pos, &key, &value);)
		json_array_append_new(items, json_sandbox(value));
	json_set_take(o, "incarnation", json_string(n->incarnation));
	json_set_take(o, "items", items);
	return o;
}

json_t *json_running(const struct sandbox *s)
{
	json_t *o = json_object(), *isolation = json_object();
	json_t *timings = json_object();

	json_set_take(isolation, "level",
		      json_string(isolation_level(s->node)));
	json_set_take(isolation, "engine", json_string(s->node->engine->name));
	json_set_take(isolation, "reason",
		      json_string(s->node->isolation_reason));
	for (int i = 0; i < TIMING_MAX_; i++)
		if (s->timings_us[i])
			json_set_take(
			    timings, timing_names[i],
			    json_real((double)s->timings_us[i] / 1000.0));
	if (s->path)
		json_set_take(timings, "path", json_string(s->path));
	json_set_take(o, "observed", json_string(sandbox_observed(s)));
	json_set_take(o, "generation", json_integer((json_int_t)s->generation));
	json_set_take(o, "isolation", isolation);
	json_set_take(o, "timings_ms", timings);
	return o;
}

/* Add the numbers of u; what was never known is null. */
static void put_usage(json_t *o, const struct usage *u)
{
	json_set_take(o, "cpu_ms", json_integer((json_int_t)u->cpu_ms));
	json_set_take(o, "memory_bytes",
		      json_integer((json_int_t)u->memory_bytes));
	json_set_take(o, "disk_bytes",
		      u->has_disk ? json_integer((json_int_t)u->disk_bytes)
				  : json_null());
	json_set_take(o, "net_rx_bytes",
		      json_integer((json_int_t)u->net_rx_bytes));
	json_set_take(o, "net_tx_bytes",
		      json_integer((json_int_t)u->net_tx_bytes));
}

static void put_at(json_t *o, int64_t at_ms)
{
	char at[25];

	text_rfc3339(at_ms, at);
	json_set_take(o, "at", json_string(at));
}

json_t *json_usage(const struct usage *u)
{
	json_t *o = json_object();

	put_at(o, u->at_ms);
	put_usage(o, u);
	return o;
}

static json_t *json_sample(const struct sample *s)
{
	json_t *o = json_object();

	json_set_take(o, "seq", json_integer((json_int_t)s->seq));
	put_at(o, s->usage.at_ms);
	json_set_take(o, "sandbox", json_string(s->sandbox));
	put_usage(o, &s->usage);
	return o;
}

json_t *json_samples(struct node *n, uint64_t after, bool is_known)
{
	json_t *o = json_object(), *items = json_array();
	const struct sample *s;
	uint64_t next = is_known ? after : n->samples.next - 1;

	for (unsigned i = 0; is_known && i < SAMPLES_AT_ONCE; i++) {
		s = samples_next(&n->samples, next);
		if (!s)
			break;
		json_array_append_new(items, json_sample(s));
		next = s->seq;
	}
	json_set_take(o, "incarnation", json_string(n->incarnation));
	json_set_take(o, "next", json_integer((json_int_t)next));
	json_set_take(o, "resync", json_boolean(!is_known));
	json_set_take(o, "items", items);
	return o;
}

static json_t *json_event(const struct event *e)
{
	json_t *o = json_object();

	json_set_take(o, "seq", json_integer((json_int_t)e->seq));
	put_at(o, e->at_ms);
	json_set_take(o, "type", json_string("sandbox.gone"));
	json_set_take(o, "sandbox", json_string(e->sandbox));
	json_set_take(o, "generation", json_integer((json_int_t)e->generation));
	json_set_take(o, "reason", json_string(e->reason));
	json_set_take(o, "detail",
		      json_str_lossy(e->detail, strlen(e->detail)));
	if (e->usage.is_known)
		json_set_take(o, "last_usage", json_usage(&e->usage));
	return o;
}

json_t *json_events(struct node *n, uint64_t after, bool is_known)
{
	json_t *o = json_object(), *items = json_array();
	const struct event *e;
	uint64_t next = is_known ? after : n->events.next - 1;

	for (unsigned i = 0; is_known && i < EVENTS_AT_ONCE; i++) {
		e = events_next(&n->events, next);
		if (!e)
			break;
		json_array_append_new(items, json_event(e));
		next = e->seq;
	}
	json_set_take(o, "incarnation", json_string(n->incarnation));
	json_set_take(o, "next", json_integer((json_int_t)next));
	json_set_take(o, "resync", json_boolean(!is_known));
	json_set_take(o, "items", items);
	return o;
}

json_t *json_prepare(const struct prepare *p)
{
	const struct fault *f = prepare_fault(p);
	json_t *o = json_object(), *error;
	uint64_t done, total;

	prepare_progress(p, &done, &total);
	json_set_take(o, "id", json_string(prepare_id(p)));
	json_set_take(o, "phase",
		      json_string(prepare_phase_name(prepare_phase(p))));
	json_set_take(o, "done", json_integer((json_int_t)done));
	json_set_take(o, "total", json_integer((json_int_t)total));
	json_set_take(o, "unit", json_string("steps"));
	if (!f)
		return o;
	error = json_object();
	json_set_take(error, "code", json_string(fault_info(f->code)->code));
	json_set_take(error, "message", json_str_lossy(f->msg, strlen(f->msg)));
	json_set_take(error, "cause", json_string(fault_info(f->code)->cause));
	json_set_take(o, "error", error);
	return o;
}
