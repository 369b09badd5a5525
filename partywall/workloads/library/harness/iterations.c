// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs a file with will-it-scale's interface: testcase() repeats an operation for
 * ever and adds to *iterations after each.  The file is compiled so that each of its
 * writes calls __asan_store*_noabort() first; the write of a counter ends an
 * operation, and so the window begins and ends exactly between two of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "barrier.h"
#include "harness.h"
#include "partywall.h"
#include "spread.h"

#define SETTLE_US 50000

void testcase(unsigned long long *iterations, unsigned long nr);
void testcase_prepare(unsigned long nr_tasks) __attribute__((weak));
void testcase_cleanup(void) __attribute__((weak));

/* A task's counter and what it has seen, on a page of its own. */
struct task {
	unsigned long long iterations;
	unsigned long done;
} __attribute__((aligned(4096)));

static struct plan plan;
static struct task *tasks;

static void rest(void)
{
	/* Others may still be in their window: leave the kernel alone. */
	for (;;)
		pause();
}

/* An operation of a task has ended. */
static void step(struct task *task)
{
	unsigned long done = ++task->done;

	if (done == plan.warmup) {
		/* A container's runtime still works on some CPU just after the start. */
		usleep(SETTLE_US);
		barrier_wait(plan.barrier, plan.procs);
		partywall_start();
	} else if (done == plan.warmup + plan.window) {
		partywall_stop();
		rest();
	}
}

static void stored(uintptr_t address)
{
	uintptr_t offset = address - (uintptr_t)tasks;

	if (offset < plan.cpus * sizeof(*tasks) && !(offset % sizeof(*tasks)))
		step(&tasks[offset / sizeof(*tasks)]);
}

/* The compiler's names; other sizes are no counters. */
#define OTHER(size) void __asan_store##size##_noabort(uintptr_t address) { (void)address; }
OTHER(1)
OTHER(2)
OTHER(4)
OTHER(16)

void __asan_store8_noabort(uintptr_t address)
{
	stored(address);
}

void __asan_storeN_noabort(uintptr_t address, size_t size)
{
	(void)address;
	(void)size;
}

void __asan_handle_no_return(void)
{
}

static void *work(void *slot)
{
	unsigned long nr = (unsigned long)slot;

	pin(cpu_of(&plan, nr));
	testcase(&tasks[nr].iterations, nr);
	errno = EINVAL;
	fail("testcase() returned");
}

int main(void)
{
	int threads, status;
	pthread_t thread;

	plan_read(&plan);
	threads = !strcmp(plan.run.variant, "threads");
	tasks = mmap(NULL, plan.cpus * sizeof(*tasks), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tasks == MAP_FAILED)
		fail("mmap of the counters");
	memset(tasks, 0, plan.cpus * sizeof(*tasks));
	pin(cpu_of(&plan, 0));
	if (testcase_prepare)
		testcase_prepare(plan.cpus);
	for (unsigned long nr = 0; nr < plan.cpus; nr++) {
		if (threads) {
			errno = pthread_create(&thread, NULL, work, (void *)nr);
			if (errno)
				fail("pthread_create");
			continue;
		}
		switch (fork()) {
		case -1:
			fail("fork");
		case 0:
			work((void *)nr);
		}
	}
	if (threads)
		rest();
	/* All rest after their window: the first to exit has failed. */
	while (wait(&status) < 0 && errno == EINTR)
		;
	if (testcase_cleanup)
		testcase_cleanup();
	exit(1);
}
