// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define BURST 4
#define TAKERS 2

/* With eight processors as many as a node of 110 pods has, each with a user of its own. */
#define USERS 14
#define FIRST_USER 1000

static struct user {
	int ask, answer;
} users[USERS];

static volatile sig_atomic_t handled;
static sigset_t calls, replies, alarms, all;
static pid_t leader;
static int status_file;

static void handler(int signo)
{
	(void)signo;
	handled++;
}

static void handle(int signo)
{
	struct sigaction action = { .sa_handler = handler };

	if (sigaction(signo, &action, NULL))
		fail("sigaction");
}

static void raise_one(void)
{
	if (raise(SIGUSR1))
		fail("raise");
}

static void burst(void)
{
	union sigval value = { 0 };
	sigset_t before;
	int n;

	sigprocmask(SIG_BLOCK, &calls, &before);
	for (n = 0; n < BURST; n++)
		if (sigqueue(leader, SIGRTMIN, value))
			fail("sigqueue");
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Waits for a signal; a thread that is woken for one may find it taken. */
static void await(const sigset_t *set, int signo)
{
	siginfo_t info;
	int got;

	do {
		got = sigwaitinfo(set, &info);
	} while (got < 0 && errno == EINTR);
	if (got != signo)
		fail("sigwaitinfo");
}

/* Takes signals to the process, whichever of the takers is chosen, and answers. */
static void *taker(void *unused)
{
	for (;;) {
		await(&calls, SIGRTMIN);
		if (syscall(SYS_tgkill, leader, leader, SIGRTMIN + 1))
			fail("tgkill");
	}
	return unused;
}

static void turn(void)
{
	union sigval value = { 0 };

	if (sigqueue(leader, SIGRTMIN, value))
		fail("sigqueue");
	await(&replies, SIGRTMIN + 1);
}

static void child(void)
{
	sig_atomic_t before = handled;
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid)
		_exit(0);
	while (handled == before) {
		sigset_t none;

		sigemptyset(&none);
		sigsuspend(&none);
	}
	if (waitpid(pid, NULL, 0) != pid)
		fail("waitpid");
}

/* The timer's interrupt sends it, and so charges no memory cgroup for it. */
static void alarm_once(void)
{
	struct itimerval soon = { .it_value = { .tv_usec = 100 } };

	if (setitimer(ITIMER_REAL, &soon, NULL))
		fail("setitimer");
	await(&alarms, SIGALRM);
}

static void watched(void)
{
	char text[4096];

	raise_one();
	if (pread(status_file, text, sizeof(text), 0) <= 0)
		fail("reading /proc/self/status");
}

static void user(int asked, int answers, uid_t uid)
{
	char byte;

	if (setuid(uid))
		fail("setuid");
	while (read(asked, &byte, 1) == 1) {
		raise_one();
		if (write(answers, &byte, 1) != 1)
			fail("answering");
	}
	_exit(0);
}

/* Whoever's turn it is sends himself a signal. */
static void next_user(void)
{
	static unsigned int turn_of;
	const struct user *next = &users[turn_of++ % USERS];
	char byte = 0;

	if (write(next->ask, &byte, 1) != 1 || read(next->answer, &byte, 1) != 1)
		fail("asking a user");
}

static void make_users(void)
{
	int asked[2], answers[2];
	pid_t pid;
	int n;

	for (n = 0; n < USERS; n++) {
		if (pipe(asked) || pipe(answers))
			fail("pipe");
		pid = fork();
		if (pid < 0)
			fail("fork");
		if (!pid) {
			close(asked[1]);
			user(asked[0], answers[1], FIRST_USER + n);
		}
		close(asked[0]);
		close(answers[1]);
		users[n] = (struct user){ .ask = asked[1], .answer = answers[0] };
	}
}

static const struct {
	const char *name;
	void (*operation)(void);
} variants[] = {
	{ "default", raise_one },
	{ "burst", burst },
	{ "turns", turn },
	{ "child", child },
	{ "alarm", alarm_once },
	{ "watched", watched },
	{ "users", next_user },
};

static void (*chosen)(void);

static void prepare(const struct run *run)
{
	size_t n;

	leader = getpid();
	sigemptyset(&calls);
	sigaddset(&calls, SIGRTMIN);
	sigemptyset(&replies);
	sigaddset(&replies, SIGRTMIN + 1);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigfillset(&all);
	for (n = 0; n < sizeof(variants) / sizeof(*variants); n++)
		if (!strcmp(run->variant, variants[n].name))
			chosen = variants[n].operation;
	if (!chosen)
		fail("no such variant");
	handle(SIGUSR1);
	if (chosen == burst)
		handle(SIGRTMIN);
	if (chosen == child) {
		sigset_t set;

		handle(SIGCHLD);
		sigemptyset(&set);
		sigaddset(&set, SIGCHLD);
		sigprocmask(SIG_BLOCK, &set, NULL);
	}
	if (chosen == alarm_once)
		sigprocmask(SIG_BLOCK, &alarms, NULL);
	if (chosen == watched) {
		status_file = open("/proc/self/status", O_RDONLY);
		if (status_file < 0)
			fail("opening /proc/self/status");
	}
	if (chosen == next_user)
		make_users();
	if (chosen == turn) {
		pthread_t id;

		/* The takers inherit it. */
		sigprocmask(SIG_BLOCK, &all, NULL);
		for (n = 0; n < TAKERS; n++)
			if (pthread_create(&id, NULL, taker, NULL))
				fail("pthread_create");
	}
}

static void operation(const struct run *run, unsigned long n)
{
	(void)run;
	(void)n;
	chosen();
}

const struct workload workload = { .prepare = prepare, .operation = operation };
