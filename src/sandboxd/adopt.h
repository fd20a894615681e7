/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A restart of this daemon is equal to a crash: VMs and their monitors live on,
 * and what to do with each is decided here from noded's list and the slots'
 * journals.
 *
 *   journal            VMM + monitor     then
 *   none, unreadable   any               destroyed (a waiting VMM, a template)
 *   restoring          any               destroyed: nobody may confirm it now
 *   confirmed, open    both live         taken over, if the monitor agrees
 *   confirmed, open    otherwise         sandbox.gone with the reason
 *
 * Overlays that no VM holds are dropped.
 */

struct node;

/* noded answered: look at everything; on_done when it is over. */
void adopt_begin(struct node *n, void (*on_done)(struct node *));
/* noded is back under us: find what it lost or made meanwhile. */
void adopt_again(struct node *n);
void adopt_fini(struct node *n);
/* Drop overlays that belong to nothing here. */
void adopt_overlays(struct node *n);
