// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "operations.h"

/* Files and directories that the kernel makes up, by a variant's name. */
static const struct {
	const char *name, *path;
} paths[] = {
	{ "self-stat", "/proc/self/stat" },
	{ "self-statm", "/proc/self/statm" },
	{ "self-status", "/proc/self/status" },
	{ "self-maps", "/proc/self/maps" },
	{ "self-smaps-rollup", "/proc/self/smaps_rollup" },
	{ "self-cmdline", "/proc/self/cmdline" },
	{ "self-cgroup", "/proc/self/cgroup" },
	{ "self-mountinfo", "/proc/self/mountinfo" },
	{ "self-limits", "/proc/self/limits" },
	{ "self-uid-map", "/proc/self/uid_map" },
	{ "self-fd-dir", "/proc/self/fd" },
	{ "self-task-dir", "/proc/self/task" },
	{ "proc-dir", "/proc" },
	{ "meminfo", "/proc/meminfo" },
	{ "vmstat", "/proc/vmstat" },
	{ "stat", "/proc/stat" },
	{ "loadavg", "/proc/loadavg" },
	{ "uptime", "/proc/uptime" },
	{ "version", "/proc/version" },
	{ "cpuinfo", "/proc/cpuinfo" },
	{ "mounts", "/proc/mounts" },
	{ "filesystems", "/proc/filesystems" },
	{ "cgroups", "/proc/cgroups" },
	{ "locks", "/proc/locks" },
	{ "diskstats", "/proc/diskstats" },
	{ "net-dev", "/proc/self/net/dev" },
	{ "net-tcp", "/proc/self/net/tcp" },
	{ "net-unix", "/proc/self/net/unix" },
	{ "net-sockstat", "/proc/self/net/sockstat" },
	{ "ostype", "/proc/sys/kernel/ostype" },
	{ "hostname", "/proc/sys/kernel/hostname" },
	{ "overcommit", "/proc/sys/vm/overcommit_memory" },
	{ "random-uuid", "/proc/sys/kernel/random/uuid" },
	{ "sys-online", "/sys/devices/system/cpu/online" },
	{ "sys-hugepage", "/sys/kernel/mm/transparent_hugepage/enabled" },
	{ "sys-net-dir", "/sys/class/net" },
	{ "memory-stat", "/sys/fs/cgroup/memory.stat" },
	{ "memory-current", "/sys/fs/cgroup/memory.current" },
	{ "cpu-stat", "/sys/fs/cgroup/cpu.stat" },
	{ "pids-current", "/sys/fs/cgroup/pids.current" },
	{ "cgroup-procs", "/sys/fs/cgroup/cgroup.procs" },
	{ "cgroup-events", "/sys/fs/cgroup/cgroup.events" },
	{ "null-write", "/dev/null" },
	{ "null-open", "/dev/null" },
	{ "zero-read", "/dev/zero" },
	{ "full-write", "/dev/full" },
	{ "urandom-read", "/dev/urandom" },
	{ "random-read", "/dev/random" },
};

static const char *path;
static int fd = -1;
static char buffer[16384];

static void prepare_path(const struct run *run)
{
	for (size_t n = 0; n < sizeof(paths) / sizeof(*paths); n++)
		if (!strcmp(paths[n].name, run->variant))
			path = paths[n].path;
	errno = EINVAL;
	check(!path, run->variant);
}

static void prepare_device(const struct run *run)
{
	prepare_path(run);
	fd = open(path, O_RDWR | O_CLOEXEC);
	check(fd < 0, path);
}

static void op_file(unsigned long n)
{
	int opened = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	(void)n;
	check(opened < 0, path);
	while ((length = read(opened, buffer, sizeof(buffer))) > 0)
		;
	check(length < 0, path);
	close(opened);
}

static void op_dir(unsigned long n)
{
	DIR *d = opendir(path);

	(void)n;
	check(!d, path);
	errno = 0;
	while (readdir(d))
		;
	check(errno, path);
	closedir(d);
}

static void op_open(unsigned long n)
{
	int opened = open(path, O_RDWR | O_CLOEXEC);

	(void)n;
	check(opened < 0, path);
	close(opened);
}

static void op_write(unsigned long n)
{
	(void)n;
	check(write(fd, buffer, 64) != 64, path);
}

static void op_read(unsigned long n)
{
	(void)n;
	check(read(fd, buffer, 64) != 64, path);
}

static void op_full(unsigned long n)
{
	(void)n;
	check(write(fd, buffer, 64) >= 0 || errno != ENOSPC, path);
}

#define READ(name) { name, op_file, prepare_path }

FAMILY(READ("self-stat"), READ("self-statm"), READ("self-status"), READ("self-maps"),
       READ("self-smaps-rollup"), READ("self-cmdline"), READ("self-cgroup"),
       READ("self-mountinfo"), READ("self-limits"), READ("self-uid-map"),
       { "self-fd-dir", op_dir, prepare_path },
       { "self-task-dir", op_dir, prepare_path },
       { "proc-dir", op_dir, prepare_path },
       READ("meminfo"), READ("vmstat"), READ("stat"), READ("loadavg"), READ("uptime"),
       READ("version"), READ("cpuinfo"), READ("mounts"), READ("filesystems"),
       READ("cgroups"), READ("locks"), READ("diskstats"),
       READ("net-dev"), READ("net-tcp"), READ("net-unix"), READ("net-sockstat"),
       READ("ostype"), READ("hostname"), READ("overcommit"), READ("random-uuid"),
       READ("sys-online"), READ("sys-hugepage"),
       { "sys-net-dir", op_dir, prepare_path },
       READ("memory-stat"), READ("memory-current"), READ("cpu-stat"), READ("pids-current"),
       READ("cgroup-procs"), READ("cgroup-events"),
       { "null-write", op_write, prepare_device },
       { "null-open", op_open, prepare_path },
       { "zero-read", op_read, prepare_device },
       { "full-write", op_full, prepare_device },
       { "urandom-read", op_read, prepare_device },
       { "random-read", op_read, prepare_device });
