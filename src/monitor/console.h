/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The newest bytes of a VM's serial console, with their offsets since the
 * monitor began, and the streams that read them (GET /v1/console). The guest
 * has no part in an answer but these bytes: what it cannot do is make us hold
 * more than the ring, or a line per reader.
 *
 * Whoever reads slower than the console writes gets a gap. Whoever feeds the
 * ring limits the rate (monitor/vmlink.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "net/http.h"

#define CONSOLE_KEEP	    262144u
#define CONSOLE_READERS_MAX 16u
#define CONSOLE_ALIVE_MS    15000u

struct console;

struct console *console_new(struct loop *l);
/* Cuts its readers. */
struct console *console_free(struct console *c);

void console_put(struct console *c, const void *p, size_t n);
/* Answer s: lines {"o":OFFSET,"b64":…}, {"o":…,"gap":{from,to}} and, when
 * following, {"o":…,"alive":{}}. */
void console_serve(struct console *c, struct http_stream *s, uint64_t from,
		   bool follow);
/* The last bytes, printable: at most n - 1 and a NUL. */
void console_tail(const struct console *c, char *ret, size_t n);
