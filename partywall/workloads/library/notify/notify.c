// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <sys/epoll.h>
#include <sys/fanotify.h>
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

/* Of the class that containers may have: events name a file by its handle. */
static int make_group(void)
{
	int made = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_CLOEXEC | FAN_NONBLOCK,
				 O_RDONLY);

	check(made < 0, "fanotify_init");
	return made;
}

static void mark(unsigned int flags)
{
	check(fanotify_mark(watcher, flags, FAN_MODIFY, AT_FDCWD, file), "fanotify_mark");
}

static void prepare_group(const struct run *run)
{
	prepare_place(run);
	watcher = make_group();
}

static void prepare_marked(const struct run *run)
{
	prepare_group(run);
	mark(FAN_MARK_ADD);
}

static void op_fanotify(unsigned long n)
{
	(void)n;
	close(make_group());
}

static void op_fanotify_mark(unsigned long n)
{
	(void)n;
	mark(FAN_MARK_ADD);
	mark(FAN_MARK_REMOVE);
}

static void op_fanotify_event(unsigned long n)
{
	union {
		struct fanotify_event_metadata event;
		char space[256];
	} got;

	(void)n;
	make_event();
	check(read(watcher, &got, sizeof(got)) < (ssize_t)sizeof(got.event), "read");
	errno = EBADMSG;
	check(got.event.mask != FAN_MODIFY, "what read() took");
}

FAMILY({ "init", op_init, NULL },
       { "fanotify", op_fanotify, NULL },
       { "fanotify-mark-volume", op_fanotify_mark, prepare_group },
       { "fanotify-event-volume", op_fanotify_event, prepare_marked },
       PLACES("watch", op_watch, prepare_watcher),
       PLACES("event", op_event, prepare_watch),
       PLACES("epoll-event", op_epoll_event, prepare_polled),
       PLACES("dnotify", op_dnotify, prepare_directory),
       { "epoll-add-tmpfs", op_epoll_add, prepare_poller });
