// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "partywall.h"
#include "processes.h"
#include "spread.h"

#define COUNT "{requests}"

pid_t begin(char **command, int output)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid) {
		int nothing = open("/dev/null", O_RDONLY);
		sigset_t none;

		/* What its parent keeps back is no affair of its own. */
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 ||
		    dup2(output, 2) < 0)
			fail("/dev/null");
		execvp(command[0], command);
		dprintf(output, "%s: %s\n", command[0], strerror(errno));
		_exit(127);
	}
	return pid;
}

pid_t begin_asking(char **command, unsigned long requests, int output)
{
	unsigned int words = 0, n;
	pid_t pid;

	while (command[words])
		words++;
	char *own[words + 1];

	for (n = 0; n < words; n++) {
		char *at = strstr(command[n], COUNT);

		own[n] = command[n];
		if (at && asprintf(&own[n], "%.*s%lu%s", (int)(at - command[n]), command[n],
				   requests, at + strlen(COUNT)) < 0)
			fail("asprintf");
	}
	own[words] = NULL;
	if (ftruncate(output, 0) || lseek(output, 0, SEEK_SET))
		fail("ftruncate");
	pid = begin(own, output);
	for (n = 0; n < words; n++)
		if (own[n] != command[n])
			free(own[n]);
	return pid;
}

const char *last_line(int said)
{
	static char text[514];
	off_t end = lseek(said, 0, SEEK_END), from = end > 511 ? end - 511 : 0;
	ssize_t length = pread(said, text + 2, sizeof(text) - 3, from);
	char *line;

	text[2 + (length > 0 ? length : 0)] = '\0';
	while (length > 0 && strchr("\r\n ", text[1 + length]))
		text[1 + length--] = '\0';
	if (length <= 0)
		return "";
	line = strrchr(text + 2, '\n');
	line = line ? line - 1 : text;
	memcpy(line, ": ", 2);
	return line;
}

static cpu_set_t allowed(void)
{
	cpu_set_t all;

	if (sched_getaffinity(0, sizeof(all), &all))
		fail("sched_getaffinity");
	return all;
}

unsigned int own_cpus(void)
{
	cpu_set_t all = allowed();

	return CPU_COUNT(&all);
}

void mark(int opens, void (*before)(void), void (*after)(void))
{
	cpu_set_t all = allowed();
	unsigned int left = CPU_COUNT(&all), many = left;

	for (unsigned int cpu = 0; left; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		if (many > 1)
			pin(cpu);
		if (before && left == many)
			before();
		if (opens)
			partywall_start();
		else
			partywall_stop();
		if (after && left == many)
			after();
		left--;
	}
	if (many > 1 && sched_setaffinity(0, sizeof(all), &all))
		fail("sched_setaffinity");
}
