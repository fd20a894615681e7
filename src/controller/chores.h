/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What has to be done again and again and needs no node: one statement each,
 * that any number of controllers may run at once. The list is in chores.c.
 */

#include "controller/controller.h"

struct chores;
struct chores *chores_new(struct controller *c);
struct chores *chores_free(struct chores *x); /* after the pool is gone */
void chores_stop(struct chores *x);
