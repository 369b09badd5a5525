// SPDX-License-Identifier: GPL-2.0-or-later
/* System calls on objects of the container's own. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

#define FUTEXES 1024

static unsigned int futexes[FUTEXES];
static int fd, polls;

/* A descriptor is watched, and closed while it is. */
static void watch(unsigned long n)
{
	struct epoll_event event = { .events = EPOLLIN };
	int watched = eventfd(0, 0);

	(void)n;
	if (watched < 0 || epoll_ctl(polls, EPOLL_CTL_ADD, watched, &event))
		fail("epoll_ctl");
	close(watched);
}

static void timer(unsigned long n)
{
	struct sigevent none = { .sigev_notify = SIGEV_NONE };
	timer_t made;

	(void)n;
	if (timer_create(CLOCK_MONOTONIC, &none, &made) || timer_delete(made))
		fail("timer");
}

/* The filter before it is freed; a program lives in vmalloc's memory. */
static void filter(unsigned long n)
{
	static struct sock_filter all[] = { BPF_STMT(BPF_RET | BPF_K, 0xffff) };
	struct sock_fprog program = { .len = 1, .filter = all };

	(void)n;
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)))
		fail("SO_ATTACH_FILTER");
}

/* As perf bench futex hash: the value is another, so nobody waits. */
static void futex(unsigned long n)
{
	if (syscall(SYS_futex, &futexes[n % FUTEXES], FUTEX_WAIT_PRIVATE, 1234, NULL, NULL, 0) != -1 ||
	    errno != EAGAIN)
		fail("futex");
}

static void parent(unsigned long n)
{
	(void)n;
	syscall(SYS_getppid);
}

static const struct {
	const char *name;
	void (*operation)(unsigned long n);
} variants[] = {
	{ "epoll", watch }, { "timer", timer }, { "filter", filter },
	{ "futex", futex }, { "getppid", parent },
};

static void (*chosen)(unsigned long n);

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void prepare(const struct run *run)
{
	pthread_t id;
	size_t n;

	for (n = 0; n < sizeof(variants) / sizeof(*variants); n++)
		if (!strcmp(run->variant, variants[n].name))
			chosen = variants[n].operation;
	if (!chosen)
		fail("no such variant");
	polls = epoll_create1(0);
	fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (polls < 0 || fd < 0)
		fail("prepare");
	/* Who uses futexes has threads. */
	if (chosen == futex && pthread_create(&id, NULL, idle, NULL))
		fail("pthread_create");
}

static void operation(const struct run *run, unsigned long n)
{
	(void)run;
	chosen(n);
}

const struct workload workload = { .prepare = prepare, .operation = operation };
