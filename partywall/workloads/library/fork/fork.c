// SPDX-License-Identifier: GPL-2.0-or-later
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static void operation(const struct run *run, unsigned long n)
{
	int status;
	pid_t pid = fork();

	(void)run;
	(void)n;
	if (pid < 0)
		fail("fork");
	if (!pid)
		_exit(0);
	if (waitpid(pid, &status, 0) != pid || status)
		fail("waitpid");
}

const struct workload workload = { .operation = operation };
