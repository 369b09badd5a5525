/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What programs tell the plugin that holds a processor (plugin/hold.c): instructions that
 * do nothing, and that nobody else has.
 */
#ifndef HOLD_H
#define HOLD_H

#define HOLD_WORD(n) asm volatile(".byte 0x0f, 0x1f, 0x80, " #n ", 0x00, 0x57, 0x50" ::: "memory")

/* This processor is held when it comes to the place. */
static inline void hold_next(void)
{
	HOLD_WORD(1);
}

/* Returns when the other one is held. */
static inline void hold_await(void)
{
	HOLD_WORD(2);
}

/* Lets it go on. */
static inline void hold_let(void)
{
	HOLD_WORD(3);
}

#endif
