/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much one container can take of what all containers have together. One, the first,
 * is asked to take all it can get; the other one, its neighbour, to try a few before,
 * meanwhile and after. Who asks is in no container (referee.c).
 */
#ifndef TAKE_H
#define TAKE_H

enum { TAKER, NEIGHBOUR };

enum {
	TRY,		/* so many operations, and to give back what was made */
	TAKE,		/* operations until one fails in a new process, or time is over */
	LET_GO,		/* what was taken */
	END,
};

#endif
