// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives way to the other CPUs of the emulated machine, over and over.  Kernels
 * before 6.5 start CPUs one by one and wait for each in a loop that never
 * pauses; QEMU before 8.1, which counts instructions and runs CPUs in turn,
 * never gets to the CPU that is waited for.  With this to switch to, it does.
 *
 * Who waits is let look after each turn.  If this ran on until its time is over,
 * the CPU that is started would wait as well, in turns of three instructions.
 */
#include <sched.h>

int main(void)
{
	for (;;) {
		__builtin_ia32_pause();
		sched_yield();
	}
}
