/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BARRIER_H
#define BARRIER_H

/* Returns when `parties` processes have called it with the same zeroed file. */
void barrier_wait(const char *path, unsigned int parties);

#endif
