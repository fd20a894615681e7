/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A node's samples, read every 10 s by whoever owns the node and put into the
 * database, which takes each one over once: reading a page twice, or by two
 * controllers, changes nothing.
 */

#include "controller/controller.h"

struct samples;
struct samples *samples_new(struct controller *c, struct node *n);
struct samples *samples_free(struct samples *s);
