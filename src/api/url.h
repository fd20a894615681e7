/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Query strings, beyond net/http.h. Pure. */

/* Percent-encode everything but RFC 3986's unreserved and "/". Allocated. */
char *url_escape(const char *s);
/* Name (at most 63 bytes, allocated) of the first parameter whose value has a
 * broken or NUL escape; NULL if all is well. */
char *url_query_broken(const char *path);
/* The i-th value of a repeated parameter, decoded, allocated; NULL if there
 * are fewer or it is malformed. */
char *url_query_nth(const char *path, const char *name, unsigned i);
