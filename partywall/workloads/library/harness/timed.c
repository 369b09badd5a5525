// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "timed.h"

/* Operations between looks at the clock, which is a twentieth of the shortest. */
#define BATCH 8
#define AROUND_MS 200

static unsigned long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Operations from number *n on until the time is over; how many, and in what time. */
static unsigned long run(const struct run *run, unsigned long *n, unsigned long ms,
			 unsigned long long *took)
{
	unsigned long long begun = now(), end = begun + ms * 1000000ULL, t;
	unsigned long first = *n;
	int k;

	do {
		for (k = 0; k < BATCH; k++)
			workload.operation(run, (*n)++);
		t = now();
	} while (t < end);
	/* What the operations left to be done by others is part of them. */
	if (workload.last) {
		workload.last(run, (*n)++);
		t = now();
	}
	*took = t - begun;
	return *n - first;
}

void timed(const struct plan *plan)
{
	unsigned long long took, around;
	unsigned long n = 0, count;
	char line[96];
	int length;

	barrier_wait(plan->barrier, plan->procs);
	run(&plan->run, &n, AROUND_MS, &around);
	count = run(&plan->run, &n, plan->milliseconds, &took);
	run(&plan->run, &n, AROUND_MS, &around);
	length = snprintf(line, sizeof(line), "PARTYWALL ops %u %lu %llu\n", plan->run.index,
			  count, took);
	if (write(STDOUT_FILENO, line, length) != length)
		fail("write of the count");
}
