// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Races of two processors, the first of which is held where the second one must not come by.
 *
 *	windows charges
 *		two signals that are all that is left of a user are received at once; the
 *		first one is held once its charge is taken back
 *	windows numbers
 *		a cgroup is made, and held while it is; somebody opens it by its number
 *	windows sockets MODULE PROTOCOL
 *		a module makes a kernel socket of netlink's in each namespace, and is held with that of the
 *		second one, whose user sends to it
 *	windows watches
 *		a directory is watched for the first time, and who watches it is held before
 *		its files are marked; a second one watches it and writes to a file
 *
 * Each but the first says what the second one got.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common.h"
#include "hold.h"

#define NOBODY 12345

/* The first processor does much besides. */
enum { HELD = 1, OTHER = 2 };

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	must(!sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
}

/* A count that processes wait for. */
static void meet(int *count, int all)
{
	__atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < all)
		usleep(1000);
}

static void receive(void)
{
	struct timespec now = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	must(sigtimedwait(&set, NULL, &now) == SIGRTMIN, "sigtimedwait");
}

/* A signal that is charged to a user whose process is another one's by now. */
static void leave_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	must(!sigprocmask(SIG_BLOCK, &set, NULL), "sigprocmask");
	must(!setresuid(NOBODY, 0, 0), "setresuid");
	must(!sigqueue(getpid(), SIGRTMIN, (union sigval){ 0 }), "sigqueue");
	must(!setresuid(0, 0, 0), "setresuid");
}

static int charges(void)
{
	int *left = shared(4096), *parted = left + 1;

	if (!fork()) {
		run_on(OTHER);
		leave_signal();
		meet(left, 2);
		callbacks_called();
		meet(parted, 2);
		hold_await();
		receive();
		hold_let();
		_exit(0);
	}
	if (!fork()) {
		run_on(HELD);
		leave_signal();
		meet(left, 2);
		meet(parted, 2);
		hold_next();
		receive();
		_exit(0);
	}
	must(all_ended(), "one of both");
	printf("charges: both received\n");
	return 0;
}

#define CGROUPS "/sys/fs/cgroup"
#define AHEAD 512
#define KERNFS_HANDLE 0xfe

struct numbered {
	struct file_handle handle;
	uint64_t number;
};

static uint64_t number_of(const char *path)
{
	struct numbered found = { .handle.handle_bytes = sizeof(found.number) };
	int mount;

	must(!name_to_handle_at(AT_FDCWD, path, &found.handle, &mount, 0), path);
	must(found.handle.handle_type == KERNFS_HANDLE, "kind of handle");
	return found.number;
}

/* How many of the numbers behind one are those of something that can be opened. */
static int opened(int mount, uint64_t number)
{
	int found = 0, fd;

	for (int i = 1; i <= AHEAD; i++) {
		struct numbered try = {
			.handle = { sizeof(try.number), KERNFS_HANDLE },
			.number = number + i,
		};

		fd = open_by_handle_at(mount, &try.handle, O_PATH);
		if (fd >= 0) {
			found++;
			close(fd);
		}
	}
	return found;
}

static int numbers(void)
{
	int *ready = shared(4096), *found = ready + 1, mount = open(CGROUPS, O_RDONLY);
	uint64_t number;
	int were;

	must(mount >= 0, CGROUPS);
	run_on(HELD);
	must(!mkdir(CGROUPS "/before", 0755), "mkdir");
	number = number_of(CGROUPS "/before");
	if (!fork()) {
		run_on(OTHER);
		meet(ready, 2);
		hold_await();
		*found = opened(mount, number);
		hold_let();
		_exit(0);
	}
	/* Files of that cgroup. */
	were = opened(mount, number);
	meet(ready, 2);
	hold_next();
	must(!mkdir(CGROUPS "/held", 0755), "mkdir");
	must(all_ended(), "who opens");
	printf("numbers: %ld ahead, %d more\n", (long)(number_of(CGROUPS "/held") - number),
	       *found - were);
	return 0;
}

/*
 * Returns once the module made that of the first namespace. To load it stops all processors.
 * The kernel is not to look for a module itself, and wait for who does.
 */
static int try_socket(int protocol)
{
	int fd = open("/proc/sys/kernel/modprobe", O_WRONLY);

	must(fd >= 0 && write(fd, "\n", 1) == 1, "modprobe");
	close(fd);
	while ((fd = socket(AF_NETLINK, SOCK_RAW, protocol)) < 0)
		usleep(1000);
	return fd;
}

static void send_to_kernel(int fd)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct nlmsghdr message = {
		.nlmsg_len = sizeof(message),
		.nlmsg_type = NLMSG_NOOP,
		.nlmsg_flags = NLM_F_REQUEST,
	};
	ssize_t sent;

	sent = sendto(fd, &message, sizeof(message), MSG_DONTWAIT, (void *)&kernel,
		      sizeof(kernel));
	printf("sockets: sent %zd: %s\n", sent, sent < 0 ? strerror(errno) : "well");
	fflush(stdout);
}

static int sockets(const char *module, int protocol)
{
	int *ready = shared(4096), fd = open(module, O_RDONLY);

	must(fd >= 0, module);
	if (!fork()) {
		run_on(OTHER);
		must(!unshare(CLONE_NEWNET), "unshare");
		meet(ready, 2);
		fd = try_socket(protocol);
		hold_await();
		send_to_kernel(fd);
		hold_let();
		_exit(0);
	}
	run_on(HELD);
	meet(ready, 2);
	hold_next();
	must(!syscall(SYS_finit_module, fd, "", 0), module);
	must(all_ended(), "who sends");
	return 0;
}

static int watched(const char *path)
{
	int fd = inotify_init1(IN_NONBLOCK);

	must(fd >= 0 && inotify_add_watch(fd, path, IN_MODIFY) >= 0, path);
	return fd;
}

static int watches(void)
{
	static const char path[] = "/tmp/watched";
	int *ready = shared(4096), *told = ready + 1, file;
	char event[4096];

	must(!mkdir(path, 0755), "mkdir");
	file = open("/tmp/watched/file", O_CREAT | O_RDWR, 0644);
	must(file >= 0, "a file");
	if (!fork()) {
		int fd;

		run_on(OTHER);
		meet(ready, 2);
		hold_await();
		fd = watched(path);
		must(write(file, "", 1) == 1, "write");
		*told = read(fd, event, sizeof(event)) > 0;
		hold_let();
		_exit(0);
	}
	run_on(HELD);
	meet(ready, 2);
	hold_next();
	watched(path);
	must(all_ended(), "who watches too");
	printf("watches: %s\n", *told ? "told" : "not told");
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "charges"))
		return charges();
	if (argc == 2 && !strcmp(argv[1], "numbers"))
		return numbers();
	if (argc == 4 && !strcmp(argv[1], "sockets"))
		return sockets(argv[2], atoi(argv[3]));
	if (argc == 2 && !strcmp(argv[1], "watches"))
		return watches();
	fprintf(stderr, "windows charges | numbers | sockets MODULE PROTOCOL | watches\n");
	return 2;
}
