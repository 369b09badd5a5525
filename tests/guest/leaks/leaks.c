// SPDX-License-Identifier: GPL-2.0-or-later
/* One operation of the kernel module in module/, which must be loaded. */
#include <fcntl.h>
#include <sys/ioctl.h>

#include "harness.h"

#define OPERATION _IO(0xb7, 1)

static int leaks;

static void prepare(const struct run *run)
{
	(void)run;
	leaks = open("/proc/partywall-leaks", O_RDONLY | O_CLOEXEC);
	if (leaks < 0)
		fail("/proc/partywall-leaks");
}

static void operation(const struct run *run, unsigned long n)
{
	(void)run;
	if (ioctl(leaks, OPERATION, n))
		fail("ioctl of /proc/partywall-leaks");
}

const struct workload workload = { .prepare = prepare, .operation = operation };
