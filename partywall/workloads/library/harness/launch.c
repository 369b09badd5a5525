// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs a program that doesn't know of the harness: `partywall check -- COMMAND`.
 * With PW_MARKED=1 the program has markers of its own; otherwise its whole run
 * is the window.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "barrier.h"
#include "harness.h"
#include "partywall.h"
#include "spread.h"

int main(int argc, char **argv)
{
	struct plan plan;
	const char *marked = getenv("PW_MARKED");
	pid_t pid;
	int status;

	if (argc < 2)
		return 2;
	plan_read(&plan);
	spread(&plan, argv);
	barrier_wait(plan.barrier, plan.procs);
	if (!marked || strcmp(marked, "1"))
		partywall_start();
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		execvp(argv[1], argv + 1);
		fail(argv[1]);
	}
	if (waitpid(pid, &status, 0) < 0)
		fail("waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	partywall_stop();
	for (;;)
		pause();
}
