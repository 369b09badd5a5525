// SPDX-License-Identifier: GPL-2.0-or-later
/* By which a server is known: the kernel's own lists of sockets, of the caller's namespace. */
#include <stdio.h>
#include <string.h>

#include "listens.h"

/* Whether a list has a line in which this column has that text. */
static int has(const char *path, const char *format, const char *wanted)
{
	char line[512], column[16];
	FILE *list = fopen(path, "r");
	int found = 0;

	while (list && !found && fgets(line, sizeof(line), list))
		found = sscanf(line, format, column) == 1 && !strcmp(column, wanted);
	if (list)
		fclose(list);
	return found;
}

int listens_to_tcp(void)
{
	return has("/proc/self/net/tcp", "%*s %*s %*s %15s", "0A") ||
	       has("/proc/self/net/tcp6", "%*s %*s %*s %15s", "0A");
}

/* ::ffff:127.0.0.1 */
#define LOOPBACK_MAPPED "0000000000000000FFFF00000100007F"

static int listens_to_others(const char *path, const char *itself)
{
	char line[512], address[64], state[16];
	FILE *list = fopen(path, "r");
	int found = 0;

	while (list && !found && fgets(line, sizeof(line), list))
		found = sscanf(line, "%*s %63[^:]:%*s %*s %15s", address, state) == 2 &&
			!strcmp(state, "0A") && strcmp(address, itself) &&
			strcmp(address, LOOPBACK_MAPPED);
	if (list)
		fclose(list);
	return found;
}

int listens_to_itself(void)
{
	/* 127.0.0.1, of four bytes the last one first, and ::1. */
	return !listens_to_others("/proc/self/net/tcp", "0100007F") &&
	       !listens_to_others("/proc/self/net/tcp6", "00000000000000000000000001000000");
}

int listens_to_unix(void)
{
	/* Its flags: that it accepts connections. */
	return has("/proc/self/net/unix", "%*s %*s %*s %15s", "00010000");
}
