// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes of what the kernel module in module/ has, which must be loaded. */
#include <fcntl.h>
#include <sys/ioctl.h>

#include "operations.h"

#define TAKE(kind) _IO(0xb8, kind)

static int capped;

static void prepare(const struct run *run)
{
	(void)run;
	capped = open("/proc/partywall-capped", O_RDONLY | O_CLOEXEC);
	check(capped < 0, "/proc/partywall-capped");
}

static void take(unsigned int kind)
{
	check(ioctl(capped, TAKE(kind)), "ioctl of /proc/partywall-capped");
}

#define OPERATION(name, kind)			\
	static void op_##name(unsigned long n)	\
	{					\
		(void)n;			\
		take(kind);			\
	}

OPERATION(knob, 0)
OPERATION(hard, 1)
OPERATION(two, 2)
OPERATION(stays, 3)
OPERATION(own, 4)
OPERATION(free, 5)
OPERATION(process, 6)
OPERATION(passes, 7)

FAMILY({ "knob", op_knob, prepare },
       { "hard", op_hard, prepare },
       { "two", op_two, prepare },
       { "stays", op_stays, prepare },
       { "own", op_own, prepare },
       { "free", op_free, prepare },
       { "process", op_process, prepare },
       { "passes", op_passes, prepare });
