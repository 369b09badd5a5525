// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "opened.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "partywall.h"

static const char *program;
static pid_t pid;
/* The last line that the program began, for when it fails. */
static char line[4096];
static size_t length;

static void give_up(const char *what) __attribute__((noreturn));

static void give_up(const char *what)
{
	dprintf(STDERR_FILENO, "partywall: workload: %s %s%s%.200s\n", program, what,
		*line ? ": " : "", line);
	exit(1);
}

static const char *told(const char *name)
{
	const char *value = getenv(name);

	if (!value || !*value) {
		errno = EINVAL;
		fail(name);
	}
	return value;
}

static void rest(unsigned long milliseconds)
{
	struct timespec t = { milliseconds / 1000, milliseconds % 1000 * 1000000L };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/*
 * Whoever is woken by the program runs at once, before it goes on.  What it may for that
 * (RLIMIT_RTPRIO) and what it is the program has not.
 */
static void come_first(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first))
		fail("sched_setscheduler (CONFIG_RT_GROUP_SCHED?)");
}

/* A session of its own, so that it can be stopped with all that it starts. */
static void begin(char **command, int output, const sigset_t *usual)
{
	const struct rlimit none = { 0, 0 };

	come_first();
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid)
		return;
	if (setrlimit(RLIMIT_RTPRIO, &none))
		fail("setrlimit");
	if (setsid() < 0 || (usual && sigprocmask(SIG_SETMASK, usual, NULL)))
		fail("setsid");
	if (output >= 0 && (dup2(output, 1) < 0 || dup2(output, 2) < 0))
		fail("dup2");
	execvp(command[0], command);
	fail(command[0]);
}

static int is_over(void)
{
	int status;

	return waitpid(pid, &status, WNOHANG) == pid;
}

/* All containers are as far, and the window opens. */
static void open_together(const struct plan *plan)
{
	if (kill(-pid, SIGSTOP))
		give_up("ended before its window opened");
	barrier_wait(plan->barrier, plan->procs);
	partywall_start();
	kill(-pid, SIGCONT);
}

static void by_time(const struct plan *plan, char **command)
{
	unsigned long after = strtoul(told("PW_AFTER"), NULL, 10);
	unsigned long lasts = strtoul(told("PW_LASTS"), NULL, 10);

	begin(command, -1, NULL);
	rest(after);
	if (is_over())
		give_up("ended before its window opened");
	barrier_wait(plan->barrier, plan->procs);
	partywall_start();
	rest(lasts);
	if (is_over())
		give_up("ended before its window did");
	partywall_stop();
}

/* Whether a line that has the text has come; the rest of what came is kept. */
static int has_come(int from, const char *text)
{
	char next;
	ssize_t got;

	/* By the byte: what comes behind that line is the window's. */
	while ((got = read(from, &next, 1)) > 0 || (got < 0 && errno == EINTR)) {
		if (got < 0)
			continue;
		if (next == '\r')
			continue;
		if (next == '\n') {
			int found = strstr(line, text) != NULL;

			length = 0;
			if (found)
				return 1;
			continue;
		}
		if (length < sizeof(line) - 1)
			line[length++] = next;
		line[length] = '\0';
	}
	return 0;
}

static void by_lines(const struct plan *plan, char **command)
{
	const char *from = told("PW_FROM"), *to = told("PW_TO");
	char rest_of_it[4096];
	/* No terminal: what is written to one is handed on by another thread, some time. */
	int out[2];

	if (pipe2(out, O_CLOEXEC))
		fail("pipe2");
	begin(command, out[1], NULL);
	close(out[1]);
	if (!has_come(out[0], from))
		give_up("ended without the line that its window opens at");
	open_together(plan);
	if (!has_come(out[0], to))
		give_up("ended without the line that its window closes at");
	partywall_stop();
	while (read(out[0], rest_of_it, sizeof(rest_of_it)) > 0)
		;
}

/* Waits for a signal of the program's. */
static void await(const sigset_t *any, int wanted, const char *otherwise)
{
	for (;;) {
		int got = sigwaitinfo(any, NULL);

		if (got == wanted)
			return;
		if (got == SIGCHLD && is_over())
			give_up(otherwise);
	}
}

static void by_signals(const struct plan *plan, char **command)
{
	sigset_t any, usual;

	sigemptyset(&any);
	sigaddset(&any, SIGUSR1);
	sigaddset(&any, SIGUSR2);
	sigaddset(&any, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &any, &usual))
		fail("sigprocmask");
	begin(command, -1, &usual);
	await(&any, SIGUSR1, "ended before its SIGUSR1");
	open_together(plan);
	await(&any, SIGUSR2, "ended before its SIGUSR2");
	partywall_stop();
}

void opened(const struct plan *plan, const char *how, char **command)
{
	program = command[0];
	if (!strcmp(how, "time"))
		by_time(plan, command);
	else if (!strcmp(how, "lines"))
		by_lines(plan, command);
	else
		by_signals(plan, command);
	for (;;)
		pause();
}
