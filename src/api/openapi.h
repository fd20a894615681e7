/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The OpenAPI 3.1 document, made from the route table and the schemas below:
 * what is served as /v1/openapi.json and kept in doc/openapi.json. Pure. */

#include <stddef.h>

struct schema {
	const char *name;
	const char *json;
};
extern const struct schema schemas[];
extern const size_t n_schemas;
/* The same of the control listener. In these every property of an object that
 * is not closed is required, but those marked x-optional. */
extern const struct schema control_schemas[];
extern const size_t n_control_schemas;

struct query_doc {
	const char *name;
	const char *json; /* schema with description */
};
extern const struct query_doc query_docs[];
extern const size_t n_query_docs;

/* The operationId of a route, from its method and path: list_sandboxes,
 * get_sandbox, create_sandbox_exec, cancel_operation. Allocated. Pure. */
struct route;
char *openapi_id(const struct route *r);
/* The statuses of success, i = 0, 1; 0 = there is none (any more). */
int openapi_status(const struct route *r, unsigned i);
/* Indented, ends with a newline; allocated. */
char *openapi_text(void);
