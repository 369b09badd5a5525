/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Strangers to the harness: started, listened to, and a window on all their CPUs. */
#ifndef PROCESSES_H
#define PROCESSES_H

#include <sys/types.h>

/* Begins a command that reads nothing and writes to `output`. */
pid_t begin(char **command, int output);

/* The same of one in which {requests} stands for a number. What it said before is gone. */
pid_t begin_asking(char **command, unsigned long requests, int output);

/* The last line of what somebody said, behind a colon; empty if that is nothing. */
const char *last_line(int said);

/* How many CPUs the caller may run on. */
unsigned int own_cpus(void);

/*
 * The window opens, or closes, on each of them. On the first one `before` is done right before
 * its window does so, and `after` right after that; either may be NULL.
 */
void mark(int opens, void (*before)(void), void (*after)(void));

#endif
