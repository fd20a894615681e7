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
 * Frames of an exec between guestd, the monitor and the API, in both directions
 * (doc/guest-protocol.md, "attach"). Big endian on the wire:
 * type u8 | zero u8[3] | length u32 | offset u64 | payload[length <= 65536].
 * Server frames carry the output offset: bytes of all kinds in arrival order.
 * Client frames carry the offset in stdin (STDIN, STDIN_END), the output offset
 * read so far (ACK), or 0.
 */
#define EXEC_FRAME_HEADER 16u
#define EXEC_FRAME_MAX	  65536u
enum exec_frame {
	/* from the guest */
	EXEC_STDOUT = 0x01,
	EXEC_STDERR = 0x02,
	EXEC_PTY = 0x03,
	EXEC_STARTED = 0x20, /* JSON {pid, started_at, stdin_offset} */
	EXEC_EXIT = 0x21,    /* JSON exit fact */
	EXEC_GAP = 0x22,     /* JSON {from, to} */
	EXEC_ALIVE = 0x23,   /* JSON {stdin_offset}; see the window below */
	EXEC_CLOSING = 0x24, /* JSON {reason, retry}; the last frame */
	/* from the client, on attach only */
	EXEC_STDIN = 0x10,     /* bytes */
	EXEC_STDIN_END = 0x11, /* no payload; offset = length of stdin */
	EXEC_SIZE = 0x12,      /* JSON {cols, rows} */
	EXEC_SIGNAL = 0x13,    /* JSON {name, scope} */
	EXEC_ACK = 0x14,       /* no payload */
};

/*
 * stdin_offset (STARTED, ALIVE) counts bytes that the program's pipe took. A
 * client keeps at most EXEC_STDIN_WINDOW bytes beyond the newest one it was
 * told, so that frames behind them (ACK, SIGNAL) are never stuck behind a
 * program that does not read: guestd holds EXEC_STDIN_HELD bytes per exec and
 * stops reading the attach stream only beyond that. ALIVE comes every 15 s, and
 * whenever stdin_offset moved by 32 KiB or caught up with what was sent.
 */
#define EXEC_STDIN_WINDOW 262144u
#define EXEC_STDIN_HELD	  1048576u
/* ACK at least this often (bytes), and within 250 ms of any byte. */
#define EXEC_ACK_EVERY 65536u
