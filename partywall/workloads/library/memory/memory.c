// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "operations.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define PAGE 4096UL
#define PAGES 4
#define AREA (PAGES * PAGE)
#define HUGE (2UL << 20)
#define MANY 16

/* What operations work on, made by prepare(). */
static volatile char *area;
static int fd = -1;
static uint32_t word, other_word;
static uint32_t *shared_word;

static void *map(size_t size, int flags, int of)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, of, 0);

	check(at == MAP_FAILED, "mmap");
	return at;
}

static void unmap(volatile void *at, size_t size)
{
	check(munmap((void *)at, size), "munmap");
}

static void advise(volatile void *at, size_t size, int advice)
{
	check(madvise((void *)at, size, advice), "madvise");
}

/* A file of four pages in a directory, open as fd, whose name is gone again. */
static void make_file(const struct run *run, const char *directory)
{
	static const char pages[AREA];
	char path[96];

	snprintf(path, sizeof(path), "%s/memory-%u", directory, run->index);
	fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
	check(fd < 0, "making a file");
	check(write(fd, pages, sizeof(pages)) != sizeof(pages), "write");
	check(unlink(path), "unlink");
}

static void make_memfd(void)
{
	fd = memfd_create("memory", MFD_CLOEXEC);
	check(fd < 0, "memfd_create");
	check(ftruncate(fd, AREA), "ftruncate");
}

static void prepare_anonymous(const struct run *run)
{
	area = map(AREA, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	area[0] = 1;
}

static void prepare_shared_anonymous(const struct run *run)
{
	area = map(AREA, MAP_SHARED | MAP_ANONYMOUS, -1);
	area[0] = 1;
}

static void prepare_overlay(const struct run *run)
{
	make_file(run, "/tmp");
	area = map(AREA, MAP_SHARED, fd);
}

static void prepare_overlay_private(const struct run *run)
{
	make_file(run, "/tmp");
	area = map(AREA, MAP_PRIVATE, fd);
}

static void prepare_volume(const struct run *run)
{
	make_file(run, "/volume");
	area = map(AREA, MAP_SHARED, fd);
}

static void prepare_tmpfs(const struct run *run)
{
	make_file(run, "/dev/shm");
	area = map(AREA, MAP_SHARED, fd);
}

static void prepare_memfd(const struct run *run)
{
	make_memfd();
	area = map(AREA, MAP_SHARED, fd);
}

/* A page of the program's own file: all containers' in the lower layer. */
static void prepare_program(const struct run *run)
{
	fd = open("/proc/self/exe", O_RDONLY);
	check(fd < 0, "opening the program");
	area = mmap(NULL, AREA, PROT_READ, MAP_PRIVATE, fd, 0);
	check(area == MAP_FAILED, "mmap");
}

static void prepare_huge(const struct run *run)
{
	uintptr_t at = (uintptr_t)map(2 * HUGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	unsigned char last;

	area = (char *)((at + HUGE - 1) & -HUGE);
	advise(area, HUGE, MADV_HUGEPAGE);
	/* Where there is none to be had, a small page would be measured. */
	area[0] = 1;
	check(mincore((char *)area + HUGE - PAGE, PAGE, &last), "mincore");
	errno = ENOMEM;
	check(!(last & 1), "a huge page");
}

static void op_mmap(unsigned long n)
{
	unmap(map(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1), PAGE);
}

static void op_mmap_populate(unsigned long n)
{
	unmap(map(AREA, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1), AREA);
}

static void op_mmap_shared(unsigned long n)
{
	unmap(map(PAGE, MAP_SHARED | MAP_ANONYMOUS, -1), PAGE);
}

static void op_mmap_file(unsigned long n)
{
	unmap(map(PAGE, MAP_SHARED, fd), PAGE);
}

static void op_mmap_program(unsigned long n)
{
	void *at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	check(at == MAP_FAILED, "mmap");
	unmap(at, PAGE);
}

static void op_mmap_many(unsigned long n)
{
	void *at[MANY];

	/* Each other way, so that no two of them become one. */
	for (int k = 0; k < MANY; k++) {
		at[k] = mmap(NULL, PAGE, k % 2 ? PROT_READ : PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		check(at[k] == MAP_FAILED, "mmap");
	}
	for (int k = 0; k < MANY; k++)
		unmap(at[k], PAGE);
}

static void op_mmap_fixed(unsigned long n)
{
	void *at = mmap((void *)area, PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	check(at == MAP_FAILED, "mmap");
	area[0] = 1;
}

/* A write to a page that is not mapped: the page is taken away behind it. */
static void op_fault_write(unsigned long n)
{
	area[0] = n;
	advise(area, PAGE, MADV_DONTNEED);
}

static void op_fault_read(unsigned long n)
{
	(void)area[0];
	advise(area, PAGE, MADV_DONTNEED);
}

static void op_fault_huge(unsigned long n)
{
	area[0] = n;
	advise(area, HUGE, MADV_DONTNEED);
}

static void op_fault_around(unsigned long n)
{
	for (int k = 0; k < PAGES; k++)
		area[k * PAGE] = n;
	advise(area, AREA, MADV_DONTNEED);
}

static void op_brk(unsigned long n)
{
	check(sbrk(PAGE) == (void *)-1, "brk");
	check(sbrk(-PAGE) == (void *)-1, "brk");
}

static void op_brk_write(unsigned long n)
{
	volatile char *at = sbrk(AREA);

	check(at == (void *)-1, "brk");
	at[AREA - 1] = 1;
	check(sbrk(-AREA) == (void *)-1, "brk");
}

static void op_madvise_free(unsigned long n)
{
	area[0] = n;
	advise(area, PAGE, MADV_FREE);
	/* A page is marked but once: the next operation has another one. */
	advise(area, PAGE, MADV_DONTNEED);
}

static void op_madvise_willneed(unsigned long n)
{
	advise(area, AREA, MADV_WILLNEED);
}

static void op_madvise_cold(unsigned long n)
{
	area[0] = n;
	advise(area, PAGE, MADV_COLD);
}

static void op_madvise_remove(unsigned long n)
{
	area[0] = n;
	advise(area, PAGE, MADV_REMOVE);
}

static void op_madvise_random(unsigned long n)
{
	advise(area, AREA, n % 2 ? MADV_NORMAL : MADV_RANDOM);
}

static void protect(size_t at, size_t size, int how)
{
	check(mprotect((char *)area + at, size, how), "mprotect");
}

static void op_mprotect(unsigned long n)
{
	protect(0, AREA, PROT_READ);
	protect(0, AREA, PROT_READ | PROT_WRITE);
}

static void op_mprotect_split(unsigned long n)
{
	protect(PAGE, PAGE, PROT_NONE);
	protect(PAGE, PAGE, PROT_READ | PROT_WRITE);
}

static void op_mlock(unsigned long n)
{
	check(mlock((void *)area, PAGE), "mlock");
	check(munlock((void *)area, PAGE), "munlock");
}

static void op_mlock_onfault(unsigned long n)
{
	check(mlock2((void *)area, PAGE, MLOCK_ONFAULT), "mlock2");
	check(munlock((void *)area, PAGE), "munlock");
}

static void op_mremap(unsigned long n)
{
	void *at = map(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	at = mremap(at, PAGE, AREA, MREMAP_MAYMOVE);
	check(at == MAP_FAILED, "mremap");
	at = mremap(at, AREA, PAGE, 0);
	check(at == MAP_FAILED, "mremap");
	unmap(at, PAGE);
}

/* There and back between two places of which one is free. */
static void op_mremap_move(unsigned long n)
{
	char *to = (char *)area + PAGE;

	check(mremap((void *)area, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to, "mremap");
	check(mremap(to, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area) != area, "mremap");
}

static void prepare_move(const struct run *run)
{
	area = map(2 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	area[0] = 1;
	unmap(area + PAGE, PAGE);
}

static void op_msync(unsigned long n)
{
	area[0] = n;
	check(msync((void *)area, PAGE, MS_SYNC), "msync");
}

static void op_msync_async(unsigned long n)
{
	area[0] = n;
	check(msync((void *)area, PAGE, MS_ASYNC), "msync");
}

static void op_mincore(unsigned long n)
{
	unsigned char resident[PAGES];

	check(mincore((void *)area, AREA, resident), "mincore");
}

static void op_memfd(unsigned long n)
{
	int made = memfd_create("memory", MFD_CLOEXEC);

	check(made < 0, "memfd_create");
	close(made);
}

static void op_memfd_write(unsigned long n)
{
	int made = memfd_create("memory", MFD_CLOEXEC);

	check(made < 0, "memfd_create");
	check(write(made, "x", 1) != 1, "write");
	close(made);
}

static void op_memfd_seal(unsigned long n)
{
	int made = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	check(made < 0, "memfd_create");
	check(fcntl(made, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), "F_ADD_SEALS");
	close(made);
}

static void op_memfd_resize(unsigned long n)
{
	check(ftruncate(fd, 2 * AREA), "ftruncate");
	check(ftruncate(fd, AREA), "ftruncate");
}

static void op_memfd_punch(unsigned long n)
{
	check(fallocate(fd, 0, 0, PAGE), "fallocate");
	check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE), "fallocate");
}

static void membarrier_do(int command)
{
	check(syscall(SYS_membarrier, command, 0, 0) < 0, "membarrier");
}

static void op_membarrier(unsigned long n)
{
	membarrier_do(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

static void prepare_membarrier(const struct run *run)
{
	membarrier_do(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

static void op_membarrier_global(unsigned long n)
{
	membarrier_do(MEMBARRIER_CMD_GLOBAL);
}

static void op_membarrier_global_expedited(unsigned long n)
{
	membarrier_do(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

static char source[512], target[512];

static void op_vm_readv(unsigned long n)
{
	struct iovec local = { target, sizeof(target) }, remote = { source, sizeof(source) };

	check(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != sizeof(target),
	      "process_vm_readv");
}

static void op_vm_writev(unsigned long n)
{
	struct iovec local = { source, sizeof(source) }, remote = { target, sizeof(target) };

	check(process_vm_writev(getpid(), &local, 1, &remote, 1, 0) != sizeof(target),
	      "process_vm_writev");
}

static long futex(uint32_t *at, int command, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, at, command, value, timeout, NULL, 0);
}

static void prepare_shared_word(const struct run *run)
{
	prepare_memfd(run);
	shared_word = (uint32_t *)area;
	*shared_word = 0;
}

static void op_futex_wake(unsigned long n)
{
	check(futex(&word, FUTEX_WAKE_PRIVATE, 1, NULL) != 0, "FUTEX_WAKE");
}

static void op_futex_wake_shared(unsigned long n)
{
	check(futex(shared_word, FUTEX_WAKE, 1, NULL) != 0, "FUTEX_WAKE");
}

static void op_futex_wait(unsigned long n)
{
	check(futex(&word, FUTEX_WAIT_PRIVATE, 1, NULL) != -1 || errno != EAGAIN, "FUTEX_WAIT");
}

static void op_futex_wait_shared(unsigned long n)
{
	check(futex(shared_word, FUTEX_WAIT, 1, NULL) != -1 || errno != EAGAIN, "FUTEX_WAIT");
}

static const struct timespec moment = { .tv_nsec = 1 };

static void op_futex_timeout(unsigned long n)
{
	check(futex(&word, FUTEX_WAIT_PRIVATE, 0, &moment) != -1 || errno != ETIMEDOUT,
	      "FUTEX_WAIT");
}

static void op_futex_timeout_shared(unsigned long n)
{
	check(futex(shared_word, FUTEX_WAIT, 0, &moment) != -1 || errno != ETIMEDOUT,
	      "FUTEX_WAIT");
}

static void op_futex_pi(unsigned long n)
{
	check(futex(&word, FUTEX_LOCK_PI_PRIVATE, 0, NULL), "FUTEX_LOCK_PI");
	check(futex(&word, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL), "FUTEX_UNLOCK_PI");
}

static void op_futex_requeue(unsigned long n)
{
	check(syscall(SYS_futex, &word, FUTEX_REQUEUE_PRIVATE, 1, 1, &other_word, 0) != 0,
	      "FUTEX_REQUEUE");
}

static pthread_mutex_t robust;

static void prepare_robust(const struct run *run)
{
	pthread_mutexattr_t attr;

	errno = pthread_mutexattr_init(&attr);
	check(errno, "pthread_mutexattr_init");
	errno = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	check(errno, "pthread_mutexattr_setrobust");
	errno = pthread_mutex_init(&robust, &attr);
	check(errno, "pthread_mutex_init");
}

static void *lock_and_die(void *mutex)
{
	errno = pthread_mutex_lock(mutex);
	check(errno, "pthread_mutex_lock");
	return NULL;
}

static void op_futex_robust(unsigned long n)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, lock_and_die, &robust);
	check(errno, "pthread_create");
	errno = pthread_join(thread, NULL);
	check(errno, "pthread_join");
	errno = pthread_mutex_lock(&robust);
	check(errno != EOWNERDEAD, "pthread_mutex_lock of a dead thread's");
	errno = pthread_mutex_consistent(&robust);
	check(errno, "pthread_mutex_consistent");
	errno = pthread_mutex_unlock(&robust);
	check(errno, "pthread_mutex_unlock");
}

static void op_robust_list(unsigned long n)
{
	static struct robust_list_head head = { .list = { &head.list } };

	check(syscall(SYS_set_robust_list, &head, sizeof(head)), "set_robust_list");
}

static void op_mempolicy(unsigned long n)
{
	check(syscall(SYS_set_mempolicy, 0, NULL, 0), "set_mempolicy");
}

FAMILY({ "brk", op_brk, NULL },
       { "brk-write", op_brk_write, NULL },
       { "fault", op_fault_write, prepare_anonymous },
       { "fault-four", op_fault_around, prepare_anonymous },
       { "fault-huge", op_fault_huge, prepare_huge },
       { "fault-memfd", op_fault_write, prepare_memfd },
       { "fault-overlay", op_fault_write, prepare_overlay },
       { "fault-overlay-copy", op_fault_write, prepare_overlay_private },
       { "fault-overlay-read", op_fault_read, prepare_overlay_private },
       { "fault-program", op_fault_read, prepare_program },
       { "fault-shared", op_fault_write, prepare_shared_anonymous },
       { "fault-tmpfs", op_fault_write, prepare_tmpfs },
       { "fault-volume", op_fault_write, prepare_volume },
       { "fault-zero", op_fault_read, prepare_anonymous },
       { "futex-pi", op_futex_pi, NULL },
       { "futex-requeue", op_futex_requeue, NULL },
       { "futex-robust", op_futex_robust, prepare_robust },
       { "futex-timeout", op_futex_timeout, NULL },
       { "futex-timeout-shared", op_futex_timeout_shared, prepare_shared_word },
       { "futex-wait", op_futex_wait, NULL },
       { "futex-wait-shared", op_futex_wait_shared, prepare_shared_word },
       { "futex-wake", op_futex_wake, NULL },
       { "futex-wake-shared", op_futex_wake_shared, prepare_shared_word },
       { "madvise-cold", op_madvise_cold, prepare_anonymous },
       { "madvise-free", op_madvise_free, prepare_anonymous },
       { "madvise-random", op_madvise_random, prepare_overlay },
       { "madvise-remove", op_madvise_remove, prepare_memfd },
       { "madvise-willneed", op_madvise_willneed, prepare_overlay },
       { "membarrier", op_membarrier, prepare_membarrier },
       { "membarrier-global", op_membarrier_global, NULL },
       { "membarrier-global-expedited", op_membarrier_global_expedited, NULL },
       { "memfd", op_memfd, NULL },
       { "memfd-punch", op_memfd_punch, prepare_memfd },
       { "memfd-resize", op_memfd_resize, prepare_memfd },
       { "memfd-seal", op_memfd_seal, NULL },
       { "memfd-write", op_memfd_write, NULL },
       { "mempolicy", op_mempolicy, NULL },
       { "mincore", op_mincore, prepare_overlay },
       { "mlock", op_mlock, prepare_anonymous },
       { "mlock-onfault", op_mlock_onfault, prepare_anonymous },
       { "mmap", op_mmap, NULL },
       { "mmap-fixed", op_mmap_fixed, prepare_anonymous },
       { "mmap-many", op_mmap_many, NULL },
       { "mmap-memfd", op_mmap_file, prepare_memfd },
       { "mmap-overlay", op_mmap_file, prepare_overlay },
       { "mmap-populate", op_mmap_populate, NULL },
       { "mmap-program", op_mmap_program, prepare_program },
       { "mmap-shared", op_mmap_shared, NULL },
       { "mmap-tmpfs", op_mmap_file, prepare_tmpfs },
       { "mmap-volume", op_mmap_file, prepare_volume },
       { "mprotect", op_mprotect, prepare_anonymous },
       { "mprotect-split", op_mprotect_split, prepare_anonymous },
       { "mremap", op_mremap, NULL },
       { "mremap-move", op_mremap_move, prepare_move },
       { "msync", op_msync, prepare_volume },
       { "msync-async", op_msync_async, prepare_volume },
       { "msync-tmpfs", op_msync, prepare_tmpfs },
       { "robust-list", op_robust_list, NULL },
       { "vm-readv", op_vm_readv, NULL },
       { "vm-writev", op_vm_writev, NULL });
