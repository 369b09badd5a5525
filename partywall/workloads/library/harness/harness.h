/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A workload is one C file that defines `workload`; the harness has main().
 * The harness starts one process per CPU of the container, each executed
 * anew, warms up, meets all processes of all containers at a barrier, and
 * runs the window.
 */
#ifndef HARNESS_H
#define HARNESS_H

struct run {
	unsigned int index;	/* of this process among all of all containers */
	unsigned int slot;	/* of this process within its container */
	unsigned int siblings;	/* processes of the container, this one included */
	/* It will do, numbered from 0; 0 if it runs until its time is over. */
	unsigned long operations;
	const char *variant;
};

struct workload {
	/* Makes what the operations need.  Optional. */
	void (*prepare)(const struct run *run);
	/* Does operation number n. */
	void (*operation)(const struct run *run, unsigned long n);
	/*
	 * Does the last operation of warm-up and window instead, and waits for
	 * what the ones before it left to be done.  Optional.
	 */
	void (*last)(const struct run *run, unsigned long n);
};

extern const struct workload workload;

/* Prints what failed, with errno, and ends the process with status 1. */
void fail(const char *what) __attribute__((noreturn));

/* What fail() calls first, if set; errno is that of what failed. */
extern void (*failing)(void);

#endif
