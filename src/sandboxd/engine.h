/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a sandbox becomes real here. `qemu`: a VM per sandbox, on KVM where a
 * probe guest proves it and in software otherwise. `null`: no VM at all, for
 * load tests of the control plane; it says so in every record.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sandboxd/fault.h"

struct node;
struct sandbox;

struct engine {
	const char *name;
	bool is_virtual; /* needs noded and storaged */
	/* Bring it up; sandbox_started() or sandbox_failed() follow, perhaps
	 * from within. */
	void (*start)(struct sandbox *s);
	/* Take down whatever there is, in any state; sandbox_torn() follows,
	 * perhaps from within. */
	void (*end)(struct sandbox *s);
	/* A client's connection for a running sandbox; fd is taken over. */
	void (*data_take)(struct sandbox *s, int fd);
	/* The node goes away without touching the sandbox itself. */
	void (*forget)(struct sandbox *s);
};

extern const struct engine engine_qemu, engine_null;
