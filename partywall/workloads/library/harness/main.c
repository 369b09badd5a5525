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
	operations(&plan.run, 0, plan.warmup);
	barrier_wait(plan.barrier, plan.procs);

	partywall_start();
	operations(&plan.run, plan.warmup, plan.warmup + plan.window);
	partywall_stop();

	barrier_leave(plan.barrier, plan.procs);
}
