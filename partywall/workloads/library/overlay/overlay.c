// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "harness.h"

/* Made by the image, in the lower layer that all containers share. */
#define SHARED_DIR "/usr/share/partywall"
#define SHARED_FILE SHARED_DIR "/file"
#define LOWER_DIR SHARED_DIR "/lower"

#define XATTR "user.partywall"
#define PAGE 4096

/* What operation n works on, made by prepare(). */
static char dir[64], file[96], link_to[96];
static unsigned long first_lower;
static int fd = -1;

static void check(int failed, const char *what)
{
	if (failed)
		fail(what);
}

static const char *numbered(const char *what, unsigned long n)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s-%lu", dir, what, n);
	return path;
}

static void op_access(unsigned long n)
{
	(void)n;
	check(access(file, R_OK), "access");
}

static void op_stat(unsigned long n)
{
	struct stat st;

	(void)n;
	check(stat(file, &st), "stat");
}

static void op_access_missing(unsigned long n)
{
	(void)n;
	check(!access(SHARED_DIR "/missing", F_OK) || errno != ENOENT, "access");
}

static void op_stat_volume(unsigned long n)
{
	struct stat st;

	(void)n;
	/* Any container's /dev is a tmpfs. */
	check(stat("/dev/null", &st), "stat");
}

static void op_statfs(unsigned long n)
{
	struct statfs st;

	(void)n;
	check(statfs(file, &st), "statfs");
}

static void op_lookup(unsigned long n)
{
	check(!access(numbered("missing", n), F_OK) || errno != ENOENT, "access");
}

static void op_open(unsigned long n)
{
	char buffer[512];
	int opened = open(file, O_RDONLY);

	(void)n;
	check(opened < 0, "open");
	check(read(opened, buffer, sizeof(buffer)) < 0, "read");
	close(opened);
}

static void op_read(unsigned long n)
{
	char buffer[512];

	(void)n;
	check(pread(fd, buffer, sizeof(buffer), 0) < 0, "pread");
}

static void op_write(unsigned long n)
{
	(void)n;
	check(pwrite(fd, file, sizeof(file), 0) != sizeof(file), "pwrite");
}

static void op_fsync(unsigned long n)
{
	op_write(n);
	check(fsync(fd), "fsync");
}

static void op_mmap(unsigned long n)
{
	volatile char *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

	(void)n;
	check(page == MAP_FAILED, "mmap");
	(void)page[0];
	check(munmap((void *)page, PAGE), "munmap");
}

static void op_truncate(unsigned long n)
{
	check(truncate(file, n % 2 ? PAGE : 0), "truncate");
}

static void op_chmod(unsigned long n)
{
	check(chmod(file, n % 2 ? 0640 : 0644), "chmod");
}

static void op_readdir(unsigned long n)
{
	DIR *d = opendir(dir);

	(void)n;
	check(!d, "opendir");
	errno = 0;
	while (readdir(d))
		;
	check(errno, "readdir");
	closedir(d);
}

static void op_getxattr(unsigned long n)
{
	char value[16];

	(void)n;
	/* The shared file has none, which takes as long to find out. */
	check(getxattr(file, XATTR, value, sizeof(value)) < 0 && errno != ENODATA, "getxattr");
}

static void op_setxattr(unsigned long n)
{
	check(setxattr(file, XATTR, n % 2 ? "odd" : "even", 3, 0), "setxattr");
}

static void op_listxattr(unsigned long n)
{
	char names[256];

	(void)n;
	check(listxattr(file, names, sizeof(names)) < 0, "listxattr");
}

static void op_readlink(unsigned long n)
{
	char target[128];

	(void)n;
	check(readlink(link_to, target, sizeof(target)) < 0, "readlink");
}

static void op_create(unsigned long n)
{
	int made = open(numbered("made", n), O_CREAT | O_EXCL | O_WRONLY, 0644);

	check(made < 0, "creating a file");
	close(made);
}

static void op_unlink(unsigned long n)
{
	check(unlink(numbered("made", n)), "unlink");
}

static void op_rename(unsigned long n)
{
	static char from[128];

	strcpy(from, numbered("moved", n));
	check(rename(from, numbered("moved", n + 1)), "rename");
}

static void op_link(unsigned long n)
{
	check(link(file, numbered("linked", n)), "link");
}

static void op_mkdir(unsigned long n)
{
	const char *path = numbered("dir", n);

	check(mkdir(path, 0755), "mkdir");
	check(rmdir(path), "rmdir");
}

static void op_copy_up(unsigned long n)
{
	char path[96];
	int opened;

	snprintf(path, sizeof(path), LOWER_DIR "/%lu", first_lower + n);
	opened = open(path, O_WRONLY);
	check(opened < 0, "opening a lower file to write");
	close(opened);
}

static void prepare_unlink(const struct run *run)
{
	for (unsigned long n = 0; n < run->operations; n++)
		op_create(n);
}

static void prepare_rename(const struct run *run)
{
	(void)run;
	check(rename(file, numbered("moved", 0)), "rename");
}

static void prepare_copy_up(const struct run *run)
{
	first_lower = run->slot * run->operations;
}

static const struct op {
	const char *name;
	void (*run)(unsigned long n);
	void (*prepare)(const struct run *run);
	/* It has nothing on the mount that was made for it. */
	int bare;
} ops[] = {
	{ "access", op_access, NULL, 0 },
	{ "access-missing", op_access_missing, NULL, 1 },
	{ "chmod", op_chmod, NULL, 0 },
	{ "copy-up", op_copy_up, prepare_copy_up, 0 },
	{ "create", op_create, NULL, 0 },
	{ "fsync", op_fsync, NULL, 0 },
	{ "getxattr", op_getxattr, NULL, 0 },
	{ "link", op_link, NULL, 0 },
	{ "listxattr", op_listxattr, NULL, 0 },
	{ "lookup", op_lookup, NULL, 0 },
	{ "mkdir", op_mkdir, NULL, 0 },
	{ "mmap", op_mmap, NULL, 0 },
	{ "open", op_open, NULL, 0 },
	{ "read", op_read, NULL, 0 },
	{ "readdir", op_readdir, NULL, 0 },
	{ "readlink", op_readlink, NULL, 0 },
	{ "rename", op_rename, prepare_rename, 0 },
	{ "setxattr", op_setxattr, NULL, 0 },
	{ "stat", op_stat, NULL, 0 },
	{ "stat-volume", op_stat_volume, NULL, 1 },
	{ "statfs", op_statfs, NULL, 0 },
	{ "truncate", op_truncate, NULL, 0 },
	{ "unlink", op_unlink, prepare_unlink, 0 },
	{ "write", op_write, NULL, 0 },
};

static const struct op *op;

/* The directory, four files in it, and what is on the last of them. */
static void prepare_own(const struct run *run)
{
	char page[PAGE] = "";

	snprintf(dir, sizeof(dir), "/tmp/overlay-%u", run->index);
	check(mkdir(dir, 0755), "mkdir");
	for (int n = 0; n < 4; n++) {
		snprintf(file, sizeof(file), "%s/file-%d", dir, n);
		fd = open(file, O_CREAT | O_EXCL | O_RDWR, 0644);
		check(fd < 0 || write(fd, page, PAGE) != PAGE, "making a file");
		if (n < 3)
			close(fd);
	}
	check(setxattr(file, XATTR, "value", 5, 0), "setxattr");
	snprintf(link_to, sizeof(link_to), "%s/link", dir);
	check(symlink(file, link_to), "symlink");
}

static void prepare(const struct run *run)
{
	size_t length = strlen(run->variant);
	const char *suffix = strstr(run->variant, "-shared");

	if (suffix)
		length = suffix - run->variant;
	for (size_t n = 0; n < sizeof(ops) / sizeof(*ops); n++)
		if (strlen(ops[n].name) == length && !strncmp(run->variant, ops[n].name, length))
			op = &ops[n];
	if (!op) {
		errno = EINVAL;
		fail(run->variant);
	}
	if (suffix) {
		strcpy(dir, SHARED_DIR);
		strcpy(file, SHARED_FILE);
		fd = open(file, O_RDONLY);
		check(fd < 0, "opening the shared file");
	} else if (!op->bare) {
		prepare_own(run);
	}
	if (op->prepare)
		op->prepare(run);
}

static void operation(const struct run *run, unsigned long n)
{
	(void)run;
	op->run(n);
}

const struct workload workload = { .prepare = prepare, .operation = operation };
