// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cgroups.h"
#include "operations.h"

/* Of the image: crun, what a container's root is made of, and what it is to do. */
#define IMAGE "/usr/share/partywall/bundle"

/* Of this process: a bundle on the volume, what crun knows of its containers, what it says. */
static char bundle[48], rootfs[64], options[256], state[32], complaints[48], name[16];
static posix_spawn_file_actions_t quiet;

/* Ends the process with the end of the first line that crun said. */
static void __attribute__((noreturn)) complain(void)
{
	char said[512], *line;
	int fd = open(complaints, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? 0 : read(fd, said, sizeof(said) - 1);

	said[length < 0 ? 0 : length] = 0;
	said[strcspn(said, "\n")] = 0;
	line = strlen(said) > 90 ? said + strlen(said) - 90 : said;
	errno = ECHILD;
	fail(*line ? line : "crun");
}

static void crun(char *const *words)
{
	char *const environment[] = { "PATH=/usr/bin", NULL };
	char *all[16] = { "crun", "--root", state, "--cgroup-manager=cgroupfs" };
	size_t count = 4;
	int status;
	pid_t pid;

	while (*words)
		all[count++] = *words++;
	errno = posix_spawn(&pid, "/usr/bin/crun", &quiet, NULL, all, environment);
	check(errno, "/usr/bin/crun");
	check(waitpid(pid, &status, 0) != pid, "waitpid");
	if (status)
		complain();
}

static void mount_root(void)
{
	check(mount("overlay", rootfs, "overlay", 0, options), "mount of an overlay");
}

static void prepare(const struct run *run)
{
	char upper[64], work[64];

	/* Mounts that are made from here on are this process' own, and end with it. */
	cgroups_make_writable();
	cgroups_hand_on();
	snprintf(bundle, sizeof(bundle), "/volume/bundle-%u", run->index);
	snprintf(rootfs, sizeof(rootfs), "%s/rootfs", bundle);
	snprintf(upper, sizeof(upper), "%s/upper", bundle);
	snprintf(work, sizeof(work), "%s/work", bundle);
	snprintf(state, sizeof(state), "/dev/shm/crun-%u", run->index);
	snprintf(complaints, sizeof(complaints), "/dev/shm/crun-%u-says", run->index);
	snprintf(name, sizeof(name), "c%u", run->index);
	snprintf(options, sizeof(options), "userxattr,lowerdir=" IMAGE "/rootfs,upperdir=%s,workdir=%s",
		 upper, work);
	make_dir(bundle);
	make_dir(rootfs);
	make_dir(upper);
	make_dir(work);
	check(posix_spawn_file_actions_init(&quiet) ||
	      posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0) ||
	      posix_spawn_file_actions_addopen(&quiet, 1, complaints,
					       O_WRONLY | O_CREAT | O_TRUNC, 0600) ||
	      posix_spawn_file_actions_adddup2(&quiet, 1, 2), "posix_spawn_file_actions");
}

static void prepare_running(const struct run *run)
{
	char *const start[] = { "run", "--detach", "--bundle", bundle, "--config", IMAGE "/sleep.json",
				name, NULL };

	prepare(run);
	mount_root();
	crun(start);
}

static void op_run(unsigned long n)
{
	char *const whole[] = { "run", "--bundle", bundle, "--config", IMAGE "/true.json", name, NULL };

	(void)n;
	mount_root();
	crun(whole);
	check(umount2(rootfs, 0), "umount2");
}

/*
 * Namespaces and cgroups die in work items, long after. Of a network namespace only the
 * making of another one could tell, and pages in a cache keep a dead cgroup. While all
 * sleep the guest's clock runs ahead.
 */
static void last_run(unsigned long n)
{
	const struct timespec moment = { .tv_sec = 1 };

	op_run(n);
	nanosleep(&moment, NULL);
}

static void op_exec(unsigned long n)
{
	char *const beside[] = { "exec", name, "/bin/busybox", "true", NULL };

	(void)n;
	crun(beside);
}

FAMILY({ "run", op_run, prepare, .last = last_run },
       { "exec", op_exec, prepare_running });
