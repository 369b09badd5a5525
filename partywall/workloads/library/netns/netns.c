// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

static int limit_fd;

/*
 * A network namespace dies long after it was left, in a kernel thread.  Its
 * user namespace's count of them goes down last, so a limit on that count is
 * how a process learns that all have died.
 */
static void set_limit(unsigned int limit)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", limit);

	if (pwrite(limit_fd, text, length, 0) != length)
		fail("write of max_net_namespaces");
}

/* Stays open, in the namespace in which the container began. */
static void listen_to_all(void)
{
	struct sockaddr_nl links = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), on = 1;

	if (fd < 0 || bind(fd, (struct sockaddr *)&links, sizeof(links)))
		fail("binding a netlink socket");
	if (setsockopt(fd, SOL_NETLINK, NETLINK_LISTEN_ALL_NSID, &on, sizeof(on)))
		fail("setsockopt(NETLINK_LISTEN_ALL_NSID)");
}

static void prepare(const struct run *run)
{
	if (!strcmp(run->variant, "heard"))
		listen_to_all();
	limit_fd = open("/proc/sys/user/max_net_namespaces", O_RDWR | O_CLOEXEC);
	if (limit_fd < 0)
		fail("open of max_net_namespaces");
}

static void operation(const struct run *run, unsigned long n)
{
	struct timespec pause = { .tv_nsec = 1000 * 1000 };
	long most = run->operations ? 256 * 1000 * 1000 : 1000 * 1000;

	(void)n;
	/*
	 * Refused while the limit is down: a sibling waits in last(). Each try is
	 * work, and the more containers there are, the longer their namespaces
	 * take to die: a wait twice as long has one try more. By the clock the
	 * end of the wait counts, and is not to be slept over.
	 */
	while (unshare(CLONE_NEWNET)) {
		if (errno != ENOSPC)
			fail("unshare(CLONE_NEWNET)");
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < most)
			pause.tv_nsec *= 2;
	}
}

/*
 * Succeeds once nothing is left but the container's own namespace and one for
 * each of its processes: all that were dropped before are dead by then.
 */
static void last(const struct run *run, unsigned long n)
{
	set_limit(run->siblings + 2);
	operation(run, n);
	set_limit(1 << 20);
}

const struct workload workload = {
	.prepare = prepare,
	.operation = operation,
	.last = last,
};
