// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sees what one container's taking leaves to another one, in no container:
 *
 *	partywall-referee BARRIER ROUNDS TRIES SECONDS
 *
 * In each round the neighbour, container 1, tries a few operations; container 0 takes all
 * that it can get; the neighbour tries again. If it gets less, limits of the machine are
 * raised until it does: the one that was in its way is named. Then what was taken is
 * let go, and the neighbour tries once more. See take.h.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <termios.h>

#include "barrier.h"
#include "knobs.h"
#include "outside.h"
#include "take.h"

#define MOMENT_NS 1000000
/* As of the keeper: what the kernel gives back later is given back then. */
#define PAUSE_SECONDS 10
#define CGROUP_OF(n) CONTAINERS_CGROUP "/c" #n

struct got {
	unsigned long done;
	int error, killed;
	unsigned int processes;
	/* Its cgroup was at its limit of memory, and could have had no more; or could, by reclaim. */
	int full, reclaimed;
};

static struct barrier *b;
static unsigned int tries;
/* A limit that is not as it was, so that nothing later would be true. */
static char raised[REASON_LENGTH];

static int failed(void)
{
	return atomic_load(&b->failed);
}

static struct got asks(unsigned int who, unsigned int what, unsigned long count)
{
	struct ask *ask = &b->asks[who];
	unsigned int number = atomic_load(&ask->asked) + 1;
	struct got none = { 0 };

	ask->what = what;
	ask->count = count;
	ask->killed = 0;
	atomic_store(&ask->done, 0);
	atomic_store(&ask->error, 0);
	atomic_store(&ask->asked, number);
	while (atomic_load(&ask->answered) != number) {
		if (failed())
			return none;
		rest(0, MOMENT_NS);
	}
	return (struct got){ atomic_load(&ask->done), atomic_load(&ask->error),
			     ask->killed, ask->processes, 0, 0 };
}

static void say(const char *who, struct got got)
{
	printf(" %s=%lu,%d,%d,%u,%d,%d", who, got.done, got.error, got.killed, got.processes, got.full,
	       got.reclaimed);
}

/* How often the one that takes had an event of its memory: "max", at its limit; "oom", no more. */
static unsigned long memory_event(const char *name)
{
	char word[32];
	unsigned long times;
	FILE *events = fopen(CGROUP_OF(0) "/memory.events", "r");

	while (events && fscanf(events, "%31s %lu", word, &times) == 2)
		if (!strcmp(word, name)) {
			fclose(events);
			return times;
		}
	if (events)
		fclose(events);
	return 0;
}

/* Whether the neighbour gets what it asks for with these limits raised. */
static int helps(unsigned int from, unsigned int to)
{
	const char *left;
	struct got got;

	knobs_raise(from, to);
	got = asks(NEIGHBOUR, TRY, tries);
	left = knobs_restore(from, to);
	if (left)
		snprintf(raised, sizeof(raised), "%s could not be set to what it was", left);
	return got.done == tries;
}

/* Says which limit it is: of those that are left one half holds it. */
static void say_limit(void)
{
	unsigned int from = 0, to = knobs_count(), middle;

	if (!to || !helps(from, to))
		return;
	while (to - from > 1) {
		middle = from + (to - from) / 2;
		if (helps(from, middle))
			to = middle;
		else
			from = middle;
	}
	/* It takes two if neither half was enough; and none if it has passed meanwhile. */
	if (helps(from, to) && !helps(from, from))
		printf(" limit=%s=%s", knobs_name(from), knobs_value(from));
}

/* What the neighbour gets; if it is less, what it gets a while later. */
static struct got lastingly(void)
{
	struct got got = asks(NEIGHBOUR, TRY, tries);

	if (got.done == tries)
		return got;
	rest(PAUSE_SECONDS, 0);
	return asks(NEIGHBOUR, TRY, tries);
}

static void hold_round(unsigned int round, unsigned long seconds)
{
	struct got before, taken = { 0 }, beside = { 0 }, after = { 0 };
	unsigned long short_before, limit_before;

	for (unsigned int n = 0; n <= NEIGHBOUR; n++)
		while (!atomic_load(&b->asks[n].ready)) {
			if (failed())
				return;
			rest(0, MOMENT_NS);
		}
	printf("\nPARTYWALL caps %u", round);
	before = asks(NEIGHBOUR, TRY, tries);
	say("before", before);
	if (before.done == tries) {
		/* Nothing of it is to come back while the other one takes. */
		rest(PAUSE_SECONDS, 0);
		short_before = memory_event("oom");
		limit_before = memory_event("max");
		taken = asks(TAKER, TAKE, seconds);
		taken.full = memory_event("oom") != short_before;
		taken.reclaimed = memory_event("max") != limit_before;
		say("taken", taken);
		beside = lastingly();
		say("beside", beside);
		if (beside.done < tries)
			say_limit();
		asks(TAKER, LET_GO, 0);
		rest(PAUSE_SECONDS, 0);
		after = asks(NEIGHBOUR, TRY, tries);
		say("after", after);
	}
	printf("\n");
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	if (*raised)
		barrier_fail(b, raised);
	/* Neither answers any more. */
	for (unsigned int n = 0; n <= NEIGHBOUR; n++) {
		b->asks[n].what = END;
		atomic_fetch_add(&b->asks[n].asked, 1);
	}
}

static void must_put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	close(fd);
}

/* One has far less than the machine has, so that it can't use that up by what it pays for. */
static void limit_memory(void)
{
	unsigned long kilobytes;
	char value[32];
	FILE *info = fopen("/proc/meminfo", "r");

	if (!info || fscanf(info, "MemTotal: %lu", &kilobytes) != 1)
		fail("/proc/meminfo");
	fclose(info);
	snprintf(value, sizeof(value), "%lu", kilobytes * 1024 / 5 * 2);
	must_put(CGROUP_OF(0) "/memory.max", value);
	must_put(CGROUP_OF(1) "/memory.max", value);
}

int main(int argc, char **argv)
{
	unsigned int rounds, round;

	errno = EINVAL;
	if (argc != 5)
		fail("referee");
	rounds = number(argv[2]);
	tries = number(argv[3]);
	knobs_find();
	for (round = 0; round < rounds; round++) {
		b = barrier_map(argv[1], round);
		if (!b)
			fail("mmap of the barrier");
		if (!round) {
			while (!atomic_load(&b->settled.open))
				rest(0, MOMENT_NS);
			limit_memory();
			knobs_find_limits(NEIGHBOUR);
		}
		hold_round(round, number(argv[4]));
		/* The round is over when both have left it. */
		while (!atomic_load(&b->ready.open))
			rest(0, MOMENT_NS);
		munmap(b, BARRIER_PAGE);
	}
	for (;;)
		pause();
}
