// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <sys/epoll.h>
#include <sys/inotify.h>

#include "places.h"

static int watcher = -1, poller = -1, dir_fd = -1;

static void op_init(unsigned long n)
{
	int made = inotify_init1(IN_CLOEXEC);

	(void)n;
	check(made < 0, "inotify_init1");
	close(made);
}

static void prepare_watcher(const struct run *run)
{
	prepare_place(run);
	watcher = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	check(watcher < 0, "inotify_init1");
}

static void prepare_watch(const struct run *run)
{
	prepare_watcher(run);
	check(inotify_add_watch(watcher, file, IN_MODIFY) < 0, "inotify_add_watch");
}

static void add_to_poller(void)
{
	struct epoll_event event = { .events = EPOLLIN };

	check(epoll_ctl(poller, EPOLL_CTL_ADD, watcher, &event), "EPOLL_CTL_ADD");
}

static void prepare_poller(const struct run *run)
{
	prepare_watch(run);
	poller = epoll_create1(EPOLL_CLOEXEC);
	check(poller < 0, "epoll_create1");
}

static void prepare_polled(const struct run *run)
{
	prepare_poller(run);
	add_to_poller();
}

static void prepare_directory(const struct run *run)
{
	prepare_place(run);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	check(dir_fd < 0, "open");
}

/* With the event that says that the watch is gone. */
static void op_watch(unsigned long n)
{
	struct inotify_event event;
	int watch = inotify_add_watch(watcher, file, IN_MODIFY);

	(void)n;
	check(watch < 0, "inotify_add_watch");
	check(inotify_rm_watch(watcher, watch), "inotify_rm_watch");
	check(read(watcher, &event, sizeof(event)) != sizeof(event), "read of IN_IGNORED");
}

static void make_event(void)
{
	check(pwrite(fd, file, 64, 0) != 64, "pwrite");
}

static void read_event(void)
{
	struct inotify_event event;

	check(read(watcher, &event, sizeof(event)) != sizeof(event), "read of IN_MODIFY");
}

static void op_event(unsigned long n)
{
	(void)n;
	make_event();
	read_event();
}

static void op_epoll_add(unsigned long n)
{
	(void)n;
	add_to_poller();
	check(epoll_ctl(poller, EPOLL_CTL_DEL, watcher, NULL), "EPOLL_CTL_DEL");
}

static void op_epoll_event(unsigned long n)
{
	struct epoll_event event;

	(void)n;
	make_event();
	check(epoll_wait(poller, &event, 1, -1) != 1, "epoll_wait");
	read_event();
}

static void op_dnotify(unsigned long n)
{
	(void)n;
	check(fcntl(dir_fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT), "F_NOTIFY");
	check(fcntl(dir_fd, F_NOTIFY, 0), "F_NOTIFY");
}

FAMILY({ "init", op_init, NULL },
       PLACES("watch", op_watch, prepare_watcher),
       PLACES("event", op_event, prepare_watch),
       PLACES("epoll-event", op_epoll_event, prepare_polled),
       PLACES("dnotify", op_dnotify, prepare_directory),
       { "epoll-add-tmpfs", op_epoll_add, prepare_poller });
