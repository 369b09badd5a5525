// SPDX-License-Identifier: GPL-2.0-or-later
#include <signal.h>
#include <stddef.h>

#include "harness.h"

static void handler(int signo)
{
	(void)signo;
}

static void prepare(const struct run *run)
{
	struct sigaction action = { .sa_handler = handler };

	(void)run;
	if (sigaction(SIGUSR1, &action, NULL))
		fail("sigaction");
}

static void operation(const struct run *run, unsigned long n)
{
	(void)run;
	(void)n;
	if (raise(SIGUSR1))
		fail("raise");
}

const struct workload workload = { .prepare = prepare, .operation = operation };
