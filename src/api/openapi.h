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

struct query_doc {
	const char *name;
	const char *json; /* schema with description */
};
extern const struct query_doc query_docs[];
extern const size_t n_query_docs;

/* Indented, ends with a newline; allocated. */
char *openapi_text(void);
