// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

/* Made by the image, in the lower layer that all containers share. */
#define SHARED_DIR "/usr/share/partywall"
#define SHARED_FILE SHARED_DIR "/file"

static char dir[64], file[96];

static void op_access(void)
{
	if (access(file, R_OK))
		fail("access");
}

static void op_stat(void)
{
	struct stat st;

	if (stat(file, &st))
		fail("stat");
}

static void op_open(void)
{
	char buffer[512];
	int fd = open(file, O_RDONLY);

	if (fd < 0)
		fail("open");
	if (read(fd, buffer, sizeof(buffer)) < 0)
		fail("read");
	close(fd);
}

static void op_readdir(void)
{
	DIR *d = opendir(dir);

	if (!d)
		fail("opendir");
	errno = 0;
	while (readdir(d))
		;
	if (errno)
		fail("readdir");
	closedir(d);
}

static const struct {
	const char *name;
	void (*run)(void);
} ops[] = {
	{ "access", op_access },
	{ "stat", op_stat },
	{ "open", op_open },
	{ "readdir", op_readdir },
};

static void (*op)(void);

static void prepare(const struct run *run)
{
	size_t length = strcspn(run->variant, "-");
	int shared = !strcmp(run->variant + length, "-shared");
	int fd;

	for (size_t n = 0; n < sizeof(ops) / sizeof(*ops); n++)
		if (strlen(ops[n].name) == length && !strncmp(run->variant, ops[n].name, length))
			op = ops[n].run;
	if (!op) {
		errno = EINVAL;
		fail(run->variant);
	}
	if (shared) {
		strcpy(dir, SHARED_DIR);
		strcpy(file, SHARED_FILE);
		return;
	}
	snprintf(dir, sizeof(dir), "/tmp/overlay-%u", run->index);
	if (mkdir(dir, 0755))
		fail("mkdir");
	for (int n = 0; n < 4; n++) {
		snprintf(file, sizeof(file), "%s/file-%d", dir, n);
		fd = open(file, O_CREAT | O_EXCL | O_WRONLY, 0644);
		if (fd < 0 || write(fd, file, sizeof(file)) != sizeof(file))
			fail("making a file");
		close(fd);
	}
}

static void operation(const struct run *run, unsigned long n)
{
	(void)run;
	(void)n;
	op();
}

const struct workload workload = { .prepare = prepare, .operation = operation };
