// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "harness.h"
#include "partywall.h"

struct barrier *barrier_map(const char *path, unsigned int round)
{
	struct barrier *b;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	b = mmap(NULL, BARRIER_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 (off_t)round * BARRIER_PAGE);
	close(fd);
	return b == MAP_FAILED ? NULL : b;
}

void gate_open(struct gate *gate)
{
	atomic_store(&gate->open, 1);
	syscall(SYS_futex, &gate->open, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int gate_wait(struct barrier *b, struct gate *gate, unsigned int parties)
{
	if (atomic_fetch_add(&gate->came, 1) + 1 == parties)
		gate_open(gate);
	while (!atomic_load(&gate->open))
		syscall(SYS_futex, &gate->open, FUTEX_WAIT, 0, NULL, NULL, 0);
	/* Before and after its windows a round goes on whatever became of it. */
	return gate < &b->start || gate >= &b->ready || !atomic_load(&b->failed);
}

_Static_assert(sizeof(struct barrier) <= BARRIER_PAGE, "a round has one page");

void barrier_fail(struct barrier *b, const char *why)
{
	unsigned int place = atomic_fetch_add(&b->reasons, 1);

	/* Whoever sees that the round failed may end all others: not before the reason is there. */
	if (place < REASONS) {
		strncpy(b->why[place].text, why, REASON_LENGTH - 1);
		atomic_store(&b->why[place].whole, 1);
	}
	atomic_store(&b->failed, 1);
	for (struct gate *gate = &b->start; gate < &b->ready; gate++)
		gate_open(gate);
}

const char *barrier_why(const struct barrier *b)
{
	for (unsigned int n = 0; n < REASONS; n++)
		if (atomic_load(&b->why[n].whole))
			return b->why[n].text;
	return "nobody could say why";
}

/* The round that this process is of, or -1. */
static long own_round(void)
{
	const char *value = getenv("PW_ROUND");

	return value ? strtol(value, NULL, 10) : -1;
}

int round_failed(const char *why)
{
	const char *path = getenv("PW_BARRIER");
	long round = own_round();
	struct barrier *b = round < 0 || !path ? NULL : barrier_map(path, round);

	if (b)
		barrier_fail(b, why);
	return !!b;
}

static struct barrier *mapped(const char *path, long round)
{
	struct barrier *b = barrier_map(path, round < 0 ? 0 : round);

	if (!b)
		fail("mmap of the barrier");
	return b;
}

/*
 * A mapping that all containers share would be a wall of the instrument's own
 * making in any workload that forks: no child has it, and who can do without
 * it before the window does.
 */
struct barrier *barrier_keep(const char *path)
{
	struct barrier *b = mapped(path, own_round());

	if (madvise(b, BARRIER_PAGE, MADV_DONTFORK))
		fail("madvise of the barrier");
	return b;
}

void barrier_meet(struct barrier *b, unsigned int parties)
{
	if (!gate_wait(b, &b->start, parties))
		_exit(1);
}

void barrier_wait(const char *path, unsigned int parties)
{
	struct barrier *b = mapped(path, own_round());

	barrier_meet(b, parties);
	munmap(b, BARRIER_PAGE);
}

void barrier_settle(const char *path, unsigned int parties, unsigned int index)
{
	struct barrier *b;

	if (own_round() >= 0)
		return;
	b = mapped(path, 0);
	gate_wait(b, &b->here, parties);
	if (!index) {
		sync();
		sleep(SETTLE_SECONDS);
	}
	gate_wait(b, &b->settled, parties);
	munmap(b, BARRIER_PAGE);
}

void barrier_look(const char *path, unsigned int n, unsigned int parties)
{
	/* Only while it waits: an operation may work beside its own memory, where this would be. */
	struct barrier *b = mapped(path, own_round());

	if (!gate_wait(b, &b->looks[n], parties))
		_exit(1);
	munmap(b, BARRIER_PAGE);
}

void barrier_held(const char *path, unsigned int n, unsigned int parties)
{
	const struct timespec moment = { .tv_nsec = 5000000 };
	struct barrier *b = mapped(path, own_round());

	/* Who has left does not come any more: nobody is to wait for that one. */
	while (!atomic_load(&b->failed) && !atomic_load(&b->end.came)) {
		if (atomic_load(&b->looks[n].came) >= parties - 1) {
			sync();
			sleep(SETTLE_SECONDS);
			partywall_look();
			break;
		}
		nanosleep(&moment, NULL);
	}
	gate_open(&b->looks[n]);
	if (atomic_load(&b->failed))
		_exit(1);
	munmap(b, BARRIER_PAGE);
}

void barrier_leave(const char *path, unsigned int parties)
{
	long round = own_round();
	struct barrier *b;

	if (round < 0)
		for (;;)
			pause();
	b = mapped(path, round);
	_exit(!gate_wait(b, &b->end, parties));
}
