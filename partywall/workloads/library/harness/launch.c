// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs a program that doesn't know of the harness: `partywall check -- COMMAND`.
 * With PW_MARKED=1 the program has markers of its own; with PW_OPENS its window is
 * where that says (opened.h); otherwise its whole run is the window, behind as many
 * runs as PW_WARMUP says.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "barrier.h"
#include "harness.h"
#include "listens.h"
#include "opened.h"
#include "partywall.h"
#include "spread.h"

/* By the guest's clock, which is fast while all sleep. */
#define LOOK_SECONDS 5
/* Of a CPU's time, for who only waits. */
#define IDLE_USEC (LOOK_SECONDS * 100000L)

static void look(int signal)
{
	(void)signal;
}

/* Microseconds for which all processes of the container have run; -1 if nobody knows. */
static long ran(void)
{
	FILE *stat = fopen("/sys/fs/cgroup/cpu.stat", "r");
	long usec = -1;

	if (!stat)
		return -1;
	if (fscanf(stat, "usage_usec %ld", &usec) != 1)
		usec = -1;
	fclose(stat);
	return usec;
}

/* Ends if the program waits for somebody who asks it. */
static void check_server(const char *program)
{
	static long before = -1;
	long usec = ran();
	const char *to = listens_to_tcp() ? "a TCP port" : "a Unix socket";

	if (usec >= 0 && before >= 0 && usec - before < IDLE_USEC &&
	    (listens_to_tcp() || listens_to_unix())) {
		dprintf(STDERR_FILENO, "partywall: hint: say what asks it with --client COMMAND, "
			"or where its window is with --window\n"
			"partywall: workload: %s is a server: it listens to %s, does nothing and "
			"does not end\n", program, to);
		exit(1);
	}
	before = usec;
}

static pid_t begin(char **command)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid) {
		execvp(command[0], command);
		fail(command[0]);
	}
	return pid;
}

/* Waits for the end of the program, which has to be a good one. */
static void await(pid_t pid, const char *program)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			fail("waitpid");
		check_server(program);
		alarm(LOOK_SECONDS);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

int main(int argc, char **argv)
{
	struct plan plan;
	const char *marked = getenv("PW_MARKED"), *opens = getenv("PW_OPENS");
	const struct sigaction looks = { .sa_handler = look };
	int whole = !marked || strcmp(marked, "1");

	if (argc < 2)
		return 2;
	plan_read(&plan);
	spread(&plan, argv);
	if (opens)
		opened(&plan, opens, argv + 1);
	/* Before the window; no child has it. */
	if (whole && sigaction(SIGALRM, &looks, NULL))
		fail("sigaction");
	barrier_settle(plan.barrier, plan.procs, plan.run.index);
	for (unsigned long n = 0; whole && n < plan.warmup; n++) {
		alarm(LOOK_SECONDS);
		await(begin(argv + 1), argv[1]);
		alarm(0);
	}
	barrier_wait(plan.barrier, plan.procs);
	if (whole) {
		alarm(LOOK_SECONDS);
		partywall_start();
	}
	await(begin(argv + 1), argv[1]);
	partywall_stop();
	for (;;)
		pause();
}
