// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does an operation of a family without containers, and says what it left open:
 *
 *	operations VARIANT INDEX WARMUP WINDOW
 *
 * prints by how many descriptors and mappings there are more after the window.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int found = 0;

	while (readdir(d))
		found++;
	closedir(d);
	return found;
}

static int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int found = 0, c;

	while ((c = getc(maps)) != EOF)
		found += c == '\n';
	fclose(maps);
	return found;
}

int main(int argc, char **argv)
{
	struct run run = { .siblings = 1 };
	unsigned long warmup, window, n;
	int opened, mapped;

	if (argc != 5)
		return 2;
	run.variant = argv[1];
	run.index = strtoul(argv[2], NULL, 10);
	warmup = strtoul(argv[3], NULL, 10);
	window = strtoul(argv[4], NULL, 10);
	workload.prepare(&run);
	for (n = 0; n < warmup; n++)
		workload.operation(&run, n);
	opened = descriptors();
	mapped = mappings();
	for (; n < warmup + window; n++)
		workload.operation(&run, n);
	opened = descriptors() - opened;
	mapped = mappings() - mapped;
	printf("%d %d\n", opened, mapped);
	return 0;
}
