/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The first bytes of a data connection (API -> sandboxd -> monitor). The client
 * sends the preamble, waits for one byte, then speaks HTTP/2 with prior
 * knowledge. */

#include <stdint.h>

#define DATA_MAGIC 0x41544144u /* "DATA" */

struct data_preamble {
	uint32_t magic;
	uint32_t pad;
	char sandbox[32]; /* NUL-terminated, NUL-padded */
};

enum data_answer {
	DATA_OK = 'k',
	DATA_NO_SANDBOX = 'n',
	DATA_NOT_READY = 'r',
};

/*
 * Frames of an exec's output between guestd and the monitor: the body of
 * GET /v1/execs/{id}/output is a sequence of them. Big endian on the wire:
 * type u8 | zero u8[3] | length u32 | offset u64 | payload[length <= 65536].
 * Offsets count output bytes of all kinds in arrival order.
 */
#define EXEC_FRAME_HEADER 16u
#define EXEC_FRAME_MAX	  65536u
enum exec_frame {
	EXEC_STDOUT = 0x01,
	EXEC_STDERR = 0x02,
	EXEC_PTY = 0x03,
	EXEC_STARTED = 0x20, /* JSON {pid, started_at} */
	EXEC_EXIT = 0x21,    /* JSON exit fact */
	EXEC_GAP = 0x22,     /* JSON {from, to} */
	EXEC_ALIVE = 0x23,   /* JSON {} every 15 s */
};
