/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Heads of preview traffic: which sandbox's port a Host names, and what of a
 * head may pass to a guest's server and back. What is ours (keys, tokens,
 * cookies, headers that say who asks) never reaches the guest; what is the
 * user's does, also his own Authorization. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http.h"

#define PORT_TOKEN_LENGTH 44u /* "cpt_" + 40 hex digits */

/* "3000-sb0123456789abcdefghij.anything:7710": *ret_port, ret_id ("sb" + 20).
 */
bool preview_host(const char *host, uint16_t *ret_port, char ret_id[23]);
/* The port's token in Caisson-Port-Token, or in Authorization: Bearer; NULL if
 * there is none of its form. Points into head. */
const char *preview_token(const struct http_head *head);

/* The head for the guest: *to is initialised here and finished by the caller.
 * peer: who asks, for X-Forwarded-For. */
void preview_request(const struct http_head *from, const char *peer,
		     struct http_head *to);
/* The head for the client. */
void preview_response(const struct http_head *from, struct http_head *to);
