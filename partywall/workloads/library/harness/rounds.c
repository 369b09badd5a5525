// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs one program after the other in a container, as its first process:
 *
 *	partywall-rounds PROGRAM VARIANT WARMUP WINDOW FRESH [PROGRAM ...]
 *
 * Each round has a page of the barrier's file. All containers begin a round
 * together; one that fails in any of them ends in all, and its reason is said.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "partywall.h"
#include "spread.h"

#define WORDS 5
/* By the guest's clock, which runs on while all sleep. */
#define PATIENCE_SECONDS 20
/* What the kernel does a moment later for those that are gone is done then. */
#define PAUSE_MS 60

static const char *const places[] = { "/tmp", "/volume", "/dev/shm", "/dev/mqueue" };

static int drop(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
	(void)st;
	(void)flag;
	/* What can't be removed is in nobody's way. */
	if (walk->level)
		(void)!remove(path);
	return 0;
}

static void execute(char **words, unsigned int round)
{
	char number[16];
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	snprintf(number, sizeof(number), "%u", round);
	setenv("PW_ROUND", number, 1);
	setenv("PW_VARIANT", words[1], 1);
	setenv("PW_WARMUP", words[2], 1);
	setenv("PW_WINDOW", words[3], 1);
	if (!strcmp(words[4], "1"))
		setenv("PW_FRESH_CPUS", "1", 1);
	execl(words[0], words[0], NULL);
	fail(words[0]);
}

/* How the program ended; -1 if it has not in time. */
static int ended(pid_t pid)
{
	const struct timespec patience = { .tv_sec = PATIENCE_SECONDS };
	sigset_t child;
	int status;
	pid_t gone;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		/* Orphans of the program are ours as well. */
		while ((gone = waitpid(-1, &status, WNOHANG)) > 0)
			if (gone == pid)
				return status;
		if (sigtimedwait(&child, NULL, &patience) < 0 && errno == EAGAIN)
			return -1;
	}
}

static void clear(void)
{
	const struct timespec moment = { .tv_nsec = PAUSE_MS * 1000000L };

	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	for (size_t n = 0; n < sizeof(places) / sizeof(*places); n++)
		nftw(places[n], drop, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	nanosleep(&moment, NULL);
}

static void run_round(const struct plan *plan, struct barrier *b, char **words, unsigned int round)
{
	char why[64];
	pid_t pid;
	int status;

	/* Nobody's window can open before all containers have come to this. */
	if (!plan->first_cpu)
		partywall_next();
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid)
		execute(words, round);
	status = ended(pid);
	if (status) {
		if (status < 0)
			snprintf(why, sizeof(why), "not over in %d s of the guest's time",
				 PATIENCE_SECONDS);
		else
			snprintf(why, sizeof(why), "the program ended with status %#x", status);
		barrier_fail(b, why);
	}
	clear();
}

int main(int argc, char **argv)
{
	unsigned int rounds = (argc - 1) / WORDS, containers, round;
	struct plan plan;
	struct barrier *b;
	sigset_t child;

	/* Between rounds it kills all that it can see. */
	if (getpid() != 1) {
		errno = EPERM;
		fail("not the first process of a container");
	}
	setenv("PW_VARIANT", "", 1);
	setenv("PW_WARMUP", "0", 1);
	setenv("PW_WINDOW", "0", 1);
	plan_read(&plan);
	containers = plan.procs / plan.cpus;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	for (round = 0; round < rounds; round++) {
		b = barrier_map(plan.barrier, round);
		if (!b)
			fail("mmap of the barrier");
		run_round(&plan, b, argv + 1 + round * WORDS, round);
		gate_wait(b, &b->ready, containers);
		if (!plan.first_cpu && b->failed)
			dprintf(STDOUT_FILENO, "PARTYWALL round %u failed: %s\n", round, b->why);
		munmap(b, BARRIER_PAGE);
	}
	for (;;)
		pause();
}
