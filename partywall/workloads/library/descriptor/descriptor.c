// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "operations.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* What operations work on, made by prepare(). */
static int fd = -1, ends[2], epoll = -1;
static sigset_t set;

static void shut(int opened)
{
	check(close(opened), "close");
}

static void make_pipe(int made[2])
{
	check(pipe2(made, O_CLOEXEC), "pipe2");
}

static void prepare_pipe(const struct run *run)
{
	make_pipe(ends);
}

static void put(int to)
{
	static const char message[64];

	check(write(to, message, sizeof(message)) != sizeof(message), "write");
}

static void take(int from)
{
	char message[64];

	check(read(from, message, sizeof(message)) != sizeof(message), "read");
}

/* With something in it, so that its reader has an event. */
static void prepare_full_pipe(const struct run *run)
{
	make_pipe(ends);
	put(ends[1]);
}

static void op_pipe(unsigned long n)
{
	int made[2];

	make_pipe(made);
	shut(made[0]);
	shut(made[1]);
}

static void op_pipe_transfer(unsigned long n)
{
	put(ends[1]);
	take(ends[0]);
}

static void op_socketpair(unsigned long n)
{
	int made[2];

	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, made), "socketpair");
	shut(made[0]);
	shut(made[1]);
}

static int make_eventfd(void)
{
	int made = eventfd(0, EFD_CLOEXEC);

	check(made < 0, "eventfd");
	return made;
}

static void prepare_eventfd(const struct run *run)
{
	fd = make_eventfd();
}

static void op_eventfd(unsigned long n)
{
	shut(make_eventfd());
}

static void op_eventfd_transfer(unsigned long n)
{
	uint64_t count = 1;

	check(write(fd, &count, sizeof(count)) != sizeof(count), "write");
	check(read(fd, &count, sizeof(count)) != sizeof(count) || count != 1, "read");
}

static int make_signalfd(void)
{
	int made = signalfd(-1, &set, SFD_CLOEXEC);

	check(made < 0, "signalfd");
	return made;
}

static void prepare_signals(const struct run *run)
{
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	check(sigprocmask(SIG_BLOCK, &set, NULL), "sigprocmask");
}

static void prepare_signalfd(const struct run *run)
{
	prepare_signals(run);
	fd = make_signalfd();
}

static void op_signalfd(unsigned long n)
{
	shut(make_signalfd());
}

static void op_signalfd_read(unsigned long n)
{
	struct signalfd_siginfo info;

	check(kill(getpid(), SIGUSR1), "kill");
	check(read(fd, &info, sizeof(info)) != sizeof(info), "read");
}

static int make_epoll(void)
{
	int made = epoll_create1(EPOLL_CLOEXEC);

	check(made < 0, "epoll_create1");
	return made;
}

static void watch(int command)
{
	struct epoll_event event = { .events = EPOLLIN };

	check(epoll_ctl(epoll, command, ends[0], &event), "epoll_ctl");
}

static void prepare_epoll(const struct run *run)
{
	make_pipe(ends);
	epoll = make_epoll();
}

static void prepare_epoll_wait(const struct run *run)
{
	prepare_full_pipe(run);
	epoll = make_epoll();
	watch(EPOLL_CTL_ADD);
}

static void op_epoll(unsigned long n)
{
	shut(make_epoll());
}

static void op_epoll_ctl(unsigned long n)
{
	watch(EPOLL_CTL_ADD);
	watch(EPOLL_CTL_DEL);
}

static void op_epoll_wait(unsigned long n)
{
	struct epoll_event event;

	check(epoll_wait(epoll, &event, 1, 0) != 1, "epoll_wait");
}

static void op_pidfd(unsigned long n)
{
	int made = syscall(SYS_pidfd_open, getpid(), 0);

	check(made < 0, "pidfd_open");
	shut(made);
}

static void op_dup(unsigned long n)
{
	int made = dup(ends[0]);

	check(made < 0, "dup");
	shut(made);
}

/* Over an open one, which is closed by it. */
static void op_dup2(unsigned long n)
{
	check(dup2(ends[0], fd) != fd, "dup2");
}

static void prepare_dup2(const struct run *run)
{
	make_pipe(ends);
	fd = dup(ends[0]);
	check(fd < 0, "dup");
}

/* The numbers that follow the last open one. */
static void op_close_range(unsigned long n)
{
	int first = dup(ends[0]), second = dup(ends[0]);

	check(first < 0 || second != first + 1, "dup");
	check(syscall(SYS_close_range, first, second, 0), "close_range");
}

static void op_fcntl_getfl(unsigned long n)
{
	check(fcntl(ends[0], F_GETFL) < 0, "F_GETFL");
}

static void op_fcntl_setfl(unsigned long n)
{
	check(fcntl(ends[0], F_SETFL, n % 2 ? O_NONBLOCK : 0), "F_SETFL");
}

static void op_poll(unsigned long n)
{
	struct pollfd asked = { .fd = ends[0], .events = POLLIN };

	check(poll(&asked, 1, 0) != 1, "poll");
}

static void op_select(unsigned long n)
{
	struct timeval none = { 0, 0 };
	fd_set asked;

	FD_ZERO(&asked);
	FD_SET(ends[0], &asked);
	check(select(ends[0] + 1, &asked, NULL, NULL, &none) != 1, "select");
}

static void op_fionread(unsigned long n)
{
	int length;

	check(ioctl(ends[0], FIONREAD, &length) || length != 64, "FIONREAD");
}

FAMILY({ "pipe", op_pipe, NULL },
       { "pipe-transfer", op_pipe_transfer, prepare_pipe },
       { "socketpair", op_socketpair, NULL },
       { "eventfd", op_eventfd, NULL },
       { "eventfd-transfer", op_eventfd_transfer, prepare_eventfd },
       { "signalfd", op_signalfd, prepare_signals },
       { "signalfd-read", op_signalfd_read, prepare_signalfd },
       { "epoll", op_epoll, NULL },
       { "epoll-ctl", op_epoll_ctl, prepare_epoll },
       { "epoll-wait", op_epoll_wait, prepare_epoll_wait },
       { "pidfd", op_pidfd, NULL },
       { "dup", op_dup, prepare_pipe },
       { "dup2", op_dup2, prepare_dup2 },
       { "close-range", op_close_range, prepare_pipe },
       { "fcntl-getfl", op_fcntl_getfl, prepare_pipe },
       { "fcntl-setfl", op_fcntl_setfl, prepare_pipe },
       { "poll", op_poll, prepare_full_pipe },
       { "select", op_select, prepare_full_pipe },
       { "fionread", op_fionread, prepare_full_pipe });
