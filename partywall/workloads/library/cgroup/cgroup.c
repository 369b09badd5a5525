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

#include "cgroups.h"
#include "operations.h"

#define PAGE 4096
/*
 * What is counted of memory is added up for a reader when 64 changes for each of
 * the machine's CPUs are new. A page makes three, mapped and not any more.
 */
#define LEAST_PAGES 512
#define PAGES_PER_CPU 22

/* Of this process: its cgroup, and two below it. */
static char own[48], below[2][64];
static int files[2] = { -1, -1 }, cgroup = -1;
/* To a process in it, and from that: a byte each. */
static int question[2], answer[2];
static size_t pages;
static char *memory;

static void prepare_own(const struct run *run)
{
	cgroups_make_writable();
	cgroups_hand_on();
	snprintf(own, sizeof(own), CGROUPS "/pw-%u", run->index);
	make_dir(own);
}

/* One with the container's controllers, whose dead are this process' own. */
static void prepare_below(const struct run *run)
{
	prepare_own(run);
	cgroups_hand_on_from(own);
	snprintf(below[0], sizeof(below[0]), "%s/0", own);
}

static void prepare_within(const struct run *run)
{
	prepare_own(run);
	cgroups_must_put(own, "cgroup.procs", "0");
}

static void prepare_two(const struct run *run)
{
	prepare_own(run);
	for (int n = 0; n < 2; n++) {
		snprintf(below[n], sizeof(below[n]), "%s/%d", own, n);
		make_dir(below[n]);
	}
	for (int n = 0; n < 2; n++) {
		snprintf(cgroups_text, sizeof(cgroups_text), "%s/cgroup.procs", below[n]);
		files[n] = open(cgroups_text, O_WRONLY | O_CLOEXEC);
		check(files[n] < 0, cgroups_text);
	}
}

static void prepare_clone(const struct run *run)
{
	prepare_own(run);
	cgroup = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	check(cgroup < 0, own);
}

/* Sleeps until it is asked, and answers. */
static void __attribute__((noreturn)) sleep_between(void)
{
	char byte;

	while (read(question[0], &byte, 1) == 1 && write(answer[1], &byte, 1) == 1)
		;
	_exit(1);
}

static void prepare_sleeper(const struct run *run)
{
	pid_t sleeper;

	prepare_own(run);
	check(pipe(question) || pipe(answer), "pipe");
	sleeper = fork();
	check(sleeper < 0, "fork");
	if (!sleeper)
		sleep_between();
	snprintf(cgroups_text, sizeof(cgroups_text), "%d", sleeper);
	cgroups_must_put(own, "cgroup.procs", cgroups_text);
}

static void prepare_memory(const struct run *run)
{
	size_t cpus = sysconf(_SC_NPROCESSORS_ONLN);

	(void)run;
	pages = cpus * PAGES_PER_CPU > LEAST_PAGES ? cpus * PAGES_PER_CPU : LEAST_PAGES;
	/* Shared, so that the pages stay when they are not mapped any more. */
	memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(memory == MAP_FAILED, "mmap");
}

static void op_make(unsigned long n)
{
	(void)n;
	check(mkdir(below[0], 0755), "mkdir");
	check(rmdir(below[0]), "rmdir");
}

/* Those that were removed die in work items, long after. */
static void last_make(unsigned long n)
{
	struct timespec moment = { .tv_nsec = 1000 * 1000 };

	op_make(n);
	while (cgroups_get(own, "cgroup.stat"), !strstr(cgroups_text, "nr_dying_descendants 0\n")) {
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
	cgroups_must_put(own, "memory.max", n % 2 ? "256M" : "128M");
}

static void op_cpu_max(unsigned long n)
{
	cgroups_must_put(own, "cpu.max", n % 2 ? "max 100000" : "90000 100000");
}

static void op_cpuset_cpus(unsigned long n)
{
	/* A write of nothing is none. */
	char cpu[16] = "\n";

	/* Of several CPUs it is left with one. */
	if (!(n % 2))
		snprintf(cpu, sizeof(cpu), "%d\n", sched_getcpu());
	cgroups_must_put(own, "cpuset.cpus", cpu);
}

static void op_pids_max(unsigned long n)
{
	cgroups_must_put(own, "pids.max", n % 2 ? "max" : "100");
}

static void op_freeze(unsigned long n)
{
	char path[64], byte = 0;
	struct pollfd events = { .events = POLLPRI };

	(void)n;
	snprintf(path, sizeof(path), "%s/cgroup.events", own);
	events.fd = open(path, O_RDONLY | O_CLOEXEC);
	check(events.fd < 0, path);
	cgroups_must_put(own, "cgroup.freeze", "1");
	for (;;) {
		ssize_t length = pread(events.fd, cgroups_text, sizeof(cgroups_text) - 1, 0);

		check(length < 0, path);
		cgroups_text[length] = 0;
		if (strstr(cgroups_text, "frozen 1"))
			break;
		poll(&events, 1, 100);
	}
	close(events.fd);
	cgroups_must_put(own, "cgroup.freeze", "0");
	/* A cgroup says that it is thawed at once, and until who slept runs it could not freeze again. */
	check(write(question[1], &byte, 1) != 1 || read(answer[0], &byte, 1) != 1,
	      "an answer of what was frozen");
}

static void op_memory_stat(unsigned long n)
{
	(void)n;
	for (size_t page = 0; page < pages; page++)
		((volatile char *)memory)[page * PAGE] = 1;
	check(madvise(memory, pages * PAGE, MADV_DONTNEED), "madvise");
	cgroups_get(CGROUPS, "memory.stat");
}

static void op_io_stat(unsigned long n)
{
	(void)n;
	cgroups_get(CGROUPS, "io.stat");
}

static void op_pressure(unsigned long n)
{
	(void)n;
	cgroups_get(CGROUPS, "cpu.pressure");
}

FAMILY({ "make", op_make, prepare_below, .last = last_make },
       { "clone-into", op_clone_into, prepare_clone },
       { "move", op_move, prepare_two },
       { "memory-max", op_memory_max, prepare_within },
       { "cpu-max", op_cpu_max, prepare_within },
       { "cpuset-cpus", op_cpuset_cpus, prepare_own },
       { "pids-max", op_pids_max, prepare_within },
       { "freeze", op_freeze, prepare_sleeper },
       { "memory-stat-used", op_memory_stat, prepare_memory },
       { "io-stat", op_io_stat },
       { "pressure", op_pressure });
