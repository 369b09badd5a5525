/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef OPENED_H
#define OPENED_H

#include "spread.h"

/*
 * Runs a program that ends when it likes, with the window where PW_OPENS says, and never
 * returns:
 *
 *	time	PW_AFTER milliseconds after it began, for PW_LASTS of them
 *	lines	from a line that has PW_FROM to one that has PW_TO, of what it prints
 *	signals	from its SIGUSR1 to its parent to its SIGUSR2
 *
 * But by time the program and what it started in its process group are stopped until all
 * containers are as far.
 */
void opened(const struct plan *plan, const char *how, char **command) __attribute__((noreturn));

#endif
