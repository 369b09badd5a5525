// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Makes user namespaces, charges in them, and drops them.
 *
 *	namespaces COUNT AT_ONCE
 *
 * Each has a process that queues signals, takes some of them, forks, and goes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int one(int number)
{
	union sigval value = { 0 };
	sigset_t set;
	siginfo_t info;
	int tries, n;

	/* A namespace dies a while after its last process: wait for room. */
	for (tries = 0; unshare(CLONE_NEWUSER); tries++) {
		if (errno != ENOSPC || tries == 2000)
			return 1;
		usleep(5000);
	}
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (n = 0; n < 5; n++)
		if (sigqueue(getpid(), SIGRTMIN, value))
			return 2;
	for (n = 0; n < number % 6; n++)
		sigwaitinfo(&set, &info);
	if (number % 3 == 0) {
		pid_t pid = fork();

		if (pid < 0)
			return 3;
		if (!pid)
			_exit(0);
		if (number % 2)
			waitpid(pid, NULL, 0);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int count, at_once, begun = 0, ended = 0, failed = 0, status;

	if (argc != 3)
		return 2;
	count = atoi(argv[1]);
	at_once = atoi(argv[2]);
	while (ended < count) {
		if (begun < count && begun - ended < at_once) {
			pid_t pid = fork();

			if (pid < 0)
				return 3;
			if (!pid)
				_exit(one(begun));
			begun++;
			continue;
		}
		if (wait(&status) < 0)
			break;
		ended++;
		failed += status != 0;
	}
	printf("%d namespaces, %d failed\n", ended, failed);
	return failed != 0;
}
