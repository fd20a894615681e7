/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/samples.h"

#include <stdio.h>

#include "base/own.h"

uint64_t samples_every_ms = 10000;

void samples_init(struct samples *ss)
{
	ss->ring = xnew_n(struct sample, SAMPLES_RING);
	ss->next = 1;
}

void samples_fini(struct samples *ss)
{
	free(ss->ring);
	ss->ring = NULL;
}

void samples_push(struct samples *ss, const char *sandbox,
		  const struct usage *u)
{
	struct sample *s = &ss->ring[ss->next % SAMPLES_RING];

	s->seq = ss->next++;
	s->usage = *u;
	snprintf(s->sandbox, sizeof(s->sandbox), "%s", sandbox);
}

bool samples_known(const struct samples *ss, uint64_t after)
{
	return after < ss->next && ss->next - 1 - after <= SAMPLES_RING;
}

const struct sample *samples_next(const struct samples *ss, uint64_t after)
{
	if (after + 1 >= ss->next)
		return NULL;
	return &ss->ring[(after + 1) % SAMPLES_RING];
}
