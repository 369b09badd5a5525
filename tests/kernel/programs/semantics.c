// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a program sees of limits that hold for a user: numbers, errors, and
 * what a limit does not bind. The same on every kernel.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UID 1000

static int number, failures;

static void check(int good, const char *what)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++number, what);
	failures += !good;
	fflush(stdout);
}

static void limit(int resource, rlim_t soft)
{
	struct rlimit both = { .rlim_cur = soft, .rlim_max = RLIM_INFINITY };

	if (setrlimit(resource, &both))
		perror("# setrlimit");
}

static void become(int uid)
{
	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		perror("# setresuid");
}

/* Queued signals and their limit, as /proc shows them. */
static void sigq(long *queued, long *max)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];

	*queued = *max = -1;
	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "SigQ: %ld/%ld", queued, max);
	if (status)
		fclose(status);
}

static int queue(int signo)
{
	union sigval value = { .sival_int = 42 };

	return sigqueue(getpid(), signo, value);
}

static int take(int signo, siginfo_t *info)
{
	struct timespec now = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	return sigtimedwait(&set, info, &now);
}

static void block_all(void)
{
	sigset_t set;

	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static void signals(void)
{
	long queued, max;
	siginfo_t info;
	timer_t timer;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2 };
	int n;

	block_all();
	limit(RLIMIT_SIGPENDING, 3);
	become(UID);
	sigq(&queued, &max);
	check(queued == 0 && max == 3, "SigQ starts at 0/3");
	for (n = 0; n < 3; n++)
		if (queue(SIGRTMIN))
			break;
	check(n == 3, "as many signals as the limit are queued");
	check(queue(SIGRTMIN) == -1 && errno == EAGAIN, "one more is EAGAIN");
	sigq(&queued, &max);
	check(queued == 3, "SigQ shows what is queued");
	check(timer_create(CLOCK_MONOTONIC, &event, &timer) == -1 && errno == EAGAIN,
	      "a timer is refused at the limit");
	check(!kill(getpid(), SIGUSR1), "kill() with a classic signal is not bound by the limit");
	check(take(SIGUSR1, &info) == SIGUSR1 && info.si_pid == getpid(),
	      "and brings who sent it");
	check(!kill(getpid(), SIGRTMIN + 1), "kill() with a real-time signal is not refused");
	check(take(SIGRTMIN + 1, &info) == SIGRTMIN + 1 && info.si_pid == 0,
	      "but does not bring who sent it");
	check(take(SIGRTMIN, &info) == SIGRTMIN && info.si_value.sival_int == 42,
	      "a queued signal is taken with its value");
	check(!queue(SIGRTMIN), "and leaves room for one");
	while (take(SIGRTMIN, &info) == SIGRTMIN)
		;
	sigq(&queued, &max);
	check(queued == 0, "SigQ ends at 0");
	check(!timer_create(CLOCK_MONOTONIC, &event, &timer), "a timer is made");
	sigq(&queued, &max);
	check(queued == 1, "and is charged");
	timer_delete(timer);
	sigq(&queued, &max);
	check(queued == 0, "until it is deleted");
	limit(RLIMIT_SIGPENDING, 0);
	check(queue(SIGRTMIN) == -1 && errno == EAGAIN, "a limit of 0 admits none");
}

/* In a namespace whose creator had a limit, its processes can't have more. */
static void signals_in_namespace(void)
{
	siginfo_t info;
	int n;

	block_all();
	limit(RLIMIT_SIGPENDING, 5);
	become(UID);
	if (unshare(CLONE_NEWUSER)) {
		perror("# unshare");
		check(0, "a user namespace is made");
		return;
	}
	limit(RLIMIT_SIGPENDING, 100);
	for (n = 0; n < 100 && !queue(SIGRTMIN); n++)
		;
	check(n == 5, "a namespace's processes have what its creator had");
	check(errno == EAGAIN, "and EAGAIN beyond");
	while (take(SIGRTMIN, &info) == SIGRTMIN)
		;
	for (n = 0; n < 100 && !queue(SIGRTMIN); n++)
		;
	check(n == 5, "and the same again");
}

static int try_fork(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	return pid > 0 ? 0 : -1;
}

static void processes(void)
{
	limit(RLIMIT_NPROC, 1);
	become(UID);
	check(try_fork() == -1 && errno == EAGAIN, "a process beyond the limit is EAGAIN");
	limit(RLIMIT_NPROC, 2);
	check(!try_fork(), "one within is made");
	check(!try_fork(), "and again when it is gone");
}

static void processes_of_root(void)
{
	limit(RLIMIT_NPROC, 1);
	check(!try_fork(), "root is not bound by the limit");
}

/* setuid() does not fail for the limit, execve() after it does. */
static void processes_and_exec(void)
{
	char *arguments[] = { "/bin/true", NULL };
	int status, holder[2], became[2];
	char word = 0;
	pid_t pid;

	if (pipe(holder) || pipe(became))
		return;
	pid = fork();
	if (!pid) {
		become(UID);
		close(holder[1]);
		if (write(became[1], &word, 1) != 1)
			_exit(1);
		_exit(read(holder[0], &word, 1) != 0);
	}
	close(holder[0]);
	close(became[1]);
	/* Else there is nobody yet with whom the user has one too many. */
	if (read(became[0], &word, 1) != 1)
		return;
	if (!fork()) {
		/* The one that becomes the user is not counted yet. */
		limit(RLIMIT_NPROC, 0);
		check(!setresuid(UID, UID, UID), "setuid() over the limit succeeds");
		execv(arguments[0], arguments);
		check(errno == EAGAIN, "and execve() is EAGAIN then");
		limit(RLIMIT_NPROC, 100);
		if (!fork()) {
			execv(arguments[0], arguments);
			_exit(1);
		}
		wait(&status);
		check(WIFEXITED(status) && !WEXITSTATUS(status), "with a higher limit it succeeds");
		_exit(failures != 0);
	}
	wait(&status);
	failures += !WIFEXITED(status) || WEXITSTATUS(status);
	close(holder[1]);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	void (*const parts[])(void) = {
		signals, signals_in_namespace, processes, processes_of_root, processes_and_exec,
	};
	unsigned int n;
	int status, bad = 0;

	setvbuf(stdout, NULL, _IONBF, 0);
	for (n = 0; n < sizeof(parts) / sizeof(*parts); n++) {
		if (!fork()) {
			number = n * 100;
			parts[n]();
			_exit(failures != 0);
		}
		wait(&status);
		bad |= status != 0;
	}
	return bad;
}
