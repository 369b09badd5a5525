/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SPREAD_H
#define SPREAD_H

#include <sys/types.h>

#include "harness.h"

/* Windows of those whose memory is looked at: one, and then twice as much. */
#define GROWN 3

/* What every program in a container is told, by environment variables. */
struct plan {
	unsigned int first_cpu;	/* PW_CPU: the container's first CPU, and process */
	const char *cpu_list;	/* PW_CPU_LIST: its CPUs, if not the next ones */
	unsigned int cpus;	/* PW_CPUS: how many it has */
	unsigned int procs;	/* PW_PROCS: processes in all containers */
	unsigned long warmup;	/* PW_WARMUP: operations before the window */
	unsigned long window;	/* PW_WINDOW: operations in it */
	unsigned long milliseconds; /* PW_MILLISECONDS: run by the clock instead */
	int grow;		/* PW_GROW: look at memory around windows, which are not marked */
	unsigned long step;	/* PW_STEP: or around so many operations, when windows are over */
	const char *barrier;	/* PW_BARRIER: file of the barrier */
	struct run run;		/* PW_VARIANT */
};

/* Reads the plan; ends the process with a message if something is missing. */
void plan_read(struct plan *plan);

/* Keeps the caller on a CPU from now on. */
void pin(unsigned int cpu);

/* The CPU of a slot: that entry of the list, or so many behind the first. */
unsigned int cpu_of(const struct plan *plan, unsigned int slot);

/*
 * Returns in one process for each CPU of the container, pinned to it and
 * executed anew so that it shares no memory with its siblings; the process
 * that called it waits for them and never returns.
 */
void spread(struct plan *plan, char **argv);

/*
 * Returns 1 when the first of these children has ended before its time, and has
 * said how; 0 when all of a round have ended well.
 */
int await_end(const pid_t *children, unsigned int count);

#endif
