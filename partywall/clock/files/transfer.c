// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How long does a processor wait for a line that another one has written?
 *
 * Two threads, each on a CPU of its own, take turns. Who has the turn changes each of
 * LINES lines, one after the other, with locked instructions. Which line is next stands
 * in the line itself, in what the instruction returns: so none can begin before the one
 * before it has its line, and each costs what it takes to fetch one line that is
 * modified elsewhere. Nobody spins on these lines meanwhile. They are far apart and
 * come in no order, so that no prefetcher brings them; and so few that they fit into
 * any first cache.
 *
 * Reads "A B" from its input and prints "A B NS NS" for each: the median over rounds
 * of the time for one line, as A waits for those of B, and B for those of A.
 * "A A" is what the same costs with lines that are there already.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINES 64
#define APART 256
#define WARM 50
#define ROUNDS 1001

/* The next line's number below, how often it was visited above. */
#define VISIT (1ull << 32)

static struct {
	_Alignas(APART) atomic_ullong word;
} lines[LINES];
static _Alignas(APART) atomic_uint turn;

static double took[2][ROUNDS];
static int cpus[2];
static int failed[2];

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static double visit(void)
{
	unsigned int begun_at = 0, at = begun_at;
	double begun = now_ns();

	for (int i = 0; i < LINES; i++)
		at = (uint32_t)atomic_fetch_add(&lines[at].word, VISIT);
	/* All in a ring: where it began, which nobody but the last line can tell. */
	if (at != begun_at)
		abort();
	return (now_ns() - begun) / LINES;
}

static int stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? errno : 0;
}

static void *one(void *argument)
{
	uintptr_t me = (uintptr_t)argument;

	failed[me] = stay_on(cpus[me]);
	for (unsigned int round = 0; round < WARM + ROUNDS; round++) {
		while (atomic_load_explicit(&turn, memory_order_acquire) != 2 * round + me)
			__builtin_ia32_pause();

		double took_ns = visit();

		if (round >= WARM)
			took[me][round - WARM] = took_ns;
		atomic_store_explicit(&turn, 2 * round + me + 1, memory_order_release);
	}
	return NULL;
}

static int by_size(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), by_size);
	return values[ROUNDS / 2];
}

static int alone(int cpu)
{
	int error = stay_on(cpu);

	for (int round = 0; round < WARM + ROUNDS; round++) {
		double took_ns = visit();

		if (round >= WARM)
			took[0][round - WARM] = took[1][round - WARM] = took_ns;
	}
	return error;
}

static int together(void)
{
	pthread_t threads[2];
	int error;

	atomic_store(&turn, 0);
	for (uintptr_t i = 0; i < 2; i++) {
		error = pthread_create(&threads[i], NULL, one, (void *)i);
		if (error) {
			fprintf(stderr, "a thread: %s\n", strerror(error));
			exit(1);
		}
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return failed[0] ? failed[0] : failed[1];
}

/* A ring of all lines in no order (S. Sattolo's shuffle). */
static void link_lines(void)
{
	unsigned int next[LINES], state = 1;

	for (unsigned int i = 0; i < LINES; i++)
		next[i] = i;
	for (unsigned int i = LINES - 1; i; i--) {
		state = state * 1664525u + 1013904223u;

		unsigned int j = (state >> 8) % i, kept = next[i];

		next[i] = next[j];
		next[j] = kept;
	}
	for (unsigned int i = 0; i < LINES; i++)
		atomic_store(&lines[i].word, next[i]);
}

int main(void)
{
	link_lines();
	while (scanf("%d %d", &cpus[0], &cpus[1]) == 2) {
		int error = cpus[0] == cpus[1] ? alone(cpus[0]) : together();

		if (error) {
			fprintf(stderr, "CPUs %d and %d: %s\n", cpus[0], cpus[1], strerror(error));
			return 1;
		}
		printf("%d %d %.2f %.2f\n", cpus[0], cpus[1], median(took[0]), median(took[1]));
		fflush(stdout);
	}
	return 0;
}
