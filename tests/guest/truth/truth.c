// SPDX-License-Identifier: GPL-2.0-or-later
/* One operation of the kernel module in module/, which must be loaded. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "harness.h"

#define OPERATION _IO(0xb7, 1)
#define SETTLE _IO(0xb7, 2)
#define WITHOUT_TURNS _IO(0xb7, 3)
#define IN_PAIRS _IO(0xb7, 4)
#define HELD _IO(0xb7, 5)
#define HELD_BUSILY _IO(0xb7, 6)
#define HELD_MOVED _IO(0xb7, 7)
#define HELD_OTHERWISE _IO(0xb7, 8)
#define HELD_WAITING _IO(0xb7, 9)

static int truth;
static unsigned long containers;

static void prepare(const struct run *run)
{
	truth = open("/proc/partywall-truth", O_RDONLY | O_CLOEXEC);
	if (truth < 0)
		fail("/proc/partywall-truth");
	/* Each has one process. */
	containers = atoi(getenv("PW_PROCS"));
	(void)run;
}

static void command(unsigned long what, const struct run *run, unsigned long n)
{
	if (ioctl(truth, what, n << 16 | containers << 8 | run->index))
		fail("ioctl of /proc/partywall-truth");
}

static void operation(const struct run *run, unsigned long n)
{
	unsigned long what = OPERATION;

	if (!strcmp(run->variant, "without-turns"))
		what = WITHOUT_TURNS;
	if (!strcmp(run->variant, "in-pairs"))
		what = IN_PAIRS;
	if (!strcmp(run->variant, "held"))
		what = HELD;
	if (!strcmp(run->variant, "held-busily"))
		what = HELD_BUSILY;
	if (!strcmp(run->variant, "held-moved"))
		what = HELD_MOVED;
	if (!strcmp(run->variant, "held-otherwise"))
		what = HELD_OTHERWISE;
	if (!strcmp(run->variant, "held-waiting"))
		what = HELD_WAITING;
	command(what, run, n);
}

/* What was left to RCU belongs to its window. */
static void last(const struct run *run, unsigned long n)
{
	operation(run, n);
	command(SETTLE, run, n);
}

const struct workload workload = {
	.prepare = prepare,
	.operation = operation,
	.last = last,
};
