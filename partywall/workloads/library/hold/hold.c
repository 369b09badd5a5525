// SPDX-License-Identifier: GPL-2.0-or-later
/* Operations that keep what they make, until the process ends and its files are removed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "operations.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define PAGE 4096
#define IMAGE_FILE "/etc/hostname"

static unsigned int own;
static int fd = -1, watched = -1;
static sigset_t set;
static char path[96];

static int kept(int made, const char *what)
{
	check(made < 0, what);
	return made;
}

/* All of it, or as if there were no room for any. */
static void write_all(int to, const void *data, size_t size)
{
	ssize_t done = write(to, data, size);

	if (done >= 0 && (size_t)done < size)
		errno = ENOSPC;
	check(done != (ssize_t)size, "write");
}

static const char *numbered(const char *where, unsigned long n)
{
	snprintf(path, sizeof(path), "%s/hold-%u-%lu", where, own, n);
	return path;
}

static void prepare_own(const struct run *run)
{
	own = run->index;
}

static void op_file(unsigned long n)
{
	kept(open(IMAGE_FILE, O_RDONLY | O_CLOEXEC), IMAGE_FILE);
}

static void op_pipe(unsigned long n)
{
	int made[2];

	kept(pipe2(made, O_CLOEXEC), "pipe2");
}

static void op_pipe_full(unsigned long n)
{
	static const char page[PAGE];
	int made[2];

	kept(pipe2(made, O_CLOEXEC), "pipe2");
	write_all(made[1], page, PAGE);
}

static void op_socketpair(unsigned long n)
{
	int made[2];

	kept(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, made), "socketpair");
}

static void op_tcp(unsigned long n)
{
	kept(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
}

static void op_udp(unsigned long n)
{
	kept(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
}

/* As long as a socket's share of memory for options lets it be, since Linux 5.8 at least. */
#define INSTRUCTIONS 2048

/* A division is what has most code. */
static void op_filter(unsigned long n)
{
	static struct sock_filter code[INSTRUCTIONS];
	const struct sock_fprog program = { INSTRUCTIONS, code };

	for (unsigned int k = 0; k < INSTRUCTIONS - 1; k++)
		code[k] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 3);
	code[INSTRUCTIONS - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	kept(setsockopt(kept(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket"), SOL_SOCKET,
			SO_ATTACH_FILTER, &program, sizeof(program)), "SO_ATTACH_FILTER");
}

static void op_tcp_listen(unsigned long n)
{
	kept(listen(kept(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"), 1), "listen");
}

static void op_eventfd(unsigned long n)
{
	kept(eventfd(0, EFD_CLOEXEC), "eventfd");
}

static void op_epoll(unsigned long n)
{
	kept(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
}

static void prepare_epoll(const struct run *run)
{
	fd = kept(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
}

static void op_epoll_watch(unsigned long n)
{
	struct epoll_event event = { .events = EPOLLIN };

	kept(epoll_ctl(fd, EPOLL_CTL_ADD, kept(eventfd(0, EFD_CLOEXEC), "eventfd"), &event),
	     "epoll_ctl");
}

static void prepare_epoll_dup(const struct run *run)
{
	prepare_epoll(run);
	watched = kept(eventfd(0, EFD_CLOEXEC), "eventfd");
}

/* Another number for one file is another watch, and no other file. */
static void op_epoll_dup(unsigned long n)
{
	struct epoll_event event = { .events = EPOLLIN };

	kept(epoll_ctl(fd, EPOLL_CTL_ADD, kept(fcntl(watched, F_DUPFD_CLOEXEC, 0), "fcntl"),
		       &event), "epoll_ctl");
}

static void op_timerfd(unsigned long n)
{
	kept(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), "timerfd_create");
}

static void prepare_signals(const struct run *run)
{
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static void op_signalfd(unsigned long n)
{
	kept(signalfd(-1, &set, SFD_CLOEXEC), "signalfd");
}

static void op_signal(unsigned long n)
{
	const union sigval value = { .sival_int = 0 };

	kept(sigqueue(getpid(), SIGRTMIN, value), "sigqueue");
}

static void op_timer(unsigned long n)
{
	struct sigevent event = { .sigev_notify = SIGEV_NONE };
	timer_t made;

	kept(timer_create(CLOCK_MONOTONIC, &event, &made), "timer_create");
}

static void op_inotify(unsigned long n)
{
	kept(inotify_init1(IN_CLOEXEC), "inotify_init1");
}

static void prepare_inotify(const struct run *run)
{
	prepare_own(run);
	fd = kept(inotify_init1(IN_CLOEXEC), "inotify_init1");
}

static void op_inotify_watch(unsigned long n)
{
	close(kept(open(numbered("/dev/shm", n), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), path));
	kept(inotify_add_watch(fd, path, IN_MODIFY), "inotify_add_watch");
}

static void op_memfd(unsigned long n)
{
	kept(syscall(SYS_memfd_create, "hold", 0), "memfd_create");
}

static void op_pidfd(unsigned long n)
{
	kept(syscall(SYS_pidfd_open, getpid(), 0), "pidfd_open");
}

static void op_process(unsigned long n)
{
	if (kept(fork(), "fork"))
		return;
	for (;;)
		pause();
}

static void *rest(void *nothing)
{
	pause();
	return nothing;
}

static void op_thread(unsigned long n)
{
	pthread_attr_t small;
	pthread_t made;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	errno = pthread_create(&made, &small, rest, NULL);
	check(errno, "pthread_create");
}

static void op_pty(unsigned long n)
{
	kept(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), "/dev/ptmx");
}

static void op_message_queue(unsigned long n)
{
	kept(msgget(IPC_PRIVATE, 0600), "msgget");
}

static void op_semaphores(unsigned long n)
{
	kept(semget(IPC_PRIVATE, 1, 0600), "semget");
}

static void op_shared_memory(unsigned long n)
{
	kept(shmget(IPC_PRIVATE, PAGE, 0600), "shmget");
}

static void op_mq(unsigned long n)
{
	struct mq_attr small = { .mq_maxmsg = 1, .mq_msgsize = 64 };

	snprintf(path, sizeof(path), "/hold-%u-%lu", own, n);
	kept(mq_open(path, O_CREAT | O_RDWR, 0600, &small), path);
}

static void op_tmpfs_file(unsigned long n)
{
	close(kept(open(numbered("/dev/shm", n), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), path));
}

static void op_volume_file(unsigned long n)
{
	close(kept(open(numbered("/volume", n), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), path));
}

static void op_flock(unsigned long n)
{
	kept(flock(kept(open(numbered("/dev/shm", n), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), path),
		   LOCK_EX), "flock");
}

static void prepare_locked(const struct run *run)
{
	prepare_own(run);
	fd = kept(open(numbered("/dev/shm", 0), O_CREAT | O_RDWR | O_CLOEXEC, 0600), path);
}

static void op_posix_lock(unsigned long n)
{
	/* Each is by itself: those that touch become one. */
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2 * n, .l_len = 1 };

	kept(fcntl(fd, F_SETLK, &lock), "fcntl");
}

static void op_mlock(unsigned long n)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(page == MAP_FAILED, "mmap");
	kept(mlock(page, PAGE), "mlock");
}

static void op_mapping(unsigned long n)
{
	char *made = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	check(made == MAP_FAILED, "mmap");
	/* Those that touch would become one. */
	kept(munmap(made + PAGE, PAGE), "munmap");
}

static void aio(unsigned int requests)
{
	aio_context_t made = 0;

	kept(syscall(SYS_io_setup, requests, &made), "io_setup");
}

static void op_aio(unsigned long n)
{
	aio(1);
}

static void op_aio_many(unsigned long n)
{
	aio(128);
}

/* As most programs make one: of ten messages of 8 KiB each. */
static void op_mq_usual(unsigned long n)
{
	snprintf(path, sizeof(path), "/hold-%u-%lu", own, n);
	kept(mq_open(path, O_CREAT | O_RDWR, 0600, NULL), path);
}

/* What a pipe takes unless somebody has it changed. */
static void op_pipe_whole(unsigned long n)
{
	static const char pages[16 * PAGE];
	int made[2];

	kept(pipe2(made, O_CLOEXEC | O_NONBLOCK), "pipe2");
	/* One that is smaller is full before. */
	write_all(made[1], pages, sizeof(pages));
}

static void op_shared_memory_locked(unsigned long n)
{
	kept(shmctl(kept(shmget(IPC_PRIVATE, PAGE, 0600), "shmget"), SHM_LOCK, NULL), "shmctl");
}

static void op_volume_space(unsigned long n)
{
	static const char data[64 * PAGE];
	int made = kept(open(numbered("/volume", n), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), path);

	write_all(made, data, sizeof(data));
	/* What the disk has no room for is known then. */
	kept(fdatasync(made), path);
	close(made);
}

static void prepare_server(const struct run *run)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	fd = kept(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
	any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	kept(bind(fd, (struct sockaddr *)&any, sizeof(any)), "bind");
	kept(listen(fd, 64), "listen");
}

/* A quarter of what a socket may have to send, which nobody reads. */
static void op_tcp_full(unsigned long n)
{
	static const char data[1 << 20];
	struct sockaddr_in server;
	socklen_t length = sizeof(server);
	int made = kept(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
	size_t sent = 0;

	kept(getsockname(fd, (struct sockaddr *)&server, &length), "getsockname");
	kept(connect(made, (struct sockaddr *)&server, length), "connect");
	kept(accept4(fd, NULL, NULL, SOCK_CLOEXEC), "accept4");
	kept(fcntl(made, F_SETFL, O_NONBLOCK), "fcntl");
	for (int again = 0; sent < sizeof(data) && again < 8; again++) {
		ssize_t part = send(made, data + sent, sizeof(data) - sent, 0);

		if (part > 0)
			sent += part;
		else
			usleep(1000);
	}
	/* Two full buffers of the least size that is promised are less. */
	errno = EAGAIN;
	check(sent < sizeof(data) / 4, "send");
}

/* A descriptor that is under way, and open nowhere else. */
static void op_in_flight(unsigned long n)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = { };
	char byte = 0;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	int made[2], sent;

	/* A queue of datagrams is short: each has its own pair. */
	kept(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, made), "socketpair");
	sent = kept(eventfd(0, EFD_CLOEXEC), "eventfd");
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &sent, sizeof(sent));
	check(sendmsg(made[0], &message, 0) != 1, "sendmsg");
	close(sent);
}

FAMILY({ "aio", op_aio, NULL },
       { "aio-many", op_aio_many, NULL },
       { "epoll", op_epoll, NULL },
       { "epoll-dup", op_epoll_dup, prepare_epoll_dup },
       { "epoll-watch", op_epoll_watch, prepare_epoll },
       { "eventfd", op_eventfd, NULL },
       { "file", op_file, NULL },
       { "filter", op_filter, NULL },
       { "flock", op_flock, prepare_own },
       { "in-flight", op_in_flight, NULL },
       { "inotify", op_inotify, NULL },
       { "inotify-watch", op_inotify_watch, prepare_inotify },
       { "mapping", op_mapping, NULL },
       { "memfd", op_memfd, NULL },
       { "message-queue", op_message_queue, NULL },
       { "mlock", op_mlock, NULL },
       { "mq", op_mq, prepare_own },
       { "mq-usual", op_mq_usual, prepare_own },
       { "pidfd", op_pidfd, NULL },
       { "pipe", op_pipe, NULL },
       { "pipe-full", op_pipe_full, NULL },
       { "pipe-whole", op_pipe_whole, NULL },
       { "posix-lock", op_posix_lock, prepare_locked },
       { "process", op_process, NULL },
       { "pty", op_pty, NULL },
       { "semaphores", op_semaphores, NULL },
       { "shared-memory", op_shared_memory, NULL },
       { "shared-memory-locked", op_shared_memory_locked, NULL },
       { "signal", op_signal, prepare_signals },
       { "signalfd", op_signalfd, prepare_signals },
       { "socketpair", op_socketpair, NULL },
       { "tcp", op_tcp, NULL },
       { "tcp-full", op_tcp_full, prepare_server },
       { "tcp-listen", op_tcp_listen, NULL },
       { "thread", op_thread, NULL },
       { "timer", op_timer, NULL },
       { "timerfd", op_timerfd, NULL },
       { "tmpfs-file", op_tmpfs_file, prepare_own },
       { "udp", op_udp, NULL },
       { "volume-file", op_volume_file, prepare_own },
       { "volume-space", op_volume_space, prepare_own });
