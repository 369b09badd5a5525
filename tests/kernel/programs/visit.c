// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What it costs a signal to make a level exact: a user has stock on every
 * processor, and so have users of namespaces that it made; then it runs into
 * RLIMIT_SIGPENDING, and once more when the level is exact already. Both are
 * refused; the first has visited every processor with interrupts off.
 *
 *	visit NAMESPACES ROUNDS
 *
 * Run by root. Prints "visit CPUS NAMESPACES FIRST SECOND", in ns, for the
 * round in which FIRST is least: what interrupts come between is in the others.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UID 1000
#define PLENTY 1000000

static void die(const char *what)
{
	perror(what);
	exit(3);
}

static void limit(rlim_t soft)
{
	struct rlimit limit = { .rlim_cur = soft, .rlim_max = PLENTY };

	if (setrlimit(RLIMIT_SIGPENDING, &limit))
		die("setrlimit");
}

static int queue(void)
{
	return sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = 1 });
}

static void take(void)
{
	struct timespec now = { 0 };
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	if (sigtimedwait(&set, &info, &now) != SIGRTMIN)
		die("sigtimedwait");
}

static void move(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

/* Each processor charges a batch and has what is not pending. */
static void leave_stock(int cpus)
{
	for (int cpu = 0; cpu < cpus; cpu++) {
		move(cpu);
		if (queue())
			die("sigqueue");
		take();
	}
	move(0);
}

static long refused(void)
{
	struct timespec from, to;
	int error;

	clock_gettime(CLOCK_MONOTONIC, &from);
	error = queue() ? errno : 0;
	clock_gettime(CLOCK_MONOTONIC, &to);
	if (error != EAGAIN)
		die("not refused");
	return (to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec;
}

/* A process in a namespace of its own, which is below us. It lives as we do. */
static void neighbour(int cpus)
{
	int ready[2], status;
	char byte;
	pid_t pid;

	if (pipe(ready))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWUSER))
			die("unshare");
		leave_stock(cpus);
		if (write(ready[1], "", 1) != 1)
			die("write");
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1) {
		waitpid(pid, &status, 0);
		exit(3);
	}
	close(ready[0]);
}

int main(int argc, char **argv)
{
	int namespaces, rounds, cpus = sysconf(_SC_NPROCESSORS_ONLN);
	long first, second, least = 0, after = 0;
	sigset_t set;

	if (argc != 3)
		return 2;
	namespaces = atoi(argv[1]);
	rounds = atoi(argv[2]);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	limit(PLENTY);
	if (setresgid(UID, UID, UID) || setresuid(UID, UID, UID))
		die("setuid");
	for (int n = 0; n < namespaces; n++)
		neighbour(cpus);
	for (int round = 0; round < rounds; round++) {
		/* What was exact is so no longer. Neighbours keep what they have left. */
		limit(PLENTY);
		sleep(3);
		leave_stock(cpus);
		if (queue())
			die("sigqueue");
		limit(1);
		first = refused();
		second = refused();
		limit(PLENTY);
		take();
		if (!round || first < least) {
			least = first;
			after = second;
		}
		/* Theirs was given back: only the first round is of all of it. */
		if (namespaces)
			break;
	}
	printf("visit %d %d %ld %ld\n", cpus, namespaces, least, after);
	return 0;
}
