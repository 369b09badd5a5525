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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
	unsigned long left;	/* operations to the window's end */
} __attribute__((aligned(4096)));

static struct plan plan;
static struct barrier *barrier;
static int threads;
/* The caller's; who only stands beside a task has none. */
static __thread struct task *mine;

static void rest(void)
{
	/* Others may still be in their window: leave the kernel alone. */
	for (;;)
		pause();
}

/* An operation of a task has ended. */
static void step(struct task *task)
{
	int error = errno;

	task->left--;
	if (task->left == plan.window) {
		/* A container's runtime still works on some CPU just after the start. */
		usleep(SETTLE_US);
		barrier_meet(barrier, plan.procs);
		errno = error;
		partywall_start();
	} else if (!task->left) {
		partywall_stop();
		rest();
	}
}

static void stored(uintptr_t address)
{
	/* In a child of a task the page is empty: it has nothing left to do. */
	if (mine && address == (uintptr_t)&mine->iterations && mine->left)
		step(mine);
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
	mine = mmap(NULL, sizeof(*mine), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* A fork() would else have the next write of the counter copy the page. */
	if (mine == MAP_FAILED || madvise(mine, sizeof(*mine), MADV_WIPEONFORK))
		fail("memory of a counter");
	mine->left = plan.warmup + plan.window;
	testcase(&mine->iterations, nr);
	dprintf(STDERR_FILENO, "partywall: workload: testcase() returned: it is to go on for ever\n");
	exit(1);
}

static void prepare(void)
{
	if (testcase_prepare)
		testcase_prepare(plan.cpus);
}

/* All tasks are threads of the caller. */
static void lead(void)
{
	pthread_t thread;

	prepare();
	for (unsigned long nr = 0; nr < plan.cpus; nr++) {
		errno = pthread_create(&thread, NULL, work, (void *)nr);
		if (errno)
			fail("pthread_create");
	}
	rest();
}

/* Has `start` run beside the caller, and on its CPU. */
void new_task(void *(*start)(void *), void *arg)
{
	pthread_t thread;

	if (threads) {
		errno = pthread_create(&thread, NULL, start, arg);
		if (errno)
			fail("pthread_create");
		return;
	}
	switch (fork()) {
	case -1:
		fail("fork");
	case 0:
		start(arg);
		exit(0);
	}
}

int main(void)
{
	unsigned int processes;

	plan_read(&plan);
	threads = !strcmp(plan.run.variant, "threads");
	processes = threads ? 1 : plan.cpus;
	pid_t children[processes];

	pin(cpu_of(&plan, 0));
	if (!threads)
		prepare();
	for (unsigned long nr = 0; nr < processes; nr++) {
		children[nr] = fork();
		if (children[nr] < 0)
			fail("fork");
		if (children[nr])
			continue;
		barrier = barrier_keep(plan.barrier);
		if (threads)
			lead();
		work((void *)nr);
	}
	await_end(children, processes);
	if (!threads && testcase_cleanup)
		testcase_cleanup();
	exit(1);
}
