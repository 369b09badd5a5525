// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Overlays are mounted, remounted, nested and torn down while processes work
 * in them, are killed in the midst, exec from them, and read asynchronously.
 *
 *	mounts SECONDS
 *
 * Prints how many operations and mounts there were. What is looked for is what
 * the kernel says, and how many credentials are left.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define BASE "/stress"
#define MOUNTS 4
#define WORKERS 6
#define FILES 8

struct shared {
	atomic_long ops, mounts, asynchronous, kills, execs;
	atomic_int stop;
};

static struct shared *shared;
static unsigned int seed;
static char path[128], other[160];

static unsigned int dice(unsigned int sides)
{
	return rand_r(&seed) % sides;
}

static void pause_us(unsigned int us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

static void must(int ok, const char *what)
{
	if (!ok) {
		printf("BROKEN %s: %s\n", what, strerror(errno));
		fflush(stdout);
		_exit(1);
	}
}

static int is_over(void)
{
	return atomic_load(&shared->stop);
}

/* Mount n comes and goes. An odd one lies on the one before it. */
static void mounter(int n)
{
	char where[64], options[512], lower[64] = BASE "/lower";
	int round;

	snprintf(where, sizeof(where), BASE "/m%d", n);
	if (n % 2)
		snprintf(lower, sizeof(lower), BASE "/m%d/a", n - 1);
	for (round = 0; !is_over(); round++) {
		snprintf(path, sizeof(path), BASE "/u%d-%d", n, round % 3);
		snprintf(other, sizeof(other), BASE "/w%d-%d", n, round % 3);
		mkdir(path, 0777);
		mkdir(other, 0777);
		snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s%s", lower,
			 path, other, dice(2) ? ",metacopy=on" : "");
		if (mount("overlay", where, "overlay", 0, options)) {
			/* Its upper layer may still be held by a file of the last round. */
			pause_us(200);
			continue;
		}
		atomic_fetch_add(&shared->mounts, 1);
		pause_us(dice(20000));
		if (!dice(3)) {
			mount("overlay", where, "overlay", MS_REMOUNT | MS_RDONLY, NULL);
			pause_us(dice(2000));
			mount("overlay", where, "overlay", MS_REMOUNT, NULL);
		}
		while (umount2(where, dice(2) ? MNT_DETACH : 0) && !is_over())
			pause_us(500);
	}
	while (!umount2(where, MNT_DETACH))
		;
}

static void pick(void)
{
	snprintf(path, sizeof(path), BASE "/m%u/a/b/file-%u", dice(MOUNTS), dice(FILES));
}

/* Others make files shorter: what is mapped may be beyond the end. */
static sigjmp_buf beyond;

static void on_bus_error(int signo)
{
	(void)signo;
	siglongjmp(beyond, 1);
}

static void use_open_file(void)
{
	int fd = open(path, dice(2) ? O_RDONLY : O_RDWR);
	char byte = 0;
	char *volatile page;

	if (fd < 0)
		return;
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (pread(fd, &byte, 1, 0) == 1 && dice(2) && pwrite(fd, &byte, 1, 0) == 1)
		fsync(fd);
	close(fd);
	/* The mapping keeps the file of the layer, and may be its last user. */
	pause_us(dice(3000));
	if (page != MAP_FAILED) {
		if (!sigsetjmp(beyond, 1))
			(void)*(volatile char *)page;
		munmap(page, 4096);
	}
}

static void use_names(void)
{
	int fd;

	snprintf(other, sizeof(other), "%s-%d", path, getpid());
	fd = open(other, O_CREAT | O_EXCL | O_WRONLY, 0644);
	if (fd >= 0)
		close(fd);
	rename(other, path);
	link(path, other);
	unlink(other);
	snprintf(other, sizeof(other), BASE "/m%u/a/d-%d", dice(MOUNTS), getpid());
	mkdir(other, 0755);
	rmdir(other);
	fd = open(BASE "/m0/a", O_TMPFILE | O_RDWR, 0644);
	if (fd >= 0)
		close(fd);
}

static void use_directory(void)
{
	DIR *d;

	snprintf(other, sizeof(other), BASE "/m%u/a/b", dice(MOUNTS));
	d = opendir(other);
	if (!d)
		return;
	while (readdir(d))
		;
	closedir(d);
	/* What is under foot may be unmounted; leaving it may then be the end of it. */
	if (!chdir(other)) {
		pause_us(dice(3000));
		access("file-1", R_OK);
		must(!chdir("/"), "chdir");
	}
}

static void use_exec(void)
{
	pid_t pid = fork();

	if (!pid) {
		snprintf(other, sizeof(other), BASE "/m%u/a/program", dice(MOUNTS));
		execl(other, "true", NULL);
		_exit(1);
	}
	if (pid > 0) {
		waitpid(pid, NULL, 0);
		atomic_fetch_add(&shared->execs, 1);
	}
}

static void use_attributes(void)
{
	char value[64];

	setxattr(path, "user.s", "v", 1, 0);
	getxattr(path, "user.s", value, sizeof(value));
	listxattr(path, value, sizeof(value));
	chmod(path, dice(2) ? 0644 : 0666);
	truncate(path, dice(4096));
}

static void worker(void)
{
	signal(SIGBUS, on_bus_error);
	setfsuid(dice(2) ? 0 : 1000);
	while (!is_over()) {
		pick();
		for (int n = 0; n < 20; n++)
			access(path, R_OK);
		switch (dice(8)) {
		case 0: use_names(); break;
		case 1: use_directory(); break;
		case 2: use_attributes(); break;
		case 3: use_exec(); break;
		default: use_open_file(); break;
		}
		atomic_fetch_add(&shared->ops, 21);
	}
}

/* A ring of eight entries, and reads in it that outlive the file descriptor. */
static void ring_reader(void)
{
	struct io_uring_params p = { 0 };
	int ring = syscall(SYS_io_uring_setup, 8, &p);
	unsigned int *tail, *mask, *array, *cq_head, *cq_tail;
	struct io_uring_sqe *sqes;
	static char buffer[8][4096];
	char *sq;

	must(ring >= 0, "io_uring_setup");
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4 + p.cq_off.cqes + 16 * p.cq_entries,
		  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	sqes = mmap(NULL, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	must(sq != MAP_FAILED && sqes != MAP_FAILED, "the ring");
	tail = (void *)(sq + p.sq_off.tail);
	mask = (void *)(sq + p.sq_off.ring_mask);
	array = (void *)(sq + p.sq_off.array);
	cq_head = (void *)(sq + p.cq_off.head);
	cq_tail = (void *)(sq + p.cq_off.tail);
	while (!is_over()) {
		unsigned int slot = *tail & *mask;
		int fd;

		pick();
		fd = open(path, O_RDWR | (dice(2) ? O_DIRECT : 0));
		if (fd < 0)
			continue;
		memset(&sqes[slot], 0, sizeof(*sqes));
		sqes[slot].opcode = dice(3) ? IORING_OP_READ : IORING_OP_WRITE;
		sqes[slot].flags = dice(2) ? IOSQE_ASYNC : 0;
		sqes[slot].fd = fd;
		sqes[slot].addr = (unsigned long)buffer[slot];
		sqes[slot].len = sizeof(buffer[slot]);
		array[slot] = slot;
		__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
		if (syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) == 1)
			atomic_fetch_add(&shared->asynchronous, 1);
		close(fd);
		if (dice(2))
			syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
		__atomic_store_n(cq_head, __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	}
}

static void aio_reader(void)
{
	static char buffer[4096] __attribute__((aligned(4096)));
	aio_context_t context = 0;
	struct io_event event;

	must(!syscall(SYS_io_setup, 8, &context), "io_setup");
	while (!is_over()) {
		struct iocb io = { .aio_buf = (unsigned long)buffer, .aio_nbytes = sizeof(buffer) };
		struct iocb *list = &io;
		int fd;

		pick();
		fd = open(path, O_RDWR | O_DIRECT);
		if (fd < 0)
			continue;
		io.aio_fildes = fd;
		io.aio_lio_opcode = dice(3) ? IOCB_CMD_PREAD : IOCB_CMD_FSYNC;
		if (io.aio_lio_opcode == IOCB_CMD_FSYNC)
			io.aio_buf = io.aio_nbytes = 0;
		if (syscall(SYS_io_submit, context, 1, &list) == 1) {
			atomic_fetch_add(&shared->asynchronous, 1);
			close(fd);
			syscall(SYS_io_getevents, context, 1, 1, &event, NULL);
		} else {
			close(fd);
		}
	}
}

static pid_t start(int n)
{
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid)
		return pid;
	seed = n * 7919 + getpid();
	if (n < MOUNTS)
		mounter(n);
	else if (n == MOUNTS)
		ring_reader();
	else if (n == MOUNTS + 1)
		aio_reader();
	else
		worker();
	_exit(0);
}

static void lower_layer(void)
{
	char data[4096];
	int fd, from;
	ssize_t n;

	must(!mkdir(BASE, 0755) || errno == EEXIST, BASE);
	must(!mount("stress", BASE, "tmpfs", 0, "mode=755"), "tmpfs");
	must(!mkdir(BASE "/lower", 0755) && !mkdir(BASE "/lower/a", 0777) &&
	     !mkdir(BASE "/lower/a/b", 0777) && !mkdir(BASE "/lower/a/a", 0777) &&
	     !mkdir(BASE "/lower/a/a/b", 0777), "lower");
	memset(data, 'x', sizeof(data));
	for (int n = 0; n < FILES * 2; n++) {
		snprintf(path, sizeof(path), BASE "/lower/a/%sb/file-%d", n < FILES ? "" : "a/",
			 n % FILES);
		fd = open(path, O_CREAT | O_WRONLY, 0666);
		must(fd >= 0 && write(fd, data, sizeof(data)) == sizeof(data), path);
		close(fd);
	}
	from = open("/bin/busybox", O_RDONLY);
	fd = open(BASE "/lower/a/program", O_CREAT | O_WRONLY, 0755);
	must(fd >= 0 && from >= 0, "program");
	while ((n = read(from, data, sizeof(data))) > 0)
		must(write(fd, data, n) == n, "program");
	close(fd);
	close(from);
	for (int n = 0; n < MOUNTS; n++) {
		snprintf(path, sizeof(path), BASE "/m%d", n);
		must(!mkdir(path, 0755), path);
	}
}

int main(int argc, char **argv)
{
	const int all = MOUNTS + 2 + WORKERS;
	pid_t pids[MOUNTS + 2 + WORKERS];
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
	int status = 0, ended;

	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(shared != MAP_FAILED, "mmap");
	lower_layer();
	for (int n = 0; n < all; n++)
		pids[n] = start(n);
	seed = 1;
	while (time(NULL) < end) {
		int n = MOUNTS + dice(2 + WORKERS);

		pause_us(50000);
		kill(pids[n], SIGKILL);
		must(waitpid(pids[n], NULL, 0) == pids[n], "wait");
		atomic_fetch_add(&shared->kills, 1);
		pids[n] = start(n);
	}
	atomic_store(&shared->stop, 1);
	for (int n = 0; n < all; n++) {
		must(waitpid(pids[n], &ended, 0) == pids[n], "wait");
		status |= ended;
	}
	must(!umount2(BASE, MNT_DETACH), "umount");
	printf("%ld operations, %ld mounts, %ld asynchronous, %ld kills, %ld execs\n", shared->ops,
	       shared->mounts, shared->asynchronous, shared->kills, shared->execs);
	return !!status;
}
