/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The root process of a node: answers proto/noded.h on RUN/noded.sock. It does
 * what only root can (namespaces, taps, rules, cgroups, other uids), for one
 * client, caisson-node's sandboxd, plus a few of root's tools. It reads
 * numbers, never text; who sends what no honest client would is cut off.
 *
 * It can die at any moment: slots with a living VMM are found again by their
 * cgroups at the next start, everything else is removed.
 */

#include "base/err.h"
#include "base/loop.h"
#include "noded/conf.h"

struct noded;

/* Lock RUN, find the cgroups, adopt or remove what is there. */
int noded_new(struct loop *l, const struct noded_conf *conf, struct noded **ret,
	      struct err *e);
struct noded *noded_free(struct noded *n);
int noded_listen(struct noded *n, struct err *e);
/* Destroy every slot of this RUN and cgroup, then remove both folders; runs
 * the loop until that is done. 0, or the first error. */
int noded_cleanup(struct noded *n, struct err *e);
