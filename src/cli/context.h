/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Contexts: which server to talk to, and with which key. They live in
 * ~/.config/caisson/config.json (0600) of the *invoking* user, also under sudo
 * (SUDO_UID), written atomically and owned by that user.
 *
 *   {"current": NAME, "contexts": {NAME: {"url", "data_url", "key"}}}
 *
 * CAISSON_CONFIG names another file, CAISSON_CONTEXT another context, and
 * CAISSON_URL, CAISSON_DATA_URL, CAISSON_KEY override single values;
 * CAISSON_CA_FILE names the CA of an https server (cli/client.h).
 * Blocking; small files.
 */

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct context {
	char *name;
	char *url;	/* control, e.g. http://127.0.0.1:7700 */
	char *data_url; /* data, e.g. http://127.0.0.1:7710 */
	char *key;	/* "" = none */
};

struct context_file {
	char *path;
	uid_t uid; /* who shall own it */
	gid_t gid;
	json_t *root; /* never NULL after context_load */
};

void context_fini(struct context *c);
void context_file_fini(struct context_file *f);

/* Where the file is and whose; allocates f->path. */
int context_locate(struct context_file *f, struct err *e);
/* Read f->path into f->root; a file that is absent is empty. Refuses a file
 * that others may read while it holds a key. */
int context_load(struct context_file *f, struct err *e);
int context_save(const struct context_file *f, struct err *e);

/* Name or NULL for the current one; environment included. ERR_NOT_FOUND with a
 * remedy if there is none. */
int context_get(const struct context_file *f, const char *name,
		struct context *ret, struct err *e);
void context_put(struct context_file *f, const struct context *c,
		 bool make_current);
/* True if it was there. The current one moves to another, if any is left. */
bool context_remove(struct context_file *f, const char *name);
int context_use(struct context_file *f, const char *name, struct err *e);
const char *context_current(const struct context_file *f); /* NULL if none */

/* [a-zA-Z0-9_.-], 1 to 64, not starting with a dot or dash. */
bool context_name_valid(const char *name);
/* http:// or https://, a host, no path, query or user. */
bool context_url_valid(const char *url);
