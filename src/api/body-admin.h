/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The bodies of calls that change records: sandboxes, templates, projects,
 * tenants, quotas. The rules are those of body.h. */

#include "api/body.h"

struct body_update {
	json_t *labels; /* NULL = untouched; a null in it removes */
	bool has_ttl;
	int64_t ttl_s;	       /* 0 = no end */
	const char *on_expiry; /* NULL = untouched */
};
int body_update(json_t *v, struct body_update *ret, struct fault *f);

struct body_named {
	const char *name;
	bool public;	    /* templates */
	const char *tenant; /* projects; NULL = the caller's */
};
int body_template(json_t *v, struct body_named *ret, struct fault *f);
int body_project(json_t *v, struct body_named *ret, struct fault *f);
int body_tenant(json_t *v, struct body_named *ret, struct fault *f);

/* {"release":"sha256:…"} */
int body_tag(json_t *v, const char **ret_release, struct fault *f);

struct body_quota {
	const char *project; /* NULL = the caller's */
	int64_t sandboxes, vcpus, memory_mib, disk_mib; /* -1 = no limit */
};
int body_quota(json_t *v, struct body_quota *ret, struct fault *f);
