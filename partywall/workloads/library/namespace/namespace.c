// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "operations.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* A user namespace would take the rights over the others, a time one no clone(). */
#define MOST (CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWCGROUP | \
	      CLONE_NEWNET)

static const struct {
	const char *name;
	int flags;
} kinds[] = {
	{ "none", 0 },
	{ "uts", CLONE_NEWUTS },
	{ "ipc", CLONE_NEWIPC },
	{ "mount", CLONE_NEWNS },
	{ "pid", CLONE_NEWPID },
	{ "user", CLONE_NEWUSER },
	{ "cgroup", CLONE_NEWCGROUP },
	{ "net", CLONE_NEWNET },
	{ "time", CLONE_NEWTIME },
	{ "all", MOST },
	{ "clone", MOST },
};

static int flags, own = -1;
static char host[65];

static void prepare_kind(const struct run *run)
{
	size_t n = 0;

	while (n < sizeof(kinds) / sizeof(*kinds) && strcmp(kinds[n].name, run->variant))
		n++;
	errno = EINVAL;
	check(n == sizeof(kinds) / sizeof(*kinds), run->variant);
	flags = kinds[n].flags;
}

/* "enter-uts" has /proc/self/ns/uts open. */
static void prepare_own(const struct run *run)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/ns/%s", strchr(run->variant, '-') + 1);
	own = open(path, O_RDONLY | O_CLOEXEC);
	check(own < 0, path);
}

static void prepare_host(const struct run *run)
{
	(void)run;
	check(gethostname(host, sizeof(host)), "gethostname");
}

static void wait_for(pid_t pid)
{
	int status;

	check(pid < 0, "fork");
	check(waitpid(pid, &status, 0) != pid, "waitpid");
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
	check(status, "unshare in a child");
}

static void op_unshare(unsigned long n)
{
	pid_t pid = fork();

	(void)n;
	if (!pid)
		_exit(flags && unshare(flags) ? errno : 0);
	wait_for(pid);
}

static void op_clone(unsigned long n)
{
	pid_t pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, 0);

	(void)n;
	if (!pid)
		_exit(0);
	wait_for(pid);
}

static void op_enter(unsigned long n)
{
	(void)n;
	check(setns(own, 0), "setns");
}

static void op_handle(unsigned long n)
{
	int opened = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);

	(void)n;
	check(opened < 0, "open of /proc/self/ns/uts");
	close(opened);
}

static void op_host_name(unsigned long n)
{
	(void)n;
	check(sethostname(host, strlen(host)), "sethostname");
}

#define UNSHARE(name) { name, op_unshare, prepare_kind }

FAMILY(UNSHARE("none"), UNSHARE("uts"), UNSHARE("ipc"), UNSHARE("mount"), UNSHARE("pid"),
       UNSHARE("user"), UNSHARE("cgroup"), UNSHARE("net"), UNSHARE("time"), UNSHARE("all"),
       { "clone", op_clone, prepare_kind },
       { "enter-uts", op_enter, prepare_own },
       { "enter-ipc", op_enter, prepare_own },
       { "enter-net", op_enter, prepare_own },
       { "enter-cgroup", op_enter, prepare_own },
       { "enter-pid", op_enter, prepare_own },
       { "handle", op_handle, NULL },
       { "host-name", op_host_name, prepare_host });
