// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <sys/file.h>

#include "places.h"

/* The file opened to read only, which a read lease needs. */
static int read_only = -1;

static void prepare_lease(const struct run *run)
{
	prepare_place(run);
	check(close(fd), "close");
	read_only = open(file, O_RDONLY | O_CLOEXEC);
	check(read_only < 0, "open");
}

static void op_flock(unsigned long n)
{
	(void)n;
	check(flock(fd, LOCK_EX), "flock(LOCK_EX)");
	check(flock(fd, LOCK_UN), "flock(LOCK_UN)");
}

static void op_flock_shared(unsigned long n)
{
	(void)n;
	check(flock(fd, LOCK_SH), "flock(LOCK_SH)");
	check(flock(fd, LOCK_UN), "flock(LOCK_UN)");
}

static void set(int command, short type)
{
	struct flock range = { .l_type = type, .l_whence = SEEK_SET, .l_len = 64 };

	check(fcntl(fd, command, &range), command == F_SETLK ? "F_SETLK" : "F_OFD_SETLK");
}

static void op_posix(unsigned long n)
{
	(void)n;
	set(F_SETLK, F_WRLCK);
	set(F_SETLK, F_UNLCK);
}

static void op_posix_get(unsigned long n)
{
	struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 64 };

	(void)n;
	check(fcntl(fd, F_GETLK, &range), "F_GETLK");
}

static void op_ofd(unsigned long n)
{
	(void)n;
	set(F_OFD_SETLK, F_WRLCK);
	set(F_OFD_SETLK, F_UNLCK);
}

static void op_lease(unsigned long n)
{
	(void)n;
	check(fcntl(read_only, F_SETLEASE, F_RDLCK), "F_SETLEASE");
	check(fcntl(read_only, F_SETLEASE, F_UNLCK), "F_SETLEASE");
}

FAMILY(PLACES("flock", op_flock, prepare_place),
       PLACES("flock-shared", op_flock_shared, prepare_place),
       PLACES("posix", op_posix, prepare_place),
       PLACES("posix-get", op_posix_get, prepare_place),
       PLACES("ofd", op_ofd, prepare_place),
       PLACES("lease", op_lease, prepare_lease));
