/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Operations on files, each in three places: the container's overlay root, a
 * volume and a tmpfs.  The place is the end of a variant's name:
 *
 *	FAMILY(PLACES("chmod", op_chmod, prepare_place))
 */
#ifndef PLACES_H
#define PLACES_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "operations.h"

#define PAGE 4096

#define PLACES(name, run, prepare)			\
	{ name "-overlay", run, prepare },		\
	{ name "-volume", run, prepare },		\
	{ name "-tmpfs", run, prepare }

/* A directory of this process and variant alone, a file of a page in it, and that file open. */
static char dir[64], file[96];
static int fd = -1;

static void make_file(const char *path, int *opened)
{
	static const char page[PAGE];

	*opened = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
	check(*opened < 0 || write(*opened, page, PAGE) != PAGE, "making a file");
}

static void prepare_place(const struct run *run)
{
	static const struct {
		const char *suffix, *path;
	} places[] = {
		{ "-overlay", "/tmp" },
		{ "-volume", "/volume" },
		{ "-tmpfs", "/dev/shm" },
	};
	const char *suffix = strrchr(run->variant, '-');

	for (size_t n = 0; n < sizeof(places) / sizeof(*places); n++)
		if (suffix && !strcmp(suffix, places[n].suffix))
			snprintf(dir, sizeof(dir), "%s/%s-%u", places[n].path, run->variant,
				 run->index);
	errno = EINVAL;
	check(!*dir, run->variant);
	check(mkdir(dir, 0755) && errno != EEXIST, "mkdir");
	snprintf(file, sizeof(file), "%s/file", dir);
	make_file(file, &fd);
}

#endif
