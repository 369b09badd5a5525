/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Window markers.  Both instructions do nothing on any x86-64 processor; the
 * recorder knows them by their bytes.  Everything that a CPU does between its
 * start and its stop is measured, so put them around steady work, after
 * warm-up, in the thread that works.
 */
#ifndef PARTYWALL_H
#define PARTYWALL_H

static inline void partywall_start(void)
{
	__asm__ volatile("xchg %%bx, %%bx" : : : "memory");
}

static inline void partywall_stop(void)
{
	__asm__ volatile("xchg %%cx, %%cx" : : : "memory");
}

/* Windows follow that stand for themselves: those before are over, or of no use. */
static inline void partywall_next(void)
{
	__asm__ volatile("xchg %%dx, %%dx" : : : "memory");
}

/* Whoever recorded is to look at the guest's memory. Between windows, by one alone. */
static inline void partywall_look(void)
{
	__asm__ volatile("xchg %%si, %%si" : : : "memory");
}

#endif
