// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "peer.h"
#include "processes.h"

#define PAGE 4096

static struct box *box;
static volatile pid_t client;

static int file_of(const char *folder, const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail(path);
	return fd;
}

struct box *peer_box(const char *folder)
{
	int fd = file_of(folder, "box");
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		fail("mmap of a box");
	close(fd);
	return page;
}

int peer_said(const char *folder)
{
	return file_of(folder, "said");
}

static void wait_while(_Atomic unsigned int *number, unsigned int value)
{
	while (atomic_load(number) == value)
		syscall(SYS_futex, number, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void count(_Atomic unsigned int *number)
{
	atomic_fetch_add(number, 1);
	syscall(SYS_futex, number, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void peer_order(struct box *to, enum order order, unsigned long requests)
{
	unsigned int taken = atomic_load(&to->taken);

	to->order = order;
	to->requests = requests;
	count(&to->given);
	wait_while(&to->taken, taken);
}

/* What a client leaves behind ends with us, the container's first process. */
static void ended(int signal)
{
	int status, error = errno;
	pid_t gone;

	(void)signal;
	while ((gone = waitpid(-1, &status, WNOHANG)) > 0) {
		if (gone != client)
			continue;
		box->status = status;
		atomic_fetch_add(&box->over, 1);
	}
	errno = error;
}

/* Its end is not seen before it is known who it is. */
static void ask(char **command, int said)
{
	sigset_t child, before;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &child, &before))
		fail("sigprocmask");
	client = begin_asking(command, box->requests, said);
	atomic_fetch_add(&box->begun, 1);
	if (sigprocmask(SIG_SETMASK, &before, NULL))
		fail("sigprocmask");
}

void peer_obey(const char *folder, char **command)
{
	const struct sigaction on_end = { .sa_handler = ended, .sa_flags = SA_RESTART };
	int said = peer_said(folder);

	box = peer_box(folder);
	if (sigaction(SIGCHLD, &on_end, NULL))
		fail("sigaction");
	for (unsigned int done = 0;; done++) {
		wait_while(&box->given, done);
		if (box->order == ORDER_ASK)
			ask(command, said);
		else
			mark(box->order == ORDER_OPEN, NULL, NULL);
		count(&box->taken);
	}
}
