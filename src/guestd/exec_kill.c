/* SPDX-License-Identifier: Apache-2.0 */
#include "guestd/exec_kill.h"

#include <signal.h>
#include <sys/wait.h>

#include "guestd/cgroup.h"

#define GRACE_MS   2000u
#define TICK_MS	   50u
#define GIVE_UP_MS 12000u

bool exec_leader_has_ended(const struct exec *x)
{
	siginfo_t si = { 0 };

	if (!x->child.pid)
		return true;
	return waitid(P_PID, (id_t)x->pid, &si, WEXITED | WNOHANG | WNOWAIT) <
		   0 ||
	       si.si_pid != 0;
}

static bool tree_lives(const struct exec *x)
{
	if (x->child.pid)
		return true;
	if (x->cgroup >= 0)
		return cgroup_value(x->cgroup, "cgroup.events", "populated") ==
		       1;
	/* the number is not used again while its group has members */
	return kill(-x->pid, 0) == 0;
}

static void signal_tree(struct exec *x, int signo)
{
	if (x->cgroup >= 0)
		(void)cgroup_signal(x->cgroup, signo);
	else
		(void)kill(-x->pid, signo);
}

static void on_tick(struct loop_timer *t)
{
	struct exec *x = container_of(t, struct exec, kill);
	uint64_t waited = loop_now_ms(x->g->loop) - x->kill_began_ms;

	if (!tree_lives(x) || waited >= GIVE_UP_MS) {
		x->is_killed = false;
		exec_check_end(x);
		return;
	}
	/* again and again: what was being forked may have escaped the last */
	if (waited >= GRACE_MS)
		signal_tree(x, SIGKILL);
	loop_timer_set(x->g->loop, &x->kill, TICK_MS, on_tick);
}

void exec_kill_tree(struct exec *x)
{
	if (x->is_killed)
		return;
	x->is_killed = true;
	x->kill_began_ms = loop_now_ms(x->g->loop);
	signal_tree(x, SIGTERM);
	/* who was stopped could not take it */
	signal_tree(x, SIGCONT);
	loop_timer_set(x->g->loop, &x->kill, TICK_MS, on_tick);
}
