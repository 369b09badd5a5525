// SPDX-License-Identifier: GPL-2.0-or-later
#include <unistd.h>

#include "barrier.h"
#include "harness.h"
#include "partywall.h"
#include "spread.h"
#include "timed.h"

/* Operations number from to to - 1. */
static void operations(const struct run *run, unsigned long from, unsigned long to)
{
	unsigned long n;

	for (n = from; n + 1 < to; n++)
		workload.operation(run, n);
	if (n < to)
		(workload.last ? workload.last : workload.operation)(run, n);
}

/*
 * Does a step of operations, and then twice as many. Memory is looked at before,
 * between and after: of what each operation leaves behind there is twice as much then,
 * and of what only warms a cache there is not.
 */
static void grow(const struct plan *plan, unsigned long from, unsigned long step)
{
	for (unsigned int n = 0; n < LOOKS; n++) {
		operations(&plan->run, from, from + n * step);
		from += n * step;
		/* Of those whose windows are recorded the first one has the guest held. */
		if (plan->grow)
			barrier_look(plan->barrier, n, plan->procs + 1);
		else if (plan->run.index)
			barrier_look(plan->barrier, n, plan->procs);
		else
			barrier_held(plan->barrier, n, plan->procs);
	}
}

int main(int argc, char **argv)
{
	struct plan plan;

	(void)argc;
	plan_read(&plan);
	spread(&plan, argv);
	if (workload.prepare)
		workload.prepare(&plan.run);
	if (plan.milliseconds) {
		timed(&plan);
		for (;;)
			pause();
	}
	barrier_settle(plan.barrier, plan.procs, plan.run.index);
	operations(&plan.run, 0, plan.warmup);
	if (plan.grow) {
		grow(&plan, plan.warmup, plan.window);
		barrier_leave(plan.barrier, plan.procs);
	}
	barrier_wait(plan.barrier, plan.procs);

	partywall_start();
	operations(&plan.run, plan.warmup, plan.warmup + plan.window);
	partywall_stop();

	if (plan.step) {
		/* Not at a barrier, while others are in their windows: the kernel is left alone. */
		sleep(WINDOWS_END_SECONDS);
		grow(&plan, plan.warmup + plan.window, plan.step);
	}
	barrier_leave(plan.barrier, plan.procs);
}
