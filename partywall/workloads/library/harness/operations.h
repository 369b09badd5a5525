/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A family of operations in one file: each is a variant of the workload.
 *
 *	static void op_dup(unsigned long n) { ... }
 *	FAMILY({ "dup", op_dup },
 *	       { "pipe", op_pipe, prepare_pipe },
 *	       { "make", op_make, prepare_make, .last = last_make })
 *
 * defines `workload`.
 */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "harness.h"

struct operation {
	const char *name;
	/* Does operation number n. */
	void (*run)(unsigned long n);
	/* Makes what the operation needs.  Optional. */
	void (*prepare)(const struct run *run);
	/* As of a workload: waits for what is left to be done.  Optional. */
	void (*last)(unsigned long n);
};

/* Ends the process with what failed, if it did. */
static inline void check(int failed, const char *what)
{
	if (failed)
		fail(what);
}

/* A directory, which may be there. */
static inline void make_dir(const char *path)
{
	check(mkdir(path, 0755) && errno != EEXIST, path);
}

/* The operation that a variant names; ends the process if there is none. */
static inline const struct operation *operation_named(const struct operation *table,
						      size_t count, const char *name)
{
	for (size_t n = 0; n < count; n++)
		if (!strcmp(table[n].name, name))
			return &table[n];
	errno = EINVAL;
	fail(name);
}

#define FAMILY(...)							\
	/* What is optional may be left out. */				\
	_Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"") \
	static const struct operation operations[] = { __VA_ARGS__ };	\
	static const struct operation *chosen;				\
	static void prepare_chosen(const struct run *run)		\
	{								\
		chosen = operation_named(operations,			\
			sizeof(operations) / sizeof(*operations), run->variant); \
		if (chosen->prepare)					\
			chosen->prepare(run);				\
	}								\
	static void run_chosen(const struct run *run, unsigned long n)	\
	{								\
		(void)run;						\
		chosen->run(n);						\
	}								\
	static void last_chosen(const struct run *run, unsigned long n)	\
	{								\
		(void)run;						\
		(chosen->last ? chosen->last : chosen->run)(n);		\
	}								\
	const struct workload workload = {				\
		.prepare = prepare_chosen,				\
		.operation = run_chosen,				\
		.last = last_chosen,					\
	}

#endif
