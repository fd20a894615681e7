/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a guest must change in itself before its workload may run a new life:
 * random pool, clock, names, ports, sockets. System calls and writes to held
 * descriptors only: no process is started (it would cost tens of milliseconds)
 * and no path of the root file system is touched.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "guestd/guestd.h"

#define RENEW_ENTROPY_BYTES 64
#define RENEW_NAME_MAX	    64
#define RENEW_NONCE_MAX	    128

struct renew {
	char sandbox[RENEW_NAME_MAX];
	char hostname[RENEW_NAME_MAX];
	char machine_id[33]; /* 32 hexadecimal digits */
	char nonce[RENEW_NONCE_MAX];
	uint8_t entropy[RENEW_ENTROPY_BYTES];
	int64_t realtime_ns;
	int port_low, port_high;
};

/* Parse the body. 0, or -EINVAL with *e and, if known, the field's name. */
int renew_read(const void *body, size_t n, struct renew *ret,
	       char ret_field[96], struct err *e);
/* Do it all; the first failure is reported after everything was tried, and the
 * workload must then stay frozen. */
int renew_apply(const struct guestd *g, const struct renew *r, struct err *e);
/* Step the real-time clock; no-op below 1 ms of difference. */
int renew_clock(const struct guestd *g, int64_t realtime_ns, struct err *e);
/* Nanoseconds of the real-time clock now. */
int64_t renew_realtime_ns(void);
