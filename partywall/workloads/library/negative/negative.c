// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

#define DEPTH 16

static enum { UNIQUE, REPEAT, THERE, CREATE, RENAME } kind;
static char dir[128], file[160];

static void make(const char *path)
{
	if (mkdir(path, 0755))
		fail(path);
}

/* -tmpfs, -volume, or in the overlay. */
static const char *root_of(const char *where)
{
	if (where && !strcmp(where, "-tmpfs"))
		return "/dev/shm";
	return where && !strcmp(where, "-volume") ? "/volume" : "/tmp";
}

static void prepare(const struct run *run)
{
	const char *where = strchr(run->variant, '-');
	/* In a directory of the image, however many layers there are. */
	int of_image = !where || !strcmp(where, "-layers");
	int deep = !strncmp(run->variant, "deep", 4);
	int fd;

	if (!strncmp(run->variant, "unique", 6))
		kind = UNIQUE;
	else if (!strncmp(run->variant, "beside", 6))
		kind = run->index ? UNIQUE : REPEAT;
	else if (!strncmp(run->variant, "there", 5))
		kind = THERE;
	else if (!strncmp(run->variant, "create", 6))
		kind = CREATE;
	else if (!strncmp(run->variant, "rename", 6))
		kind = RENAME;
	else
		kind = REPEAT;

	if (of_image && kind <= REPEAT && !deep) {
		strcpy(dir, "/usr/share/partywall");
		return;
	}
	snprintf(dir, sizeof(dir), "%s/negative-%u", root_of(where), run->index);
	make(dir);
	for (int n = 0; deep && n < DEPTH; n++) {
		strcat(dir, "/down");
		make(dir);
	}
	snprintf(file, sizeof(file), "%s/file", dir);
	fd = open(file, O_CREAT | O_WRONLY, 0600);
	if (fd < 0 || close(fd))
		fail(file);
}

static void operation(const struct run *run, unsigned long n)
{
	char path[192];
	int fd;

	if (kind == THERE) {
		if (access(file, F_OK))
			fail(file);
		return;
	}
	snprintf(path, sizeof(path), "%s/%u-%lu", dir, run->index, kind == UNIQUE ? n : 0);
	if (!access(path, F_OK) || errno != ENOENT)
		fail(path);
	if (kind == CREATE) {
		fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
		if (fd < 0 || close(fd) || unlink(path))
			fail(path);
	} else if (kind == RENAME) {
		if (rename(file, path) || rename(path, file))
			fail(path);
	}
}

const struct workload workload = { .prepare = prepare, .operation = operation };
