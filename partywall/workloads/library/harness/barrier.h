/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BARRIER_H
#define BARRIER_H

struct barrier;

/* Returns when `parties` processes have called it with the same zeroed file. */
void barrier_wait(const char *path, unsigned int parties);

/* The same in two steps: maps the file, for the caller alone, and waits there. */
struct barrier *barrier_keep(const char *path);
void barrier_meet(struct barrier *b, unsigned int parties);

#endif
