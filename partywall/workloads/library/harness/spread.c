// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "barrier.h"
#include "spread.h"

/* Where it is looked for: in the round's page, or on the console. */
static void say_failed(const char *why)
{
	if (!round_failed(why))
		dprintf(STDERR_FILENO, "partywall: workload: %s\n", why);
}

void (*failing)(void);

void fail(const char *what)
{
	char why[128];

	if (failing)
		failing();
	snprintf(why, sizeof(why), "%s: %s", what, strerror(errno));
	say_failed(why);
	exit(1);
}

static const char *text(const char *name)
{
	const char *value = getenv(name);

	if (!value) {
		errno = EINVAL;
		fail(name);
	}
	return value;
}

static unsigned long number(const char *name)
{
	char *end;
	const char *value = text(name);
	unsigned long n;

	errno = 0;
	n = strtoul(value, &end, 10);
	if (errno || *end || end == value) {
		errno = EINVAL;
		fail(name);
	}
	return n;
}

void plan_read(struct plan *plan)
{
	plan->first_cpu = number("PW_CPU");
	plan->cpus = number("PW_CPUS");
	plan->procs = number("PW_PROCS");
	plan->warmup = number("PW_WARMUP");
	plan->window = number("PW_WINDOW");
	plan->milliseconds = getenv("PW_MILLISECONDS") ? number("PW_MILLISECONDS") : 0;
	plan->grow = getenv("PW_GROW") != NULL;
	plan->step = getenv("PW_STEP") ? number("PW_STEP") : 0;
	plan->cpu_list = getenv("PW_CPU_LIST");
	plan->run.operations = plan->milliseconds ? 0 : plan->warmup + plan->window;
	if (plan->grow)
		plan->run.operations = plan->warmup + GROWN * plan->window;
	plan->barrier = text("PW_BARRIER");
	plan->run.variant = text("PW_VARIANT");
}

void pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

unsigned int cpu_of(const struct plan *plan, unsigned int slot)
{
	const char *entry = plan->cpu_list;
	char *end;
	unsigned long cpu;

	if (!entry)
		return plan->first_cpu + slot;
	while (slot-- && entry)
		entry = strchr(entry, ',') ? strchr(entry, ',') + 1 : NULL;
	errno = EINVAL;
	if (!entry)
		fail("PW_CPU_LIST");
	cpu = strtoul(entry, &end, 10);
	if (end == entry || (*end && *end != ','))
		fail("PW_CPU_LIST");
	return cpu;
}

int await_end(const pid_t *children, unsigned int count)
{
	unsigned int left = count, n;
	char why[64];
	int status = 0;

	while (left) {
		pid_t pid = wait(&status);

		if (pid < 0 && errno != EINTR)
			fail("wait");
		for (n = 0; n < count && children[n] != pid; n++)
			;
		/* Others are of no concern: orphans, or what a workload made to prepare. */
		if (n == count)
			continue;
		left--;
		/* All wait at the end of their window, of a round until all are there. */
		if (status || !getenv("PW_ROUND"))
			break;
	}
	if (!left && !status && getenv("PW_ROUND"))
		return 0;
	if (WIFSIGNALED(status))
		snprintf(why, sizeof(why), "killed by signal %d before the window's end",
			 WTERMSIG(status));
	else
		snprintf(why, sizeof(why), "exit status %d before the window's end",
			 WEXITSTATUS(status));
	say_failed(why);
	return 1;
}

void spread(struct plan *plan, char **argv)
{
	const char *slot = getenv("PW_SLOT");
	pid_t children[plan->cpus];
	unsigned int n;

	plan->run.siblings = plan->cpus;
	if (slot) {
		plan->run.slot = number("PW_SLOT");
		plan->run.index = plan->first_cpu + plan->run.slot;
		pin(cpu_of(plan, plan->run.slot));
		return;
	}
	/* What exec() does on the container's mounts is done on one CPU then. */
	if (getenv("PW_FRESH_CPUS"))
		pin(cpu_of(plan, 0));
	for (n = 0; n < plan->cpus; n++) {
		children[n] = fork();
		if (children[n] < 0)
			fail("fork");
		if (!children[n]) {
			char value[16];

			snprintf(value, sizeof(value), "%u", n);
			setenv("PW_SLOT", value, 1);
			execv("/proc/self/exe", argv);
			fail("execv of itself");
		}
	}
	exit(await_end(children, plan->cpus));
}
