/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"

DEFINE_CLEANUP(struct loop, loop_free);

/* A pipe whose reading end is a source. */
struct ear {
	struct loop_io io;
	int in, out;
	int n_calls;
	unsigned last;
	struct ear *victim; /* to remove from the callback */
	bool drain, suicide;
};

static void ear_close(struct ear *e)
{
	loop_io_del(&e->io);
	e->in = fd_close(e->in);
	e->out = fd_close(e->out);
}

static void on_ear(struct loop_io *io, unsigned events)
{
	struct ear *e = container_of(io, struct ear, io);
	char buf[64];

	e->n_calls++;
	e->last = events;
	if (e->drain)
		(void)!read(e->in, buf, sizeof(buf));
	if (e->victim)
		ear_close(e->victim);
	if (e->suicide) {
		ear_close(e);
		free(e);
	}
}

static void ear_open(struct loop *l, struct ear *e, unsigned events)
{
	int p[2];

	T_INT(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
	e->in = p[0];
	e->out = p[1];
	T_INT(loop_io_add(l, &e->io, e->in, events, on_ear), 0);
}

static void say(struct ear *e)
{
	T_INT(write(e->out, "x", 1), 1);
}

TEST(loop_level_triggered_calls_until_drained)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct ear e = { 0 };

	ear_open(l, &e, LOOP_IN);
	T_INT(loop_once(l, 0), 0);
	T_INT(e.n_calls, 0);
	say(&e);
	loop_once(l, 1000);
	loop_once(l, 1000);
	T_INT(e.n_calls, 2);
	T_INT(e.last, LOOP_IN);
	e.drain = true;
	loop_once(l, 1000);
	loop_once(l, 0);
	T_INT(e.n_calls, 3);
	ear_close(&e);
}

TEST(loop_edge_triggered_calls_once_per_edge)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct ear e = { 0 };

	ear_open(l, &e, LOOP_IN | LOOP_EDGE);
	say(&e);
	loop_once(l, 1000);
	loop_once(l, 0);
	T_INT(e.n_calls, 1);
	say(&e);
	loop_once(l, 1000);
	T_INT(e.n_calls, 2);
	/* setting the same again asks anew */
	T_INT(loop_io_set(&e.io, LOOP_IN | LOOP_EDGE), 0);
	loop_once(l, 1000);
	T_INT(e.n_calls, 3);
	ear_close(&e);
}

TEST(loop_hup_is_reported_unasked)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct ear e = { 0 };

	ear_open(l, &e, 0);
	e.out = fd_close(e.out);
	loop_once(l, 1000);
	T_INT(e.n_calls, 1);
	T_INT(e.last, LOOP_HUP);
	ear_close(&e);
}

TEST(loop_set_stops_and_starts_events)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct ear e = { 0 };

	ear_open(l, &e, LOOP_IN);
	say(&e);
	T_INT(loop_io_set(&e.io, 0), 0);
	loop_once(l, 0);
	T_INT(e.n_calls, 0);
	T_INT(loop_io_set(&e.io, LOOP_IN), 0);
	loop_once(l, 1000);
	T_INT(e.n_calls, 1);
	ear_close(&e);
}

TEST(loop_callback_may_free_its_own_source)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct ear *e = xnew(struct ear);

	ear_open(l, e, LOOP_IN);
	e->suicide = true;
	say(e);
	loop_once(l, 1000);
	loop_once(l, 0); /* a use after free shows under ASan */
}

TEST(loop_callback_may_remove_another_source_of_the_round)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct ear a = { 0 }, b = { 0 };

	/* whichever is called first removes the other: one call in all */
	ear_open(l, &a, LOOP_IN);
	ear_open(l, &b, LOOP_IN);
	a.victim = &b;
	b.victim = &a;
	say(&a);
	say(&b);
	loop_once(l, 1000);
	T_INT(a.n_calls + b.n_calls, 1);
	ear_close(&a);
	ear_close(&b);
}

static struct ear *reborn;

static void on_replace(struct loop_io *io, unsigned events)
{
	struct ear *e = container_of(io, struct ear, io);

	(void)events;
	e->n_calls++;
	if (e == reborn)
		return;
	/* removed and added again in the same round, at the same address */
	struct loop *l = reborn->io.loop;
	int fd = reborn->in;

	loop_io_del(&reborn->io);
	T_INT(loop_io_add(l, &reborn->io, fd, LOOP_IN, on_ear), 0);
}

TEST(loop_source_added_again_waits_for_the_next_round)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct ear a = { 0 }, b = { 0 };

	ear_open(l, &a, LOOP_IN);
	ear_open(l, &b, LOOP_IN);
	a.io.on_io = on_replace;
	reborn = &b;
	say(&a); /* ready first, so called first */
	say(&b);
	loop_once(l, 1000);
	T_INT(a.n_calls, 1);
	T_INT(b.n_calls, 0);
	ear_close(&a);
	loop_once(l, 1000);
	T_INT(b.n_calls, 1);
	ear_close(&b);
}

static void on_mute_other(struct loop_io *io, unsigned events)
{
	struct ear *e = container_of(io, struct ear, io);

	(void)events;
	e->n_calls++;
	T_INT(loop_io_set(&e->victim->io, 0), 0);
}

TEST(loop_event_nobody_asks_for_any_more_is_not_delivered)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct ear a = { 0 }, b = { 0 };

	ear_open(l, &a, LOOP_IN);
	ear_open(l, &b, LOOP_IN);
	a.victim = &b;
	b.victim = &a;
	a.io.on_io = b.io.on_io = on_mute_other;
	say(&a);
	say(&b);
	loop_once(l, 1000);
	T_INT(a.n_calls + b.n_calls, 1);
	ear_close(&a);
	ear_close(&b);
}

TEST(loop_regular_files_are_refused)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	owned_fd fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct loop_io io = { 0 };

	T_INT(loop_io_add(l, &io, fd, LOOP_IN, on_ear), -EPERM);
	T_TRUE(!io.loop);
	loop_io_del(&io); /* no-op */
}

/* timers: what fired, in order */
static int order[64], n_order;

struct alarm {
	struct loop_timer t;
	int id;
	struct alarm *victim;
};

static void on_alarm(struct loop_timer *t)
{
	struct alarm *a = container_of(t, struct alarm, t);

	if (n_order < 64)
		order[n_order++] = a->id;
	if (a->victim)
		loop_timer_del(&a->victim->t);
}

TEST(loop_timers_fire_by_time_then_by_order)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct alarm a[5];

	n_order = 0;
	memset(a, 0, sizeof(a));
	for (int i = 0; i < 5; i++)
		a[i].id = i;
	loop_timer_set(l, &a[0].t, 20, on_alarm);
	loop_timer_set(l, &a[1].t, 0, on_alarm);
	loop_timer_set(l, &a[2].t, 0, on_alarm);
	loop_timer_set(l, &a[3].t, 10, on_alarm);
	loop_timer_set(l, &a[4].t, 0, on_alarm);
	/* equal times, whatever the clock did in between */
	a[1].t.at_ms = a[2].t.at_ms = a[4].t.at_ms = loop_now_ms(l);
	while (n_order < 5)
		loop_once(l, -1);
	T_INT(order[0], 1);
	T_INT(order[1], 2);
	T_INT(order[2], 4);
	T_INT(order[3], 3);
	T_INT(order[4], 0);
}

TEST(loop_timer_deleted_by_another_never_fires)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct alarm a = { .id = 1 }, b = { .id = 2 };

	n_order = 0;
	a.victim = &b;
	loop_timer_set(l, &a.t, 0, on_alarm);
	loop_timer_set(l, &b.t, 0, on_alarm);
	loop_once(l, 100);
	loop_once(l, 5);
	T_INT(n_order, 1);
	T_TRUE(!b.t.loop);
	loop_timer_del(&b.t);
}

TEST(loop_timer_set_again_moves_it)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct alarm a = { .id = 1 };

	n_order = 0;
	loop_timer_set(l, &a.t, 3600000, on_alarm);
	loop_timer_set(l, &a.t, 0, on_alarm);
	loop_once(l, 1000);
	T_INT(n_order, 1);
	loop_once(l, 0);
	T_INT(n_order, 1);
}

TEST(loop_many_timers_in_random_order)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	static struct alarm a[500];
	uint64_t base = loop_now_ms(l), last = 0;

	srandom(2);
	memset(a, 0, sizeof(a));
	for (int i = 0; i < 500; i++)
		loop_timer_set(l, &a[i].t, (uint64_t)random() % 1000, on_alarm);
	for (int i = 0; i < 500; i += 3) {
		loop_timer_del(&a[i].t);
		if (i % 2)
			loop_timer_set(l, &a[i].t, (uint64_t)random() % 1000,
				       on_alarm);
	}
	/* the heap's order, without waiting: take the first each time */
	for (int k = 0; k < 500; k++) {
		struct alarm *first = NULL;

		for (int i = 0; i < 500; i++) {
			if (a[i].t.loop && a[i].t.index == 0) {
				T_TRUE(!first);
				first = &a[i];
			}
		}
		if (!first)
			break;
		T_TRUE(first->t.at_ms >= last && first->t.at_ms >= base);
		last = first->t.at_ms;
		loop_timer_del(&first->t);
	}
	for (int i = 0; i < 500; i++)
		T_TRUE(!a[i].t.loop);
}

static struct loop *now_loop;
static int n_rearmed;

static void on_zero(struct loop_timer *t)
{
	n_rearmed++;
	loop_timer_set(now_loop, t, 0, on_zero);
}

TEST(loop_timer_of_zero_does_not_starve_descriptors)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct loop_timer t = { 0 };
	struct ear e = { 0 };

	now_loop = l;
	n_rearmed = 0;
	ear_open(l, &e, LOOP_IN);
	loop_timer_set(l, &t, 0, on_zero);
	say(&e);
	loop_once(l, 1000);
	loop_once(l, 1000);
	T_TRUE(n_rearmed <= 2);
	T_INT(e.n_calls, 2);
	loop_timer_del(&t);
	ear_close(&e);
}

TEST(loop_timer_delay_that_overflows_is_never)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct alarm a = { .id = 1 };

	n_order = 0;
	loop_timer_set(l, &a.t, UINT64_MAX, on_alarm);
	loop_once(l, 0);
	T_INT(n_order, 0);
	loop_timer_del(&a.t);
}

static struct loop_defer d1, d2;
static int n_defer;

static void on_defer_count(struct loop_defer *d)
{
	(void)d;
	n_defer++;
}

static void on_defer_again(struct loop_defer *d)
{
	struct loop *l = now_loop;

	n_defer++;
	loop_defer_add(l, d, on_defer_again);
	loop_defer_del(&d2);
}

TEST(loop_defers_run_once_and_may_be_added_again)
{
	OWNED(loop_free_p) struct loop *l = loop_new();

	n_defer = 0;
	now_loop = l;
	loop_defer_add(l, &d1, on_defer_count);
	loop_defer_add(l, &d1, on_defer_count); /* queued already */
	loop_once(l, -1); /* must not wait: something is queued */
	loop_once(l, 0);
	T_INT(n_defer, 1);
	loop_defer_add(l, &d1, on_defer_again);
	loop_defer_add(l, &d2, on_defer_count); /* removed by the first */
	loop_once(l, -1);
	T_INT(n_defer, 2);
	loop_once(l, -1);
	T_INT(n_defer, 3);
	loop_defer_del(&d1);
	loop_once(l, 0);
	T_INT(n_defer, 3);
}

static void on_stop_alarm(struct loop_timer *t)
{
	(void)t;
	loop_stop(now_loop, 42);
}

TEST(loop_run_returns_the_stop_value_and_can_run_again)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct loop_timer t = { 0 };

	now_loop = l;
	loop_timer_set(l, &t, 1, on_stop_alarm);
	T_INT(loop_run(l), 42);
	loop_timer_set(l, &t, 1, on_stop_alarm);
	T_INT(loop_run(l), 42);
}

static struct loop_signal s1, s2;
static int n_signals, last_signal;

static void on_signal_count(struct loop_signal *s)
{
	n_signals++;
	last_signal = s->signo;
}

static void on_signal_remove_all(struct loop_signal *s)
{
	(void)s;
	n_signals++;
	loop_signal_del(&s1);
	loop_signal_del(&s2);
}

TEST(loop_signals_arrive_as_events)
{
	OWNED(loop_free_p) struct loop *l = loop_new();

	n_signals = 0;
	T_INT(loop_signal_add(l, &s1, SIGUSR1, on_signal_count), 0);
	T_INT(loop_signal_add(l, &s2, SIGUSR2, on_signal_count), 0);
	kill(getpid(), SIGUSR2);
	loop_once(l, 1000);
	T_INT(n_signals, 1);
	T_INT(last_signal, SIGUSR2);
	kill(getpid(), SIGUSR1);
	loop_once(l, 1000);
	T_INT(last_signal, SIGUSR1);
	loop_signal_del(&s1);
	loop_signal_del(&s2);
	kill(getpid(), SIGUSR1); /* still blocked: we live */
	loop_once(l, 0);
	T_INT(n_signals, 2);
}

TEST(loop_signal_callback_may_remove_its_siblings)
{
	OWNED(loop_free_p) struct loop *l = loop_new();

	n_signals = 0;
	T_INT(loop_signal_add(l, &s1, SIGUSR2, on_signal_remove_all), 0);
	T_INT(loop_signal_add(l, &s2, SIGUSR2, on_signal_remove_all), 0);
	kill(getpid(), SIGUSR2);
	loop_once(l, 1000);
	T_INT(n_signals, 1);
}

TEST(loop_signal_number_must_exist)
{
	OWNED(loop_free_p) struct loop *l = loop_new();

	T_INT(loop_signal_add(l, &s1, 4711, on_signal_count), -EINVAL);
}

static int exit_status, n_exits;

static void on_exit_note(struct loop_proc *p, int status)
{
	n_exits++;
	exit_status = status;
	if (p->io.loop)
		test_fail(__FILE__, __LINE__, "still a source in on_exit");
}

/* How a child that ran fn ended, as the loop saw it. */
static int watch(struct loop *l, void (*fn)(void))
{
	struct loop_proc p = { 0 };
	pid_t pid = fork();

	if (pid == 0) {
		fn();
		_exit(0);
	}
	n_exits = 0;
	T_INT(loop_proc_add_take(l, &p, (int)syscall(SYS_pidfd_open, pid, 0),
				 pid, on_exit_note),
	      0);
	while (!n_exits)
		loop_once(l, -1);
	/* reaped: nothing left to wait for */
	T_TRUE(waitpid(pid, NULL, WNOHANG) < 0 && errno == ECHILD);
	loop_proc_del(&p);
	return exit_status;
}

static void exit_7(void)
{
	_exit(7);
}

static void killed(void)
{
	kill(getpid(), SIGKILL);
}

TEST(loop_proc_reaps_a_child_with_its_status)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	int status = watch(l, exit_7);

	T_TRUE(WIFEXITED(status));
	T_INT(WEXITSTATUS(status), 7);
	status = watch(l, killed);
	T_TRUE(WIFSIGNALED(status));
	T_INT(WTERMSIG(status), SIGKILL);
}

TEST(loop_proc_of_a_stranger_has_no_status)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct loop_proc p = { 0 };
	int go[2], tell[2];
	pid_t middle, stranger = 0;

	T_INT(pipe2(go, O_CLOEXEC), 0);
	T_INT(pipe2(tell, O_CLOEXEC), 0);
	middle = fork();
	if (middle == 0) {
		char c;
		pid_t pid = fork();

		if (pid == 0) { /* until the tester closes his end */
			close(go[1]);
			(void)!read(go[0], &c, 1);
			_exit(3);
		}
		(void)!write(tell[1], &pid, sizeof(pid));
		_exit(0);
	}
	T_INT(read(tell[0], &stranger, sizeof(stranger)), sizeof(stranger));
	T_INT(waitpid(middle, NULL, 0), middle);
	n_exits = 0;
	T_INT(loop_proc_add_take(l, &p,
				 (int)syscall(SYS_pidfd_open, stranger, 0),
				 stranger, on_exit_note),
	      0);
	loop_once(l, 0);
	T_INT(n_exits, 0);
	close(go[1]);
	while (!n_exits)
		loop_once(l, -1);
	T_INT(exit_status, -1);
	close(go[0]);
	close(tell[0]);
	close(tell[1]);
}

TEST(loop_proc_add_closes_what_it_cannot_watch)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	struct loop_proc p = { 0 };
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	T_TRUE(loop_proc_add_take(l, &p, fd, 1, on_exit_note) < 0);
	T_TRUE(fcntl(fd, F_GETFD) < 0);
}

TEST(loop_now_is_the_rounds_time)
{
	OWNED(loop_free_p) struct loop *l = loop_new();
	uint64_t a = loop_now_ms(l);

	T_INT(loop_now_ms(l), a);
	loop_once(l, 0);
	T_TRUE(loop_now_ms(l) >= a);
}
