/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For programs that look on from outside of all containers. */
#ifndef OUTSIDE_H
#define OUTSIDE_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

/* As files/init has made it: c0 and so on are below. */
#define CONTAINERS_CGROUP "/sys/fs/cgroup/partywall"

static inline void rest(long seconds, long nanoseconds)
{
	const struct timespec time = { .tv_sec = seconds, .tv_nsec = nanoseconds };

	nanosleep(&time, NULL);
}

static inline void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	/* What is not there, or can't, changes nothing: the next look says what is left. */
	if (fd < 0)
		return;
	(void)!write(fd, text, strlen(text));
	close(fd);
}

static inline unsigned int number(const char *text)
{
	unsigned long n = strtoul(text, NULL, 10);

	errno = EINVAL;
	if (!n)
		fail(text);
	return n;
}

#endif
