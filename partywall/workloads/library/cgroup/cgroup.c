// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "operations.h"

/* The container's own cgroup is the root of its cgroup namespace. */
#define TOP "/sys/fs/cgroup"
#define PAGE 4096
/*
 * What is counted of memory is added up for a reader when 64 changes for each of
 * the machine's CPUs are new: 512 of 8. A page makes three, mapped and not any more.
 */
#define PAGES 512

/* Of this process: its cgroup, and two below it. */
static char own[48], below[2][64];
static int files[2] = { -1, -1 }, cgroup = -1;
static pid_t sleeper;
static char *memory;
static char buffer[16384];

/* As long as there is a text to write: a whole number, or 0 for ourselves. */
static int put(const char *dir, const char *name, const char *text)
{
	char path[128];
	int fd, failed;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	check(fd < 0, path);
	failed = write(fd, text, strlen(text)) < 0 ? errno : 0;
	close(fd);
	return failed;
}

static void must_put(const char *dir, const char *name, const char *text)
{
	errno = put(dir, name, text);
	check(errno, name);
}

static size_t get(const char *dir, const char *name)
{
	char path[128];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	check(fd < 0, path);
	length = read(fd, buffer, sizeof(buffer) - 1);
	check(length < 0, path);
	buffer[length] = 0;
	close(fd);
	return length;
}

static void make_dir(const char *path)
{
	check(mkdir(path, 0755) && errno != EEXIST, path);
}

/* Docker mounts it read-only. What is changed here is this process' own. */
static void make_writable(void)
{
	check(unshare(CLONE_NEWNS), "unshare(CLONE_NEWNS)");
	check(mount(NULL, TOP, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL),
	      "remounting " TOP);
}

/*
 * Only a cgroup without processes hands controllers on: all go to one below, as
 * the start script of Docker's own image for Docker in Docker has it. Siblings do
 * the same.
 */
static void hand_on(void)
{
	char wanted[512] = "", *word, *rest;
	int failed;

	make_dir(TOP "/init");
	get(TOP, "cgroup.controllers");
	for (word = strtok_r(buffer, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest))
		snprintf(wanted + strlen(wanted), sizeof(wanted) - strlen(wanted), "+%s ", word);
	do {
		get(TOP, "cgroup.procs");
		for (word = strtok_r(buffer, "\n", &rest); word; word = strtok_r(NULL, "\n", &rest)) {
			failed = put(TOP "/init", "cgroup.procs", word);
			errno = failed;
			check(failed && failed != ESRCH, "cgroup.procs");
		}
		failed = put(TOP, "cgroup.subtree_control", wanted);
		errno = failed;
		check(failed && failed != EBUSY, "cgroup.subtree_control");
	} while (failed);
}

static void prepare_name(const struct run *run)
{
	make_writable();
	hand_on();
	snprintf(own, sizeof(own), TOP "/pw-%u", run->index);
}

static void prepare_own(const struct run *run)
{
	prepare_name(run);
	make_dir(own);
}

static void prepare_within(const struct run *run)
{
	prepare_own(run);
	must_put(own, "cgroup.procs", "0");
}

static void prepare_two(const struct run *run)
{
	prepare_own(run);
	for (int n = 0; n < 2; n++) {
		snprintf(below[n], sizeof(below[n]), "%s/%d", own, n);
		make_dir(below[n]);
	}
	for (int n = 0; n < 2; n++) {
		snprintf(buffer, sizeof(buffer), "%s/cgroup.procs", below[n]);
		files[n] = open(buffer, O_WRONLY | O_CLOEXEC);
		check(files[n] < 0, buffer);
	}
}

static void prepare_clone(const struct run *run)
{
	prepare_own(run);
	cgroup = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	check(cgroup < 0, own);
}

static void prepare_sleeper(const struct run *run)
{
	prepare_own(run);
	sleeper = fork();
	check(sleeper < 0, "fork");
	if (!sleeper)
		for (;;)
			pause();
	snprintf(buffer, sizeof(buffer), "%d", sleeper);
	must_put(own, "cgroup.procs", buffer);
}

static void prepare_memory(const struct run *run)
{
	(void)run;
	/* Shared, so that the pages stay when they are not mapped any more. */
	memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(memory == MAP_FAILED, "mmap");
}

static void op_make(unsigned long n)
{
	(void)n;
	check(mkdir(own, 0755), "mkdir");
	check(rmdir(own), "rmdir");
}

/* Those that were removed die in work items, long after. */
static void last_make(unsigned long n)
{
	struct timespec moment = { .tv_nsec = 1000 * 1000 };

	op_make(n);
	while (get(TOP, "cgroup.stat"), !strstr(buffer, "nr_dying_descendants 0\n")) {
		nanosleep(&moment, NULL);
		if (moment.tv_nsec < 256 * 1000 * 1000)
			moment.tv_nsec *= 2;
	}
}

static void op_clone_into(unsigned long n)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = cgroup,
	};
	pid_t pid = syscall(SYS_clone3, &args, sizeof(args));
	int status;

	(void)n;
	if (!pid)
		_exit(0);
	check(pid < 0, "clone3");
	check(waitpid(pid, &status, 0) != pid || status, "waitpid");
}

static void op_move(unsigned long n)
{
	check(write(files[n % 2], "0", 1) != 1, "write to cgroup.procs");
}

static void op_memory_max(unsigned long n)
{
	must_put(own, "memory.max", n % 2 ? "256M" : "128M");
}

static void op_cpu_max(unsigned long n)
{
	must_put(own, "cpu.max", n % 2 ? "max 100000" : "90000 100000");
}

static void op_cpuset_cpus(unsigned long n)
{
	must_put(own, "cpuset.cpus", n % 2 ? "" : "0");
}

static void op_pids_max(unsigned long n)
{
	must_put(own, "pids.max", n % 2 ? "max" : "100");
}

static void op_freeze(unsigned long n)
{
	char path[64];
	struct pollfd events = { .events = POLLPRI };

	(void)n;
	snprintf(path, sizeof(path), "%s/cgroup.events", own);
	events.fd = open(path, O_RDONLY | O_CLOEXEC);
	check(events.fd < 0, path);
	must_put(own, "cgroup.freeze", "1");
	for (;;) {
		ssize_t length = pread(events.fd, buffer, sizeof(buffer) - 1, 0);

		check(length < 0, path);
		buffer[length] = 0;
		if (strstr(buffer, "frozen 1"))
			break;
		poll(&events, 1, 100);
	}
	close(events.fd);
	must_put(own, "cgroup.freeze", "0");
}

static void op_memory_stat(unsigned long n)
{
	(void)n;
	for (size_t page = 0; page < PAGES; page++)
		((volatile char *)memory)[page * PAGE] = 1;
	check(madvise(memory, PAGES * PAGE, MADV_DONTNEED), "madvise");
	get(TOP, "memory.stat");
}

static void op_io_stat(unsigned long n)
{
	(void)n;
	get(TOP, "io.stat");
}

static void op_pressure(unsigned long n)
{
	(void)n;
	get(TOP, "cpu.pressure");
}

static const struct operation operations[] = {
	{ "make", op_make, prepare_name },
	{ "clone-into", op_clone_into, prepare_clone },
	{ "move", op_move, prepare_two },
	{ "memory-max", op_memory_max, prepare_within },
	{ "cpu-max", op_cpu_max, prepare_within },
	{ "cpuset-cpus", op_cpuset_cpus, prepare_own },
	{ "pids-max", op_pids_max, prepare_within },
	{ "freeze", op_freeze, prepare_sleeper },
	{ "memory-stat-used", op_memory_stat, prepare_memory },
	{ "io-stat", op_io_stat, NULL },
	{ "pressure", op_pressure, NULL },
};

static const struct operation *chosen;

static void prepare(const struct run *run)
{
	chosen = operation_named(operations, sizeof(operations) / sizeof(*operations), run->variant);
	if (chosen->prepare)
		chosen->prepare(run);
}

static void operation(const struct run *run, unsigned long n)
{
	(void)run;
	chosen->run(n);
}

static void last(const struct run *run, unsigned long n)
{
	(void)run;
	if (chosen->run == op_make)
		last_make(n);
	else
		chosen->run(n);
}

const struct workload workload = { .prepare = prepare, .operation = operation, .last = last };
