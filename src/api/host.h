/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who may talk to a listener by name: a browser that was led here by a page or
 * by DNS rebinding shows itself in Host or Origin. Pure.
 */

#include <stdbool.h>
#include <stddef.h>

/* Host (or :authority), with or without port, is 127.0.0.1, [::1], localhost
 * or one of names. NULL is refused. */
bool host_allowed(const char *host, const char *const *names, size_t n_names);
/* No Origin (NULL) is allowed, else it must be one of origins, exactly
 * ("https://console.example"). "null" never is. */
bool origin_allowed(const char *origin, const char *const *origins,
		    size_t n_origins);
