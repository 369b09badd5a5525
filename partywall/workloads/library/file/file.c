// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/stat.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#include "places.h"

#define XATTR "user.partywall"

/* Names that operations use beside the file, and another open file. */
static char first[96], second[96];
static int other = -1, appended = -1, pipe_fds[2];
static char buffer[PAGE];

static void prepare_names(const struct run *run)
{
	prepare_place(run);
	snprintf(first, sizeof(first), "%s/first", dir);
	snprintf(second, sizeof(second), "%s/second", dir);
}

static void prepare_other(const struct run *run)
{
	prepare_names(run);
	make_file(first, &other);
}

static void prepare_append(const struct run *run)
{
	prepare_place(run);
	appended = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);
	check(appended < 0, "open");
}

static void prepare_pipe(const struct run *run)
{
	prepare_place(run);
	check(pipe(pipe_fds), "pipe");
}

static void prepare_entries(const struct run *run)
{
	char path[96];
	int made;

	prepare_place(run);
	for (int n = 0; n < 4; n++) {
		snprintf(path, sizeof(path), "%s/entry-%d", dir, n);
		make_file(path, &made);
		close(made);
	}
}

static void prepare_symlink(const struct run *run)
{
	prepare_names(run);
	check(symlink(file, first) && errno != EEXIST, "symlink");
}

static void prepare_xattr(const struct run *run)
{
	prepare_place(run);
	check(setxattr(file, XATTR, "value", 5, 0), "setxattr");
}

static void op_open(unsigned long n)
{
	int opened = open(file, O_RDONLY);

	(void)n;
	check(opened < 0, "open");
	close(opened);
}

static void op_create(unsigned long n)
{
	int made = open(first, O_CREAT | O_EXCL | O_WRONLY, 0644);

	(void)n;
	check(made < 0, "creating a file");
	close(made);
	check(unlink(first), "unlink");
}

static void op_tmpfile(unsigned long n)
{
	int made = open(dir, O_TMPFILE | O_RDWR, 0600);

	(void)n;
	check(made < 0, "open(O_TMPFILE)");
	close(made);
}

static void op_stat(unsigned long n)
{
	struct stat st;

	(void)n;
	check(stat(file, &st), "stat");
}

static void op_fstat(unsigned long n)
{
	struct stat st;

	(void)n;
	check(fstat(fd, &st), "fstat");
}

static void op_statx(unsigned long n)
{
	struct statx st;

	(void)n;
	check(statx(AT_FDCWD, file, 0, STATX_ALL, &st), "statx");
}

static void op_statfs(unsigned long n)
{
	struct statfs st;

	(void)n;
	check(statfs(file, &st), "statfs");
}

static void op_access(unsigned long n)
{
	(void)n;
	check(access(file, R_OK), "access");
}

static void op_missing(unsigned long n)
{
	(void)n;
	check(!access(first, F_OK) || errno != ENOENT, "access");
}

static void op_follow(unsigned long n)
{
	(void)n;
	check(access(first, R_OK), "access");
}

static void op_chdir(unsigned long n)
{
	check(chdir(n % 2 ? "/" : dir), "chdir");
}

static void op_read(unsigned long n)
{
	(void)n;
	check(lseek(fd, 0, SEEK_SET) || read(fd, buffer, 512) != 512, "read");
}

static void op_pread(unsigned long n)
{
	(void)n;
	check(pread(fd, buffer, 512, 0) != 512, "pread");
}

static void op_write(unsigned long n)
{
	(void)n;
	check(lseek(fd, 0, SEEK_SET) || write(fd, buffer, 512) != 512, "write");
}

static void op_pwrite(unsigned long n)
{
	(void)n;
	check(pwrite(fd, buffer, 512, 0) != 512, "pwrite");
}

static void op_append(unsigned long n)
{
	if (n % 64 == 0)
		check(ftruncate(appended, 0), "ftruncate");
	check(write(appended, buffer, 64) != 64, "write");
}

static void op_truncate(unsigned long n)
{
	check(truncate(file, n % 2 ? PAGE : 0), "truncate");
}

static void op_ftruncate(unsigned long n)
{
	check(ftruncate(fd, n % 2 ? PAGE : 0), "ftruncate");
}

static void op_fallocate(unsigned long n)
{
	(void)n;
	/* Not behind the end, where ext4 leaves what it has when told to make a hole. */
	check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE),
	      "fallocate(FALLOC_FL_PUNCH_HOLE)");
	check(fallocate(fd, 0, 0, PAGE), "fallocate");
}

static void op_rename(unsigned long n)
{
	check(rename(n % 2 ? second : first, n % 2 ? first : second), "rename");
}

static void prepare_rename(const struct run *run)
{
	prepare_other(run);
	check(unlink(second) && errno != ENOENT, "unlink");
}

static void op_exchange(unsigned long n)
{
	(void)n;
	check(renameat2(AT_FDCWD, file, AT_FDCWD, first, RENAME_EXCHANGE),
	      "renameat2(RENAME_EXCHANGE)");
}

static void op_link(unsigned long n)
{
	(void)n;
	check(link(file, first), "link");
	check(unlink(first), "unlink");
}

static void op_symlink(unsigned long n)
{
	(void)n;
	check(symlink(file, first), "symlink");
	check(readlink(first, buffer, sizeof(buffer)) < 0, "readlink");
	check(unlink(first), "unlink");
}

static void op_readlink(unsigned long n)
{
	(void)n;
	check(readlink(first, buffer, sizeof(buffer)) < 0, "readlink");
}

static void op_mkdir(unsigned long n)
{
	(void)n;
	check(mkdir(first, 0755), "mkdir");
	check(rmdir(first), "rmdir");
}

static void op_mkfifo(unsigned long n)
{
	(void)n;
	check(mkfifo(first, 0600), "mkfifo");
	check(unlink(first), "unlink");
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

static void op_setxattr(unsigned long n)
{
	check(setxattr(file, XATTR, n % 2 ? "odd  " : "even ", 5, 0), "setxattr");
}

static void op_getxattr(unsigned long n)
{
	(void)n;
	check(getxattr(file, XATTR, buffer, sizeof(buffer)) != 5, "getxattr");
}

static void op_fsync(unsigned long n)
{
	op_pwrite(n);
	check(fsync(fd), "fsync");
}

static void op_fdatasync(unsigned long n)
{
	op_pwrite(n);
	check(fdatasync(fd), "fdatasync");
}

static void op_copy_range(unsigned long n)
{
	off_t from = 0, to = 0;

	(void)n;
	check(copy_file_range(fd, &from, other, &to, PAGE, 0) != PAGE, "copy_file_range");
}

static void op_sendfile(unsigned long n)
{
	off_t from = 0;

	(void)n;
	check(lseek(other, 0, SEEK_SET) || sendfile(other, fd, &from, PAGE) != PAGE, "sendfile");
}

static void op_splice(unsigned long n)
{
	off_t from = 0;

	(void)n;
	check(splice(fd, &from, pipe_fds[1], NULL, PAGE, 0) != PAGE, "splice");
	check(read(pipe_fds[0], buffer, PAGE) != PAGE, "read");
}

static void op_utimens(unsigned long n)
{
	const struct timespec times[2] = { { .tv_sec = n % 2 }, { .tv_sec = n % 2 } };

	check(utimensat(AT_FDCWD, file, times, 0), "utimensat");
}

static void op_chmod(unsigned long n)
{
	check(chmod(file, n % 2 ? 0640 : 0644), "chmod");
}

static void op_fchmod(unsigned long n)
{
	check(fchmod(fd, n % 2 ? 0640 : 0644), "fchmod");
}

static void op_chown(unsigned long n)
{
	check(chown(file, 0, n % 2), "chown");
}

static void map(int flags, int write)
{
	volatile char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

	check(page == MAP_FAILED, "mmap");
	if (write)
		page[0] = 1;
	else
		(void)page[0];
	check(munmap((void *)page, PAGE), "munmap");
}

static void op_mmap_read(unsigned long n)
{
	(void)n;
	map(MAP_SHARED, 0);
}

static void op_mmap_write(unsigned long n)
{
	(void)n;
	map(MAP_SHARED, 1);
}

static void op_mmap_private(unsigned long n)
{
	(void)n;
	map(MAP_PRIVATE, 1);
}

FAMILY(PLACES("open", op_open, prepare_place),
       PLACES("create", op_create, prepare_names),
       PLACES("tmpfile", op_tmpfile, prepare_place),
       PLACES("stat", op_stat, prepare_place),
       PLACES("fstat", op_fstat, prepare_place),
       PLACES("statx", op_statx, prepare_place),
       PLACES("statfs", op_statfs, prepare_place),
       PLACES("access", op_access, prepare_place),
       PLACES("missing", op_missing, prepare_names),
       PLACES("follow", op_follow, prepare_symlink),
       PLACES("chdir", op_chdir, prepare_place),
       PLACES("read", op_read, prepare_place),
       PLACES("pread", op_pread, prepare_place),
       PLACES("write", op_write, prepare_place),
       PLACES("pwrite", op_pwrite, prepare_place),
       PLACES("append", op_append, prepare_append),
       PLACES("truncate", op_truncate, prepare_place),
       PLACES("ftruncate", op_ftruncate, prepare_place),
       PLACES("fallocate", op_fallocate, prepare_place),
       PLACES("rename", op_rename, prepare_rename),
       PLACES("exchange", op_exchange, prepare_other),
       PLACES("link", op_link, prepare_names),
       PLACES("symlink", op_symlink, prepare_names),
       PLACES("readlink", op_readlink, prepare_symlink),
       PLACES("mkdir", op_mkdir, prepare_names),
       PLACES("mkfifo", op_mkfifo, prepare_names),
       PLACES("readdir", op_readdir, prepare_entries),
       PLACES("setxattr", op_setxattr, prepare_place),
       PLACES("getxattr", op_getxattr, prepare_xattr),
       PLACES("fsync", op_fsync, prepare_place),
       PLACES("fdatasync", op_fdatasync, prepare_place),
       PLACES("copy-range", op_copy_range, prepare_other),
       PLACES("sendfile", op_sendfile, prepare_other),
       PLACES("splice", op_splice, prepare_pipe),
       PLACES("utimens", op_utimens, prepare_place),
       PLACES("chmod", op_chmod, prepare_place),
       PLACES("fchmod", op_fchmod, prepare_place),
       PLACES("chown", op_chown, prepare_place),
       PLACES("mmap-read", op_mmap_read, prepare_place),
       PLACES("mmap-write", op_mmap_write, prepare_place),
       PLACES("mmap-private", op_mmap_private, prepare_place));
