/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sigs.h"

#include <signal.h>
#include <sys/signalfd.h>

static void ours(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
}

void unblock_signals(void)
{
	sigset_t set;

	ours(&set);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int follow_signals(void)
{
	sigset_t set;

	ours(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}
