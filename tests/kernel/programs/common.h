/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What programs of many tasks need that say in one line what they did. */
#ifndef COMMON_H
#define COMMON_H

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline void must(int ok, const char *what)
{
	if (!ok) {
		printf("BROKEN %s: %s\n", what, strerror(errno));
		fflush(stdout);
		_exit(1);
	}
}

static inline void *shared(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	must(at != MAP_FAILED, "mmap");
	return at;
}

static inline double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec / 1e9;
}

/* Returns when what waited for a grace period has most likely been called: nobody says so. */
static inline void callbacks_called(void)
{
	for (int round = 0; round < 4; round++) {
		must(!syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0), "membarrier");
		sleep(1);
	}
}

/*
 * Makes this a real-time task. Others may still have a twentieth of its processor: see
 * HELD_ALONE in loads.py.
 */
static inline void come_first(void)
{
	struct sched_param first = { .sched_priority = 50 };

	must(!sched_setscheduler(0, SCHED_FIFO, &first), "sched_setscheduler");
}

/*
 * Keeps the processor from when there is a file /held until there is a file /stop. Not for
 * ever: who was to make that may wait for somebody who can't run meanwhile.
 */
static inline void hold_processor(void)
{
	int fd = open("/held", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	double began = now();

	must(fd >= 0, "/held");
	while (access("/stop", F_OK))
		must(now() - began < 300, "nobody makes /stop");
}

/* Waits for all, and says whether all went well. */
static inline int all_ended(void)
{
	int status, bad = 0;

	while (wait(&status) > 0)
		bad |= status;
	return !bad;
}

#endif
