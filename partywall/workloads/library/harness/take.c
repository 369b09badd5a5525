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
/* A few operations that take longer wait for something, and so does an end. */
#define TRY_MS 5000

static struct barrier *b;
static struct ask *ask;
static pid_t takers[MOST_PROCESSES];
static unsigned int taking;

static void moment(void)
{
	const struct timespec time = { .tv_nsec = MOMENT_NS };

	nanosleep(&time, NULL);
}

static long milliseconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* What was made is given back with the process, but for files and queues. */
static void failed_to_try(void)
{
	atomic_store(&ask->error, errno);
	_exit(0);
}

/* Keeps what it has. */
static void stop_taking(int error)
{
	atomic_store(&ask->error, error);
	atomic_store(&ask->stopped, 1);
	for (;;)
		pause();
}

static void failed_to_take(void)
{
	stop_taking(errno);
}

/* Names are never those of a time before, which may still be there. */
static void operation(const struct plan *plan)
{
	workload.operation(&plan->run, atomic_fetch_add(&ask->numbers, 1));
	atomic_fetch_add(&ask->done, 1);
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
	} else {
		atomic_store(&ask->error, errno);
	}
	return pid;
}

static void drop(const pid_t *groups, unsigned int count)
{
	long end = milliseconds() + TRY_MS;
	pid_t gone;

	for (unsigned int n = 0; n < count; n++)
		kill(-groups[n], SIGKILL);
	/* Those that they started are its own now. One that can't end is not waited for. */
	while ((gone = waitpid(-1, NULL, WNOHANG)) >= 0 && milliseconds() < end)
		if (!gone)
			moment();
	clean_places();
	clean_ipc();
}

static void try(const struct plan *plan)
{
	long end = milliseconds() + TRY_MS;
	pid_t pid = started();
	int status = 0;

	if (pid < 0)
		return;
	if (!pid) {
		failing = failed_to_try;
		if (workload.prepare)
			workload.prepare(&plan->run);
		for (unsigned long n = 0; n < ask->count; n++)
			operation(plan);
		_exit(0);
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		if (milliseconds() > end) {
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
	while (milliseconds() < end && !atomic_load(&ask->over))
		operation(plan);
	stop_taking(0);
}

/* Returns 0 if the process has not stopped by itself: it has been killed, or waits. */
static int stopped(long end)
{
	while (!atomic_load(&ask->stopped)) {
		/* For memory: all else that one could die of it has caught. */
		if (!atomic_load(&ask->over) && waitpid(-1, NULL, WNOHANG) > 0) {
			ask->killed = 1;
			/* It may have been another one that had memory: this one is to stop as well. */
			atomic_store(&ask->over, 1);
			end = milliseconds();
		}
		if (milliseconds() > end + TRY_MS) {
			if (!ask->killed)
				atomic_store(&ask->error, ETIMEDOUT);
			return 0;
		}
		moment();
	}
	return !ask->killed;
}

static void take_all(const struct plan *plan)
{
	long end = milliseconds() + 1000 * ask->count;
	unsigned long before;
	int refused = 0;
	pid_t pid;

	ask->processes = 0;
	taking = 0;
	atomic_store(&ask->over, 0);
	while (taking < MOST_PROCESSES && milliseconds() < end) {
		before = atomic_load(&ask->done);
		atomic_store(&ask->stopped, 0);
		atomic_store(&ask->error, 0);
		pid = started();
		if (pid < 0)
			return;
		if (!pid)
			take_in_process(plan, end);
		takers[taking++] = pid;
		if (!stopped(end))
			return;
		/* A new process gets nothing: it is not each one's own limit. What the one before
		 * was refused for counts: this one may not have come to that.
		 */
		if (atomic_load(&ask->done) == before) {
			if (refused)
				atomic_store(&ask->error, refused);
			return;
		}
		refused = atomic_load(&ask->error);
		ask->processes++;
	}
	/* There may be more to have. */
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
		drop(takers, taking);
		taking = 0;
		break;
	case END:
		barrier_leave(plan->barrier, plan->procs);
	}
}

int main(int argc, char **argv)
{
	struct plan plan;

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
		while (atomic_load(&ask->asked) == atomic_load(&ask->answered)) {
			/* Nobody asks any more. */
			if (atomic_load(&b->failed))
				barrier_leave(plan.barrier, plan.procs);
			moment();
		}
		asked(&plan);
		atomic_fetch_add(&ask->answered, 1);
	}
}
