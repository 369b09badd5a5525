// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Threads of one process, one on each CPU: what they share is the process.
 * The harness makes a process for each CPU; here that of the container's first
 * makes threads in place of the others, which leave their part to them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "harness.h"
#include "partywall.h"
#include "spread.h"

#define PAGE 4096
#define PAGES 1024
#define SLOTS 256

static char *region[SLOTS];
static int maps[SLOTS], file;

/* A page of the thread's own mapping is written to for the first time. */
static void fault(const struct run *run, unsigned long n)
{
	region[run->slot][n % PAGES * PAGE] = 1;
}

/* The same page each time, which is given back. */
static void dontneed(const struct run *run, unsigned long n)
{
	(void)n;
	region[run->slot][0] = 1;
	if (madvise(region[run->slot], PAGE, MADV_DONTNEED))
		fail("madvise");
}

static void read_file(const struct run *run, unsigned long n)
{
	char byte;

	(void)run;
	(void)n;
	if (pread(file, &byte, 1, 0) != 1)
		fail("pread");
}

static void read_maps(const struct run *run, unsigned long n)
{
	char text[PAGE];

	(void)n;
	if (pread(maps[run->slot], text, sizeof(text), 0) <= 0)
		fail("reading /proc/self/maps");
}

/* The CPU goes idle and comes back. */
static void nap(const struct run *run, unsigned long n)
{
	struct timespec soon = { .tv_nsec = 1000 };

	(void)run;
	(void)n;
	if (nanosleep(&soon, NULL))
		fail("nanosleep");
}

static void usage(const struct run *run, unsigned long n)
{
	struct rusage used;

	(void)run;
	(void)n;
	if (getrusage(RUSAGE_SELF, &used))
		fail("getrusage");
}

static const struct {
	const char *name;
	void (*operation)(const struct run *run, unsigned long n);
} variants[] = {
	{ "fault", fault }, { "dontneed", dontneed }, { "pread", read_file },
	{ "maps", read_maps }, { "nap", nap }, { "getrusage", usage },
};

static void (*chosen)(const struct run *run, unsigned long n);

static void *thread(void *told)
{
	struct plan *plan = told;
	unsigned long n = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(plan->first_cpu + plan->run.slot, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
	while (n < plan->warmup)
		chosen(&plan->run, n++);
	barrier_wait(plan->barrier, plan->procs);

	partywall_start();
	while (n < plan->warmup + plan->window)
		chosen(&plan->run, n++);
	partywall_stop();
	for (;;)
		pause();
	return told;
}

static void start_threads(void)
{
	static struct plan plans[SLOTS];
	unsigned int n;
	pthread_t id;

	plan_read(&plans[0]);
	for (n = 1; n < plans[0].cpus; n++) {
		plans[n] = plans[0];
		plans[n].run.slot = n;
		errno = pthread_create(&id, NULL, thread, &plans[n]);
		if (errno)
			fail("pthread_create");
	}
}

static void prepare(const struct run *run)
{
	unsigned int n;
	char *place;

	for (n = 0; n < sizeof(variants) / sizeof(*variants); n++)
		if (!strcmp(run->variant, variants[n].name))
			chosen = variants[n].operation;
	if (!chosen || run->siblings > SLOTS)
		fail("no such variant");
	while (run->slot)
		pause();
	file = open("threads-file", O_RDWR | O_CREAT, 0600);
	if (file < 0 || write(file, "x", 1) != 1)
		fail("threads-file");
	for (n = 0; n < run->siblings; n++) {
		/* A page that no one may touch keeps neighbours from becoming one mapping. */
		place = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (place == MAP_FAILED || mprotect(place, PAGE, PROT_NONE))
			fail("mmap");
		region[n] = place + PAGE;
		if (madvise(region[n], PAGES * PAGE, MADV_NOHUGEPAGE))
			fail("madvise");
		maps[n] = open("/proc/self/maps", O_RDONLY);
		if (maps[n] < 0)
			fail("/proc/self/maps");
	}
	start_threads();
}

static void operation(const struct run *run, unsigned long n)
{
	chosen(run, n);
}

const struct workload workload = { .prepare = prepare, .operation = operation };
