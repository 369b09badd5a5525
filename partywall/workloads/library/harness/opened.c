// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "opened.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "partywall.h"

static const char *program;
static unsigned int container;
static pid_t pid;
static int over, status;
/* The line that the program is at, and the last one that it ended, for when it fails. */
static char line[4096], last[4096];
static size_t length;
/* Seconds after which what did not come will not; 0 if nobody says. */
static unsigned int allowed;
static volatile sig_atomic_t late;

static void give_up(const char *what) __attribute__((noreturn));

static void give_up(const char *what)
{
	char how[32] = "";

	if (over && WIFEXITED(status) && WEXITSTATUS(status))
		snprintf(how, sizeof(how), ", status %d", WEXITSTATUS(status));
	else if (over && WIFSIGNALED(status))
		snprintf(how, sizeof(how), ", signal %d", WTERMSIG(status));
	dprintf(STDERR_FILENO, "partywall: workload: container %u: %s%s%s%s%.200s\n", container,
		program, what, how, *last ? ": " : "", last);
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
 * Whom the program wakes runs before it goes on.  Who is of the usual class may come later,
 * however short its slice: then the program has done some of its window before that opens.
 */
static void come_first(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first))
		fail("sched_setscheduler (CONFIG_RT_GROUP_SCHED, or a limit of rtprio?)");
}

/* What the launcher may for that, the program may not. */
static void be_usual(void)
{
	const struct rlimit none = { 0, 0 };
	struct rlimit limit;

	if (getrlimit(RLIMIT_RTPRIO, &limit))
		fail("getrlimit");
	/* More than the launcher needs is what a service asked for. */
	if (limit.rlim_max == 1 && setrlimit(RLIMIT_RTPRIO, &none))
		fail("setrlimit");
}

static void is_late(int signal)
{
	(void)signal;
	late = 1;
}

/*
 * Who sleeps has the guest's clock run ahead, and init ends the guest after so many seconds
 * of it.  A little before, what is waited for can be told.
 */
static void wait_no_longer(void)
{
	/* Who was just about to read is interrupted a second later. */
	struct itimerval some = { .it_interval.tv_sec = 1 };
	const struct sigaction action = { .sa_handler = is_late };
	const char *patience = getenv("PW_ENDED_AFTER");

	if (!patience)
		return;
	allowed = strtoul(patience, NULL, 10) * 9 / 10;
	some.it_value.tv_sec = allowed;
	if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &some, NULL))
		fail("setitimer");
}

static void wait_for_ever(void)
{
	const struct itimerval none = { .it_value.tv_sec = 0 };

	if (setitimer(ITIMER_REAL, &none, NULL))
		fail("setitimer");
}

/* A process group of its own, so that it can be stopped with what it starts in that. */
static void begin(char **command, int output, const sigset_t *usual)
{
	come_first();
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid)
		return;
	be_usual();
	/* Who prints its environment prints no line of these. */
	unsetenv("PW_FROM");
	unsetenv("PW_TO");
	unsetenv("PW_ENDED_AFTER");
	if (setsid() < 0 || (usual && sigprocmask(SIG_SETMASK, usual, NULL)))
		fail("setsid");
	if (output >= 0 && (dup2(output, 1) < 0 || dup2(output, 2) < 0))
		fail("dup2");
	execvp(command[0], command);
	fail(command[0]);
}

static int is_over(void)
{
	if (!over && waitpid(pid, &status, WNOHANG) == pid)
		over = 1;
	return over;
}

/* All containers are as far, and the window opens. */
static void open_together(const struct plan *plan)
{
	if (kill(-pid, SIGSTOP))
		give_up(is_over() ? " ended before its window opened" : " can't be stopped");
	barrier_wait(plan->barrier, plan->procs);
	/* It goes on when the launcher waits for it. */
	kill(-pid, SIGCONT);
	partywall_start();
}

static void by_time(const struct plan *plan, char **command)
{
	unsigned long after = strtoul(told("PW_AFTER"), NULL, 10);
	unsigned long lasts = strtoul(told("PW_LASTS"), NULL, 10);

	begin(command, -1, NULL);
	rest(after);
	if (is_over())
		give_up(" ended before its window opened");
	barrier_wait(plan->barrier, plan->procs);
	partywall_start();
	rest(lasts);
	if (is_over())
		give_up(" ended before its window did");
	partywall_stop();
}

/* What was read and not looked at yet. */
static char buffer[4096];
static size_t begun, filled;

/* Reads more of what the program prints; 0 if there will be none. */
static int more(int from)
{
	for (;;) {
		struct pollfd any = { .fd = from, .events = POLLIN };
		ssize_t got;

		/* What it started may keep its output open. */
		if (late || (is_over() && poll(&any, 1, 0) <= 0))
			return 0;
		got = read(from, buffer, sizeof(buffer));
		if (got < 0 && errno == EINTR)
			continue;
		begun = 0;
		filled = got > 0 ? got : 0;
		return got > 0;
	}
}

/* Whether the line that has ended has the text. */
static int ends_with(const char *text)
{
	if (!length)
		return 0;
	line[length] = '\0';
	length = 0;
	memcpy(last, line, sizeof(last));
	return strstr(line, text) != NULL;
}

/* Whether a line that has the text has come. */
static int has_come(int from, const char *text)
{
	for (;;) {
		while (begun < filled) {
			char next = buffer[begun++];

			if (next == '\n') {
				if (ends_with(text))
					return 1;
			} else if (next != '\r' && length < sizeof(line) - 1) {
				line[length++] = next;
			}
		}
		if (!more(from))
			return ends_with(text);
	}
}

static void missed(const char *which)
{
	char what[96];

	if (late)
		snprintf(what, sizeof(what), " printed no line in %u s that its window %s at",
			 allowed, which);
	else
		snprintf(what, sizeof(what), " %s without the line that its window %s at",
			 is_over() ? "ended" : "closed its output", which);
	give_up(what);
}

static void child_ended(int signal)
{
	(void)signal;
}

static void by_lines(const struct plan *plan, char **command)
{
	/* Who reads is interrupted. */
	const struct sigaction ended = { .sa_handler = child_ended, .sa_flags = SA_NOCLDSTOP };
	const char *from = told("PW_FROM"), *to = told("PW_TO");
	/* No terminal: what is written to one is handed on by another thread, some time. */
	int out[2];

	if (sigaction(SIGCHLD, &ended, NULL) || pipe2(out, O_CLOEXEC))
		fail("pipe2");
	wait_no_longer();
	begin(command, out[1], NULL);
	close(out[1]);
	if (!has_come(out[0], from))
		missed("opens");
	open_together(plan);
	if (!has_come(out[0], to))
		missed("closes");
	partywall_stop();
	wait_for_ever();
	/* What it prints from here on keeps it from nothing. */
	while (more(out[0]))
		;
}

/* Waits for a signal of the program's. */
static void await(const sigset_t *any, int wanted, const char *name)
{
	char what[64];

	for (;;) {
		int got = sigwaitinfo(any, NULL);

		if (got == wanted)
			return;
		if (got == SIGCHLD && is_over()) {
			snprintf(what, sizeof(what), " ended before its %s", name);
			give_up(what);
		}
		if (late) {
			snprintf(what, sizeof(what), " sent no %s in %u s", name, allowed);
			give_up(what);
		}
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
	wait_no_longer();
	begin(command, -1, &usual);
	await(&any, SIGUSR1, "SIGUSR1");
	open_together(plan);
	await(&any, SIGUSR2, "SIGUSR2");
	partywall_stop();
	wait_for_ever();
}

void opened(const struct plan *plan, const char *how, char **command)
{
	program = command[0];
	container = plan->first_cpu / plan->cpus;
	if (!strcmp(how, "time"))
		by_time(plan, command);
	else if (!strcmp(how, "lines"))
		by_lines(plan, command);
	else
		by_signals(plan, command);
	for (;;)
		pause();
}
