// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Has memory looked at, in no container:
 *
 *	keeper BARRIER ROUNDS PROCESSES reclaim|keep CONTAINER...
 *
 * The recorder holds the guest at each look, until the host has seen what it wants.
 * Of a round these are LOOKS while its processes are there, one when they are gone,
 * with what they left in files and queues, and one when all has been reclaimed that can
 * be. The last looks are when the containers of these numbers are gone too, and when
 * their file systems are unmounted. With "keep" nothing is reclaimed before that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "harness.h"
#include "outside.h"
#include "partywall.h"
#include "spread.h"

#define MOMENT_NS 5000000
#define RECLAIMS 4
/* At least two, of 100 Hz. */
#define TICK_NS 20000000

/* Says that containers end because they are to. */
#define ENDED "/run/ended"

/* What was used lately is taken at a later time only. */
static void reclaim(void)
{
	for (int n = 0; n < RECLAIMS; n++) {
		put("/proc/sys/vm/drop_caches", "3");
		rest(1, 0);
	}
}

/* Says which look it is, and is held. */
static void look(const char *which)
{
	sync();
	rest(SETTLE_SECONDS, 0);
	dprintf(STDOUT_FILENO, "\nPARTYWALL look %s\n", which);
	tcdrain(STDOUT_FILENO);
	partywall_next();
	partywall_start();
	partywall_stop();
	/* Ticks stand still while all are idle: what is made now is to have a later one. */
	rest(0, TICK_NS);
}

/* Waits until all came to a gate, or the round has failed. */
static int all_came(struct barrier *b, struct gate *gate, unsigned int parties)
{
	while (atomic_load(&gate->came) < parties) {
		if (atomic_load(&b->failed) && gate >= &b->start && gate < &b->ready)
			return 0;
		rest(0, MOMENT_NS);
	}
	return 1;
}

static void keep_round(struct barrier *b, unsigned int containers, unsigned int processes,
		       int reclaims)
{
	static const char *const names[LOOKS] = { "before", "some", "more" };
	unsigned int n;

	for (n = 0; n < LOOKS && all_came(b, &b->looks[n], processes); n++) {
		look(names[n]);
		gate_wait(b, &b->looks[n], processes + 1);
	}
	/* The gate lets them go by themselves, and their first process goes on to the next one. */
	all_came(b, &b->looked, containers);
	look("gone");
	if (reclaims) {
		reclaim();
		look("reclaimed");
	}
	gate_wait(b, &b->looked, containers + 1);
}

static void end_containers(char **numbers, int count)
{
	char path[160];
	int n, fd = open(ENDED, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	if (fd < 0 || close(fd))
		fail(ENDED);
	for (n = 0; n < count; n++) {
		snprintf(path, sizeof(path), CONTAINERS_CGROUP "/c%s/cgroup.kill", numbers[n]);
		put(path, "1");
	}
	for (n = 0; n < count; n++) {
		/* Whoever started it removes its cgroup. */
		snprintf(path, sizeof(path), CONTAINERS_CGROUP "/c%s", numbers[n]);
		while (!access(path, F_OK))
			rest(0, MOMENT_NS);
	}
}

/* What a container had mounted inside is gone with it; its root is not. */
static void unmount_roots(char **numbers, int count)
{
	char path[160];
	int n;

	for (n = 0; n < count; n++) {
		snprintf(path, sizeof(path), "/containers/%s/rootfs", numbers[n]);
		if (umount2(path, MNT_DETACH))
			fail(path);
	}
}

int main(int argc, char **argv)
{
	unsigned int rounds, round;
	int reclaims;
	struct barrier *b;

	errno = EINVAL;
	if (argc < 6)
		fail("keeper");
	rounds = number(argv[2]);
	reclaims = !strcmp(argv[4], "reclaim");
	/* Whoever has a window may not change its CPU in it. */
	pin(0);
	for (round = 0; round < rounds; round++) {
		b = barrier_map(argv[1], round);
		if (!b)
			fail("mmap of the barrier");
		keep_round(b, argc - 5, number(argv[3]), reclaims);
		munmap(b, BARRIER_PAGE);
	}
	end_containers(argv + 5, argc - 5);
	look("stopped");
	unmount_roots(argv + 5, argc - 5);
	look("ended");
	if (!reclaims) {
		reclaim();
		look("reclaimed");
	}
	for (;;)
		pause();
}
