// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Signals of every kind at processes whose threads exit, exec, are stopped,
 * continued and killed meanwhile; timers are deleted with their signal
 * pending.
 *
 *	exits SECONDS
 *
 * Prints how many signals were sent. What is looked for is what the kernel
 * says, and how many queue entries are left.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TARGETS 6
#define THREADS 4

struct shared {
	atomic_int pid[TARGETS], tid[TARGETS][THREADS];
	atomic_long sent, taken, exits;
	atomic_int stop;
};

static struct shared *shared;
static unsigned int seed;

static unsigned int dice(unsigned int sides)
{
	return rand_r(&seed) % sides;
}

static void handler(int signo, siginfo_t *info, void *context)
{
	(void)signo, (void)info, (void)context;
	atomic_fetch_add(&shared->taken, 1);
}

static void make_timers(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL };
	struct itimerspec when = { .it_value.tv_nsec = 200000, .it_interval.tv_nsec = 300000 };
	static const int kinds[] = { SIGCONT, SIGUSR1, SIGTSTP };
	timer_t timer[3];
	int n;

	for (n = 0; n < 3; n++) {
		/* One that stops would need somebody to go on: SIGTSTP is ignored. */
		event.sigev_signo = n == 1 ? SIGRTMIN + 3 : kinds[n];
		if (timer_create(CLOCK_MONOTONIC, &event, &timer[n]))
			return;
		timer_settime(timer[n], 0, &when, NULL);
	}
	usleep(dice(2000));
	/* Maybe with its signal pending. */
	for (n = 0; n < 3; n++)
		timer_delete(timer[n]);
}

static void *thread(void *number)
{
	sigset_t all, some;
	siginfo_t info;
	struct timespec soon = { .tv_nsec = 100000 };
	unsigned int turns = 20 + dice(60);
	long n = (long)number;

	atomic_store(&shared->tid[n / THREADS][n % THREADS], syscall(SYS_gettid));
	sigfillset(&all);
	sigemptyset(&some);
	sigaddset(&some, SIGRTMIN);
	sigaddset(&some, SIGRTMIN + 1);
	while (turns--) {
		sigprocmask(SIG_BLOCK, &all, NULL);
		if (dice(4) == 0)
			make_timers();
		if (sigtimedwait(&some, &info, &soon) > 0)
			atomic_fetch_add(&shared->taken, 1);
		sigprocmask(SIG_UNBLOCK, &all, NULL);
		sched_yield();
	}
	return NULL;
}

static void target(int number, char **argv)
{
	static const int handled[] = { SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGCONT };
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct itimerval often = { { 0, 700 }, { 0, 700 } };
	pthread_t id;
	int n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	seed = getpid();
	for (n = 0; n < (int)(sizeof(handled) / sizeof(*handled)); n++)
		sigaction(handled[n], &action, NULL);
	for (n = SIGRTMIN; n < SIGRTMIN + 5; n++)
		sigaction(n, &action, NULL);
	signal(SIGTSTP, SIG_IGN);
	atomic_store(&shared->pid[number], getpid());
	setitimer(ITIMER_REAL, &often, NULL);
	for (n = 1; n < THREADS; n++)
		pthread_create(&id, NULL, thread, (void *)(long)(number * THREADS + n));
	if (dice(2))
		thread((void *)(long)(number * THREADS));
	atomic_fetch_add(&shared->exits, 1);
	switch (dice(5)) {
	case 0:	/* The others are killed by it. */
		execl("/proc/self/exe", argv[0], "end", NULL);
		_exit(1);
	case 1:	/* The leader goes first, the others stay. */
		pthread_exit(NULL);
	case 2:
		kill(getpid(), SIGKILL);
	}
	_exit(0);
}

static void send(void)
{
	union sigval value = { .sival_int = 1 };

	while (!atomic_load(&shared->stop)) {
		int number = dice(TARGETS), kind = dice(12);
		pid_t pid = atomic_load(&shared->pid[number]);
		pid_t tid = atomic_load(&shared->tid[number][dice(THREADS)]);
		int failed = 1;

		if (pid <= 1)
			continue;
		if (kind < 5)
			failed = sigqueue(pid, SIGRTMIN + dice(5), value);
		else if (kind < 8 && tid > 1)
			failed = syscall(SYS_tgkill, pid, tid, SIGRTMIN + dice(5));
		else if (kind == 8)
			failed = kill(pid, dice(2) ? SIGUSR1 : SIGUSR2);
		else if (kind == 9)
			failed = kill(pid, SIGCONT);
		else if (kind == 10 && !dice(20))
			failed = kill(pid, SIGSTOP) || kill(pid, SIGCONT);
		else if (kind == 11 && !dice(400))
			failed = kill(pid, SIGKILL);
		atomic_fetch_add(&shared->sent, !failed);
	}
	_exit(0);
}

/* Where memory is short there may be no target for a while. */
static void begin(int number, char **argv)
{
	pid_t pid = fork();

	if (!pid)
		target(number, argv);
	atomic_store(&shared->pid[number], pid > 0 ? pid : 0);
}

int main(int argc, char **argv)
{
	pid_t pid, senders[3];
	time_t end;
	int n;

	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "end"))
		return 0;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 3;
	end = time(NULL) + atoi(argv[1]);
	for (n = 0; n < 3; n++) {
		senders[n] = fork();
		if (!senders[n]) {
			seed = n + 1;
			send();
		}
	}
	for (n = 0; n < TARGETS; n++)
		begin(n, argv);
	while (time(NULL) < end) {
		int none = 1;

		for (n = 0; n < TARGETS; n++) {
			if (!atomic_load(&shared->pid[n]))
				begin(n, argv);
			none &= !atomic_load(&shared->pid[n]);
		}
		if (none) {
			usleep(1000);
			continue;
		}
		pid = wait(NULL);
		for (n = 0; n < TARGETS; n++)
			if (atomic_load(&shared->pid[n]) == pid)
				atomic_store(&shared->pid[n], 0);
	}
	atomic_store(&shared->stop, 1);
	for (n = 0; n < 3; n++)
		if (senders[n] > 0)
			waitpid(senders[n], NULL, 0);
	for (n = 0; n < TARGETS; n++) {
		pid = atomic_load(&shared->pid[n]);
		if (pid > 1)
			kill(pid, SIGKILL);
	}
	while (wait(NULL) > 0)
		;
	printf("sent %ld, taken %ld, %ld exits\n", atomic_load(&shared->sent),
	       atomic_load(&shared->taken), atomic_load(&shared->exits));
	return 0;
}
