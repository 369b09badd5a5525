// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs one program after the other in a container, as its first process:
 *
 *	partywall-rounds PROGRAM VARIANT WARMUP WINDOW FRESH STEP [PROGRAM ...]
 *
 * Each round has a page of the barrier's file. All containers begin a round
 * together; one that fails in any of them ends in all, and its reason is said.
 * That a round is over is said whatever became of it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "cgroups.h"
#include "clean.h"
#include "partywall.h"
#include "spread.h"

#define WORDS 6
/*
 * What the kernel does later for those that are gone is done then: callbacks of
 * RCU, work items, the end of namespaces. Nobody runs, so that it costs little.
 */
#define PAUSE_SECONDS 1

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
	setenv("PW_STEP", words[5], 1);
	execl(words[0], words[0], NULL);
	fail(words[0]);
}

/* Seconds that a round may take, by the guest's clock, which runs on while all sleep. */
static unsigned int patience(void)
{
	const char *value = getenv("PW_PATIENCE");
	unsigned long seconds = value ? strtoul(value, NULL, 10) : 0;

	errno = EINVAL;
	if (!seconds)
		fail("PW_PATIENCE");
	return seconds;
}

/* What is left until a time, or nothing. */
static struct timespec until(const struct timespec *end)
{
	struct timespec now, left;

	clock_gettime(CLOCK_MONOTONIC, &now);
	left.tv_sec = end->tv_sec - now.tv_sec;
	left.tv_nsec = end->tv_nsec - now.tv_nsec;
	if (left.tv_nsec < 0) {
		left.tv_sec--;
		left.tv_nsec += 1000000000;
	}
	if (left.tv_sec < 0)
		memset(&left, 0, sizeof(left));
	return left;
}

/* How the program ended; -1 if it has not in time. */
static int ended(pid_t pid)
{
	struct timespec end, left;
	sigset_t child;
	int status;
	pid_t gone;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += patience();
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		/* Orphans of the program are ours as well, and may be many. */
		while ((gone = waitpid(-1, &status, WNOHANG)) > 0)
			if (gone == pid)
				return status;
		left = until(&end);
		if (sigtimedwait(&child, NULL, &left) < 0 && errno == EAGAIN)
			return -1;
	}
}

#define MOST_IN_ROOT 64

/* What is in / before the first round: the image's, and where things are mounted. */
static char *of_the_image[MOST_IN_ROOT];

static int is_of_the_image(const char *name)
{
	for (char **known = of_the_image; *known; known++)
		if (!strcmp(*known, name))
			return 1;
	return 0;
}

static void know_the_image(void)
{
	DIR *root = opendir("/");
	struct dirent *entry;
	size_t count = 0;

	if (!root)
		fail("/");
	/* And what readdir() says of the directory itself, and the one above. */
	while ((entry = readdir(root))) {
		of_the_image[count] = strdup(entry->d_name);
		errno = E2BIG;
		if (!of_the_image[count] || ++count == MOST_IN_ROOT)
			fail("/");
	}
	closedir(root);
}

/* What was made beside the image's directories. */
static void drop_in_root(void)
{
	DIR *root = opendir("/");
	struct stat top, st;
	struct dirent *entry;

	if (!root || fstat(dirfd(root), &top))
		fail("/");
	while ((entry = readdir(root))) {
		char path[2 + sizeof(entry->d_name)];

		snprintf(path, sizeof(path), "/%s", entry->d_name);
		if (is_of_the_image(entry->d_name) || lstat(path, &st) || st.st_dev != top.st_dev)
			continue;
		clean_directory(path);
		(void)!remove(path);
	}
	closedir(root);
}

/* What is below hands on what the container's own cgroup does. */
static void keep_controllers(void)
{
	FILE *list = fopen(CGROUPS "/cgroup.subtree_control", "r");
	char word[32] = "-";

	if (!list)
		fail(CGROUPS "/cgroup.subtree_control");
	while (fscanf(list, "%30s", word + 1) == 1)
		cgroups_must_put(CGROUPS, "cgroup.subtree_control", word);
	fclose(list);
}

static int drop_cgroup(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
	(void)st;
	if (walk->level && flag == FTW_DP)
		(void)!rmdir(path);
	return 0;
}

static void drop_empty_cgroups(void)
{
	nftw(CGROUPS, drop_cgroup, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Those below the container's own, in one of which its first process may be. */
static int has_cgroups(void)
{
	struct stat top;

	/* A directory counts those in it, and two. */
	return !stat(CGROUPS, &top) && top.st_nlink > 2;
}

static void drop_cgroups(void)
{
	if (!has_cgroups())
		return;
	switch (fork()) {
	case -1:
		fail("fork");
	case 0:
		/* Docker mounts them read-only. Who made some may change mounts of its own. */
		cgroups_make_writable();
		/* All but those with a process in them: one that hands controllers on has them kept. */
		drop_empty_cgroups();
		keep_controllers();
		cgroups_must_put(CGROUPS, "cgroup.procs", "1");
		cgroups_must_put(CGROUPS, "cgroup.procs", "0");
		drop_empty_cgroups();
		_exit(0);
	}
	wait(NULL);
}

static void clear(void)
{
	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	drop_cgroups();
	clean_places();
	drop_in_root();
	clean_ipc();
}

/* Has the kernel do what is left to do of before, while all wait. */
static void settle(void)
{
	const struct timespec moment = { .tv_sec = PAUSE_SECONDS };

	/* Of all file systems: nothing is left for a journal's and writeback's own times. */
	sync();
	nanosleep(&moment, NULL);
}

/* On a line of the guest's on which only this is said. */
static void report(struct barrier *b, unsigned int round)
{
	/* A program may have left half a line. */
	if (b->failed)
		dprintf(STDOUT_FILENO, "\nPARTYWALL round %u failed: %s\n", round,
			barrier_why(b));
	dprintf(STDOUT_FILENO, "\nPARTYWALL round %u over\n", round);
	tcdrain(STDOUT_FILENO);
}

static void run_round(const struct plan *plan, struct barrier *b, char **words, unsigned int round)
{
	char why[96];
	pid_t pid;
	int status;

	/* Nobody's window can open before all containers have come to this. */
	if (!plan->first_cpu && !plan->grow)
		partywall_next();
	if (has_cgroups())
		barrier_fail(b, "cgroups of an operation before it are left");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid)
		execute(words, round);
	status = ended(pid);
	if (status) {
		if (status < 0)
			snprintf(why, sizeof(why), "not over in %u s of the guest's time; "
				 "more with --timeout", patience());
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
	know_the_image();
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	for (round = 0; round < rounds; round++) {
		b = barrier_map(plan.barrier, round);
		if (!b)
			fail("mmap of the barrier");
		/* Before the first one, too: what starts containers has an end as well. */
		gate_wait(b, &b->here, containers);
		if (!plan.first_cpu)
			settle();
		gate_wait(b, &b->settled, containers);
		run_round(&plan, b, argv + 1 + round * WORDS, round);
		gate_wait(b, &b->ready, containers);
		if (!plan.first_cpu)
			report(b, round);
		if (plan.grow)
			gate_wait(b, &b->looked, containers + 1);
		munmap(b, BARRIER_PAGE);
	}
	for (;;)
		pause();
}
