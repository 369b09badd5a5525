/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cgroups of a container that may change them.  The container's own is the root of
 * its cgroup namespace.
 */
#ifndef CGROUPS_H
#define CGROUPS_H

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "operations.h"

#define CGROUPS "/sys/fs/cgroup"

/* What was read last. */
static char cgroups_text[16384];

/* Returns 0 or an errno. */
static inline int cgroups_put(const char *dir, const char *name, const char *text)
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

static inline void cgroups_must_put(const char *dir, const char *name, const char *text)
{
	errno = cgroups_put(dir, name, text);
	check(errno, name);
}

static inline size_t cgroups_get(const char *dir, const char *name)
{
	char path[128];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	check(fd < 0, path);
	length = read(fd, cgroups_text, sizeof(cgroups_text) - 1);
	check(length < 0, path);
	cgroups_text[length] = 0;
	close(fd);
	return length;
}

/* Docker mounts it read-only. What is changed here is this process' own. */
static inline void cgroups_make_writable(void)
{
	check(unshare(CLONE_NEWNS), "unshare(CLONE_NEWNS)");
	check(mount(NULL, CGROUPS, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL),
	      "remounting " CGROUPS);
}

/* What is to be written for all of a cgroup's controllers to be handed on. */
static inline void cgroups_controllers(const char *dir, char *wanted, size_t size)
{
	char *word, *rest;

	*wanted = 0;
	cgroups_get(dir, "cgroup.controllers");
	for (word = strtok_r(cgroups_text, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest))
		snprintf(wanted + strlen(wanted), size - strlen(wanted), "+%s ", word);
}

/* Of a cgroup without processes. */
static inline void cgroups_hand_on_from(const char *dir)
{
	char wanted[512];

	cgroups_controllers(dir, wanted, sizeof(wanted));
	cgroups_must_put(dir, "cgroup.subtree_control", wanted);
}

/*
 * Only a cgroup without processes hands controllers on: all go to one below, as
 * the start script of Docker's own image for Docker in Docker has it. Siblings do
 * the same.
 */
static inline void cgroups_hand_on(void)
{
	char wanted[512], *word, *rest;
	int failed;

	make_dir(CGROUPS "/init");
	cgroups_controllers(CGROUPS, wanted, sizeof(wanted));
	do {
		cgroups_get(CGROUPS, "cgroup.procs");
		for (word = strtok_r(cgroups_text, "\n", &rest); word; word = strtok_r(NULL, "\n", &rest)) {
			failed = cgroups_put(CGROUPS "/init", "cgroup.procs", word);
			errno = failed;
			check(failed && failed != ESRCH, "cgroup.procs");
		}
		failed = cgroups_put(CGROUPS, "cgroup.subtree_control", wanted);
		errno = failed;
		check(failed && failed != EBUSY, "cgroup.subtree_control");
	} while (failed);
}

#endif
