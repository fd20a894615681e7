/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Operations that this process accepted and carries out: one call to the node,
 * one observation to the database, waiters woken. A task outlives the client
 * that asked for it. If this process dies, its lease on the operation runs out
 * and the controller goes on; the node joins repeated commands.
 */

#include "api/api.h"

#define TASK_LEASE_S  10
#define TASK_CREATE_S 90
#define TASK_END_S    60
#define TASK_BUILD_S  900

struct task_spec {
	const char *op, *tenant, *node, *traceparent;
	/* create, end */
	const char *sandbox;
	int64_t generation, fence;
	/* create, build: JSON texts */
	const char *hostname, *release, *resources;
	const char *digest; /* build */
};

/* All copied. */
void task_create(struct api *a, const struct task_spec *s);
void task_end(struct api *a, const struct task_spec *s);
void task_build(struct api *a, const struct task_spec *s);
void task_fini(struct api *a); /* drops all; nothing is undone */

/* For commands: {incarnation, operation, generation, fence, time_left_ms, …}.
 * Pure; new text. hostname, release, resources may be NULL. */
char *task_body(const char *incarnation, const struct task_spec *s, bool full,
		uint64_t time_left_ms);
/* The release as the node wants it: digest and artifacts of the manifest, no
 * defaults, no provenance. NULL if the manifest is not one. */
char *task_release(const char *digest, const char *manifest);
