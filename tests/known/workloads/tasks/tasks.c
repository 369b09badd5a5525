// SPDX-License-Identifier: GPL-2.0-or-later
/* Programs executed, threads made. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define ONLY_EXIT "KNOWN_EXIT"

/* Before main(): the program that is executed is this one, and does nothing. */
__attribute__((constructor)) static void leave(void)
{
	if (getenv(ONLY_EXIT))
		_exit(0);
}

static void execute(void)
{
	static char *const argv[] = { "tasks", NULL }, *const envp[] = { ONLY_EXIT "=1", NULL };
	int status;
	pid_t pid = vfork();

	if (pid < 0)
		fail("vfork");
	if (!pid) {
		execve("/proc/self/exe", argv, envp);
		_exit(1);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		fail("execve");
}

static void *nothing(void *unused)
{
	return unused;
}

static void make_thread(void)
{
	pthread_t id;

	errno = pthread_create(&id, NULL, nothing, NULL);
	if (errno || pthread_join(id, NULL))
		fail("pthread_create");
}

static int executes;

static void prepare(const struct run *run)
{
	executes = !strcmp(run->variant, "exec");
}

static void operation(const struct run *run, unsigned long n)
{
	(void)run;
	(void)n;
	if (executes)
		execute();
	else
		make_thread();
}

const struct workload workload = { .prepare = prepare, .operation = operation };
