// SPDX-License-Identifier: GPL-2.0-or-later
/* Operations that keep what they make, by system calls that Docker's seccomp filter refuses. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/neighbour.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "links.h"
#include "operations.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define PAGE 4096
/* The most that a key of this type has. */
#define LARGE 32767

static unsigned int own;
static int fd = -1;
static char large[LARGE];
static void *page;

static int kept(int made, const char *what)
{
	check(made < 0, what);
	return made;
}

static void prepare_own(const struct run *run)
{
	own = run->index;
}

static void make_key(unsigned long n, const void *data, size_t length)
{
	char name[32];

	snprintf(name, sizeof(name), "%u-%lu", own, n);
	/* It goes with the process. */
	kept(syscall(SYS_add_key, "user", name, data, length, KEY_SPEC_PROCESS_KEYRING), "add_key");
}

static void op_key(unsigned long n)
{
	make_key(n, "", 1);
}

static void op_key_large(unsigned long n)
{
	make_key(n, large, LARGE);
}

static void op_fanotify(unsigned long n)
{
	kept(fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_REPORT_FID, O_RDONLY),
	     "fanotify_init");
}

static void prepare_page(const struct run *run)
{
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(page == MAP_FAILED, "mmap");
}

static void op_io_uring(unsigned long n)
{
	struct io_uring_params usual = { };
	struct iovec registered = { .iov_base = page, .iov_len = PAGE };
	int made = kept(syscall(SYS_io_uring_setup, 1, &usual), "io_uring_setup");

	kept(syscall(SYS_io_uring_register, made, IORING_REGISTER_BUFFERS, &registered, 1),
	     "io_uring_register");
}

static void prepare_mark(const struct run *run)
{
	own = run->index;
	fd = kept(fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_REPORT_FID, O_RDONLY),
		  "fanotify_init");
}

static void op_fanotify_mark(unsigned long n)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/shm/pod-%u-%lu", own, n);
	close(kept(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600), path));
	kept(fanotify_mark(fd, FAN_MARK_ADD, FAN_MODIFY, AT_FDCWD, path), "fanotify_mark");
}

/* Makes a namespace with a process; a descriptor keeps it, without that. */
static void keep_of_child(int flag, const char *kind)
{
	int child = kept(syscall(SYS_clone, flag | SIGCHLD, NULL, NULL, NULL, 0), "clone");
	char path[32];
	int made, error;

	while (!child)
		pause();
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", child, kind);
	made = open(path, O_RDONLY | O_CLOEXEC);
	error = errno;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	errno = error;
	kept(made, path);
}

static void op_user_namespace(unsigned long n)
{
	keep_of_child(CLONE_NEWUSER, "user");
}

/* Whoever makes a user namespace may make all others there. */
static void prepare_user(const struct run *run)
{
	kept(unshare(CLONE_NEWUSER), "unshare");
	/* Others may look into who was given rights only if he lets them. */
	kept(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl");
}

static void op_pid_namespace(unsigned long n)
{
	keep_of_child(CLONE_NEWPID, "pid");
}

/* Those that one makes for oneself: the one before is kept by its descriptor. */
static const struct namespace {
	const char *variant;
	int flag;
	const char *path;
} namespaces[] = {
	{ "cgroup-namespace", CLONE_NEWCGROUP, "/proc/self/ns/cgroup" },
	{ "ipc-namespace", CLONE_NEWIPC, "/proc/self/ns/ipc" },
	{ "mount-namespace", CLONE_NEWNS, "/proc/self/ns/mnt" },
	{ "net-namespace", CLONE_NEWNET, "/proc/self/ns/net" },
	{ "time-namespace", CLONE_NEWTIME, "/proc/self/ns/time_for_children" },
	{ "uts-namespace", CLONE_NEWUTS, "/proc/self/ns/uts" },
};
static const struct namespace *kind = namespaces;

static void prepare_namespace(const struct run *run)
{
	prepare_user(run);
	while (strcmp(kind->variant, run->variant))
		kind++;
}

static void op_namespace(unsigned long n)
{
	kept(unshare(kind->flag), "unshare");
	kept(open(kind->path, O_RDONLY | O_CLOEXEC), kind->path);
}

/* Whoever makes a user namespace may do there what nobody else sees; the table is one. */
static void prepare_device(const struct run *run)
{
	kept(unshare(CLONE_NEWUSER | CLONE_NEWNET), "unshare");
	netlink_open(NETLINK_ROUTE);
	make_veth("v0", "v1", -1);
	set_link("v0", 1, NULL);
	set_link("v1", 1, NULL);
}

static void op_neighbour(unsigned long n)
{
	static const unsigned char hardware[6] = { 2 };
	const struct in_addr address = { htonl(0x0a000001 + n) };
	const struct ndmsg body = {
		.ndm_family = AF_INET,
		.ndm_ifindex = if_nametoindex("v0"),
		/* It stays until it has not been heard of for half a minute. */
		.ndm_state = NUD_REACHABLE,
	};
	struct nlmsghdr *made = message(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &body,
					sizeof(body));

	attribute(made, NDA_DST, &address, sizeof(address));
	attribute(made, NDA_LLADDR, hardware, sizeof(hardware));
	ask("RTM_NEWNEIGH");
}

FAMILY({ "cgroup-namespace", op_namespace, prepare_namespace },
       { "fanotify", op_fanotify, NULL },
       { "fanotify-mark", op_fanotify_mark, prepare_mark },
       { "io-uring", op_io_uring, prepare_page },
       { "ipc-namespace", op_namespace, prepare_namespace },
       { "key", op_key, prepare_own },
       { "key-large", op_key_large, prepare_own },
       { "mount-namespace", op_namespace, prepare_namespace },
       { "neighbour", op_neighbour, prepare_device },
       { "net-namespace", op_namespace, prepare_namespace },
       { "pid-namespace", op_pid_namespace, prepare_user },
       { "time-namespace", op_namespace, prepare_namespace },
       { "user-namespace", op_user_namespace, NULL },
       { "uts-namespace", op_namespace, prepare_namespace });
