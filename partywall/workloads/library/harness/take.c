// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does what the referee asks (referee.c), with the operations of a workload, instead of
 * windows: main.c is not there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "clean.h"
#include "spread.h"
#include "take.h"

#define MOMENT_NS 1000000
/* What one process can't have another may. */
#define MOST_PROCESSES 256
/* A few operations that take longer wait for something. */
#define TRY_SECONDS 5

static struct ask *ask;
static pid_t takers[MOST_PROCESSES];

static void moment(void)
{
	const struct timespec time = { .tv_nsec = MOMENT_NS };

	nanosleep(&time, NULL);
}

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

/* What was made is given back with the process, but for files and queues. */
static void failed_to_try(void)
{
	atomic_store(&ask->error, errno);
	_exit(0);
}

/* Keeps what it has. */
static void failed_to_take(void)
{
	atomic_store(&ask->error, errno);
	atomic_store(&ask->stopped, 1);
	for (;;)
		pause();
}

/* Whoever needs memory is to take it from who takes: from no process that all wait for. */
static void first_to_be_killed(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "1000", 4);
	close(fd);
}

/* A process in a group of its own, with all that it starts. */
static pid_t started(void)
{
	pid_t pid = fork();

	if (!pid) {
		setpgid(0, 0);
		first_to_be_killed();
	} else if (pid > 0) {
		setpgid(pid, pid);
	}
	return pid;
}

static void drop(const pid_t *groups, unsigned int count)
{
	for (unsigned int n = 0; n < count; n++)
		kill(-groups[n], SIGKILL);
	/* Those that they started are its own now. */
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	clean_places();
	clean_ipc();
}

static void try(const struct plan *plan)
{
	long end = now() + TRY_SECONDS;
	pid_t pid = started();
	int status = 0;

	if (pid < 0) {
		atomic_store(&ask->error, errno);
		return;
	}
	if (!pid) {
		failing = failed_to_try;
		if (workload.prepare)
			workload.prepare(&plan->run);
		for (unsigned long n = 0; n < ask->count; n++) {
			workload.operation(&plan->run, n);
			atomic_fetch_add(&ask->done, 1);
		}
		/* Its own end may have others wait for it: it is asked no more. */
		_exit(0);
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		if (now() > end) {
			atomic_store(&ask->error, ETIMEDOUT);
			break;
		}
		moment();
	}
	ask->killed = WIFSIGNALED(status);
	drop(&pid, 1);
}

static void take_in_process(const struct plan *plan, long end)
{
	failing = failed_to_take;
	if (workload.prepare)
		workload.prepare(&plan->run);
	while (now() < end) {
		workload.operation(&plan->run, atomic_load(&ask->done));
		atomic_fetch_add(&ask->done, 1);
	}
	atomic_store(&ask->stopped, 1);
	for (;;)
		pause();
}

static void take_all(const struct plan *plan)
{
	long end = now() + ask->count;
	unsigned long before;

	ask->processes = 0;
	do {
		before = atomic_load(&ask->done);
		atomic_store(&ask->stopped, 0);
		atomic_store(&ask->error, 0);
		takers[ask->processes] = started();
		if (takers[ask->processes] < 0) {
			atomic_store(&ask->error, errno);
			return;
		}
		if (!takers[ask->processes])
			take_in_process(plan, end);
		ask->processes++;
		while (!atomic_load(&ask->stopped)) {
			/* For memory: all else that it could die of it has caught. */
			if (waitpid(-1, NULL, WNOHANG) > 0) {
				ask->killed = 1;
				return;
			}
			/* An operation may wait without end. */
			if (now() > end + TRY_SECONDS) {
				atomic_store(&ask->error, ETIMEDOUT);
				return;
			}
			moment();
		}
	} while (atomic_load(&ask->done) > before && now() < end &&
		 ask->processes < MOST_PROCESSES);
	/* Some time may have passed since the last one was had. */
	if (now() >= end && atomic_load(&ask->done) > before)
		atomic_store(&ask->error, 0);
}

static void asked(const struct plan *plan)
{
	switch (ask->what) {
	case TRY:
		try(plan);
		break;
	case TAKE:
		take_all(plan);
		break;
	case LET_GO:
		drop(takers, ask->processes);
		break;
	case END:
		barrier_leave(plan->barrier, plan->procs);
	}
}

int main(int argc, char **argv)
{
	struct plan plan;
	struct barrier *b;

	(void)argc;
	plan_read(&plan);
	spread(&plan, argv);
	b = barrier_map(plan.barrier, strtoul(getenv("PW_ROUND"), NULL, 10));
	if (!b)
		fail("mmap of the barrier");
	errno = EINVAL;
	if (plan.run.index > NEIGHBOUR)
		fail("PW_CPU");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		fail("prctl");
	ask = &b->asks[plan.run.index];
	atomic_store(&ask->ready, 1);
	for (;;) {
		while (atomic_load(&ask->asked) == atomic_load(&ask->answered))
			moment();
		asked(&plan);
		atomic_fetch_add(&ask->answered, 1);
	}
}
