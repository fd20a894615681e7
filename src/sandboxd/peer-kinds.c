/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/own.h"
#include "proto/monitor.h"
#include "proto/noded.h"
#include "proto/storaged.h"
#include "sandboxd/peer.h"

/* A text from another process, shown and never parsed: cut to its array. */
static int said(struct err *e, int r, enum err_kind kind, const char *msg,
		size_t max)
{
	if (r >= 0)
		return 0;
	if (kind >= ERR_KIND_MAX_)
		kind = ERR_INTERNAL;
	if (r < -4095)
		r = -EPROTO;
	return err_set(e, r, kind, "%.*s", (int)max, msg);
}

static int noded_verdict(const void *msg, struct err *e)
{
	const struct channel_hdr *h = msg;
	const struct noded_rep *rep = msg;
	const struct noded_list *list = msg;

	if (h->op == NODED_LIST)
		return said(e, list->r, err_kind_of(list->r < 0 ? -list->r : 0),
			    "no list", 32);
	return said(e, rep->r, err_kind_of(rep->r < 0 ? -rep->r : 0), rep->msg,
		    sizeof(rep->msg));
}

#define NODED_REP(fds_max)                                                     \
	{                                                                      \
		sizeof(struct noded_rep), sizeof(struct noded_rep), 0, fds_max \
	}

static const struct channel_op noded_ops[] = {
	[NODED_HELLO] = NODED_REP(0),
	[NODED_SLOT_CREATE] = NODED_REP(0),
	[NODED_SPAWN_MONITOR] = NODED_REP(1),
	[NODED_SPAWN_VMM] = NODED_REP(1),
	[NODED_KILL] = NODED_REP(0),
	[NODED_SLOT_DESTROY] = NODED_REP(0),
	[NODED_LIST] = { sizeof(struct noded_list),
			 sizeof(struct noded_list) +
			     NODED_LIST_MAX * sizeof(struct noded_slot),
			 0, 0 },
	[NODED_KVM] = NODED_REP(1),
};

const struct peer_kind peer_noded = {
	"caisson-noded",
	noded_ops,
	ARRAY_SIZE(noded_ops),
	noded_verdict,
};

static int store_verdict(const void *msg, struct err *e)
{
	const struct st_rep *rep = msg;

	return said(e, rep->r, (enum err_kind)rep->kind, rep->msg,
		    sizeof(rep->msg));
}

#define ST_REP(text_max, fds_max)                                              \
	{                                                                      \
		sizeof(struct st_rep), sizeof(struct st_rep) + (text_max), 0,  \
		    fds_max                                                    \
	}

static const struct channel_op store_ops[] = {
	[ST_HELLO] = ST_REP(0, 0),
	[ST_OPEN] = ST_REP(0, 1),
	[ST_STAT] = ST_REP(0, 0),
	[ST_DRAFT_NEW] = ST_REP(0, 1),
	[ST_DRAFT_COMMIT] = ST_REP(0, 0),
	[ST_DRAFT_DROP] = ST_REP(0, 0),
	[ST_OVERLAY_NEW] = ST_REP(0, 1),
	[ST_OVERLAY_COMMIT] = ST_REP(0, 0),
	[ST_OVERLAY_DROP] = ST_REP(0, 0),
	[ST_OVERLAY_LIST] = ST_REP(CHANNEL_MSG_MAX - sizeof(struct st_rep), 0),
	[ST_REF_SET] = ST_REP(0, 0),
	[ST_REF_GET] = ST_REP(ST_REF_MAX, 0),
	[ST_REF_DROP] = ST_REP(0, 0),
	[ST_SPACE] = ST_REP(0, 0),
};

const struct peer_kind peer_storaged = {
	"caisson-storaged",
	store_ops,
	ARRAY_SIZE(store_ops),
	store_verdict,
};

static int monitor_verdict(const void *msg, struct err *e)
{
	const struct mon_rep *rep = msg;

	return said(e, rep->r, (enum err_kind)rep->kind, rep->msg,
		    sizeof(rep->msg));
}

#define MON_REP                                                                \
	{                                                                      \
		sizeof(struct mon_rep), sizeof(struct mon_rep), 0, 0           \
	}

static const struct channel_op monitor_ops[] = {
	[MON_STATUS] = MON_REP, [MON_BOOT] = MON_REP, [MON_LOAD] = MON_REP,
	[MON_RENEW] = MON_REP,	[MON_OPEN] = MON_REP, [MON_SAVE] = MON_REP,
	[MON_QUIT] = MON_REP,	[MON_DATA] = MON_REP, [MON_EV_GONE] = MON_REP,
};

const struct peer_kind peer_monitor = {
	"the sandbox's monitor",
	monitor_ops,
	ARRAY_SIZE(monitor_ops),
	monitor_verdict,
};
