/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where all processes of all containers meet: a file of zeroes that they map.
 * If programs run one after the other (PW_ROUND), each has a page of it.
 */
#ifndef BARRIER_H
#define BARRIER_H

#include <stdatomic.h>

#define BARRIER_PAGE 4096

/* Of a round: who came so far, and whether the gate is open. */
struct gate {
	_Atomic unsigned int came, open;
};

/* Memory is looked at before the operations, and after so many and twice as many more. */
#define LOOKS 3

/*
 * What the kernel does later is done then: callbacks of RCU, work items, the end of
 * namespaces. kfree_rcu() alone takes up to five seconds. Nobody runs, so that it costs
 * little.
 */
#define SETTLE_SECONDS 10

/* By then all have ended their windows, or have waited for nothing but more of the same. */
#define WINDOWS_END_SECONDS 10

/* Who says why may be killed meanwhile, by others that fail as well: each has a place. */
#define REASONS 16
#define REASON_LENGTH 124

struct reason {
	_Atomic unsigned int whole;
	char text[REASON_LENGTH];
};

/* Of what one container of two is asked to do; see take.h. */
struct ask {
	_Atomic unsigned int ready, asked, answered;
	unsigned int what;
	unsigned long count;		/* operations to try, or seconds to take for */
	_Atomic unsigned long done, numbers;	/* operations, and those of all times */
	_Atomic int error, stopped, over;
	int killed;
	unsigned int processes;
};

struct barrier {
	struct gate here, settled;	/* before the round */
	struct gate start, end;		/* of its windows */
	struct gate looks[LOOKS];	/* at memory, by who is in no container */
	struct gate ready;		/* for the next one */
	struct gate looked;		/* at what is left when all are gone */
	_Atomic unsigned int failed, reasons;
	struct ask asks[2];		/* of who takes, and of its neighbour */
	struct reason why[REASONS];
};

/* The page of a round in the file. */
struct barrier *barrier_map(const char *path, unsigned int round);

/* Lets all go that wait there, or will. */
void gate_open(struct gate *gate);

/* Returns 1 when `parties` have called it; 0 if it is of windows, and one of the round fails. */
int gate_wait(struct barrier *b, struct gate *gate, unsigned int parties);

/* Lets all go that wait for the round, and keeps the reason. */
void barrier_fail(struct barrier *b, const char *why);

/* What the first said that could say it all. */
const char *barrier_why(const struct barrier *b);

/* As barrier_fail(), in a process of a round. Returns 0 if it is of none. */
int round_failed(const char *why);

/*
 * Returns when `parties` processes have called it; ends the process if another
 * one of its round fails.
 */
void barrier_wait(const char *path, unsigned int parties);

/*
 * Returns when what starts containers has come to its end, of which much is done later, and
 * on any CPU: before the first operation of all `parties`, each with an index. Of a round
 * that has been waited for.
 */
void barrier_settle(const char *path, unsigned int parties, unsigned int index);

/* The same in two steps: maps the file, for the caller alone, and waits there. */
struct barrier *barrier_keep(const char *path);
void barrier_meet(struct barrier *b, unsigned int parties);

/* The same while memory is looked at for the nth time, by one of `parties`. */
void barrier_look(const char *path, unsigned int n, unsigned int parties);

/* The same for the one of them that has the guest held when the others are there. */
void barrier_held(const char *path, unsigned int n, unsigned int parties);

/*
 * Never returns. Others may still be in their window, so the kernel is left alone until
 * all are through; of a round, the process ends then.
 */
void barrier_leave(const char *path, unsigned int parties) __attribute__((noreturn));

#endif
