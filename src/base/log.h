/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Structured logs: one line per event on stderr, key=value or JSON, with the
 * program, a level and the trace id of the work in hand. Nothing below a
 * daemon's top layer logs above debug. A message never holds a secret or a
 * peer's raw bytes; values are escaped here all the same.
 */

enum log_level { LOG_DEBUG_, LOG_INFO_, LOG_WARN_, LOG_ERROR_, LOG_LEVEL_MAX_ };

enum log_format { LOG_KV, LOG_JSON };

/* Once, at start. program is borrowed. Level and format are overridden by the
 * environment: CAISSON_LOG=debug|info|warn|error, CAISSON_LOG_FORMAT=kv|json.
 */
void log_init(const char *program, enum log_level level);
void log_set_level(enum log_level level);

/* The trace id put on following lines of this thread; NULL for none. At most
 * 32 characters are kept; copied. */
void log_set_trace(const char *trace);

/*
 * log_event(LOG_INFO_, "slot_created", "slot=%u netns=%lu", 3, ino)
 * name: a stable snake_case event name. fmt: space-separated key=VALUE pairs;
 * a value that may hold spaces is written with log_quote() or as the last pair.
 */
void log_event(enum log_level level, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* s in double quotes, escaped, at most 512 bytes. Valid until the fourth next
 * call in this thread. NULL is "". */
const char *log_quote(const char *s);

#define log_debug(name, ...) log_event(LOG_DEBUG_, name, __VA_ARGS__)
#define log_info(name, ...)  log_event(LOG_INFO_, name, __VA_ARGS__)
#define log_warn(name, ...)  log_event(LOG_WARN_, name, __VA_ARGS__)
#define log_error(name, ...) log_event(LOG_ERROR_, name, __VA_ARGS__)
