// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

static char dir[64];
static int repeat;

static void prepare(const struct run *run)
{
	const char *where = strchr(run->variant, '-');

	repeat = !strncmp(run->variant, "repeat", 6);
	if (!where) {
		strcpy(dir, "/usr/share/partywall");
		return;
	}
	snprintf(dir, sizeof(dir), "/tmp/negative-%u", run->index);
	if (mkdir(dir, 0755))
		fail("mkdir");
}

static void operation(const struct run *run, unsigned long n)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%u-%lu", dir, run->index, repeat ? 0 : n);
	if (!access(path, F_OK) || errno != ENOENT)
		fail(path);
}

const struct workload workload = { .prepare = prepare, .operation = operation };
