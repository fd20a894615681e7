/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The names of a slot: RUN/slots/N/ with its sockets and the bind mount that
 * keeps its network namespace. Everything belongs to root, so a VMM that got
 * out of hand can exchange nothing; who may connect is decided by group or
 * owner of the socket. Blocking file operations of microseconds.
 */

#include "base/err.h"
#include "noded/conf.h"

enum slot_sock { SLOT_CTL, SLOT_QMP, SLOT_CHAN, SLOT_SERIAL, SLOT_SOCKS };

#define SLOT_PATH_MAX 256

/* RUN/slots/N[/name] */
void slotdir_path(const struct noded_conf *c, unsigned slot, const char *name,
		  char ret[SLOT_PATH_MAX]);
int slotdir_prepare(const struct noded_conf *c, struct err *e); /* RUN/slots */

/* Directory and the VMM's listeners (in the order of enum slot_sock, which is
 * that of enum vmm_fd). -EEXIST if the directory is there. */
int slotdir_create(const struct noded_conf *c, unsigned slot,
		   int ret_socks[SLOT_SOCKS], struct err *e);
/* A new listener "mon" in place of an old one. */
int slotdir_listen_mon(const struct noded_conf *c, unsigned slot,
		       struct err *e);
/* Keep the caller's network namespace alive as "netns". */
int slotdir_keep_netns(const struct noded_conf *c, unsigned slot,
		       struct err *e);
/* Remove it all; 0 if it was not there. */
int slotdir_remove(const struct noded_conf *c, unsigned slot, struct err *e);

/* "0".."1023" without leading zeros -> the number, else -1. Pure. */
int slotdir_number(const char *name);
