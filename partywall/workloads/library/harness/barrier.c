// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "barrier.h"
#include "harness.h"

struct barrier {
	_Atomic unsigned int arrived;
	_Atomic unsigned int open;
};

static struct barrier *map(const char *path)
{
	struct barrier *b;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		fail("open of the barrier");
	b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b == MAP_FAILED)
		fail("mmap of the barrier");
	close(fd);
	return b;
}

/*
 * A mapping that all containers share would be a wall of the instrument's own
 * making in any workload that forks: no child has it, and who can do without
 * it before the window does.
 */
struct barrier *barrier_keep(const char *path)
{
	struct barrier *b = map(path);

	if (madvise(b, 4096, MADV_DONTFORK))
		fail("madvise of the barrier");
	return b;
}

void barrier_meet(struct barrier *b, unsigned int parties)
{
	if (atomic_fetch_add(&b->arrived, 1) + 1 == parties) {
		atomic_store(&b->open, 1);
		syscall(SYS_futex, &b->open, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
	while (!atomic_load(&b->open))
		syscall(SYS_futex, &b->open, FUTEX_WAIT, 0, NULL, NULL, 0);
}

void barrier_wait(const char *path, unsigned int parties)
{
	struct barrier *b = map(path);

	barrier_meet(b, parties);
	munmap(b, 4096);
}
