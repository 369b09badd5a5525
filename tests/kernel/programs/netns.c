// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Network namespaces that come and go.
 *
 *	netns churn TASKS EACH
 *		each task makes so many, one after the other
 *	netns beside DEAD MAKE
 *		so many are given up at once; while they are destroyed, so many are
 *		made one after the other, and what each took is printed
 *	netns storm SECONDS
 *		tasks make namespaces and devices in them, move devices between them,
 *		and give them up; all that goes wrong goes wrong for a reason that is
 *		allowed
 *	netns hold
 *		leaves its processor to nobody, as a real-time task, from when there is a
 *		file /held until there is a file /stop
 *	netns backlog CPUS
 *		sends packets in a namespace whose devices have them received by CPUS,
 *		as rps_default_mask takes them, and gives it up
 *	netns gone TASKS
 *		each opens a file of a table and gives up its namespace; the file stays,
 *		and when the table is gone all that is done with it is refused
 *	netns fail TASKS EACH
 *		makes one whose first allocation fails, one whose second fails, and so
 *		on until none does, or only EACH of them; the tasks share the work
 *
 * Each says what it did in one line.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "link.h"

static int churn(int tasks, long each)
{
	double began = now();

	for (int task = 0; task < tasks; task++) {
		if (fork())
			continue;
		for (long n = 0; n < each; n++)
			must(!unshare(CLONE_NEWNET), "unshare");
		_exit(0);
	}
	must(all_ended(), "churn");
	printf("churn %ld namespaces, %d tasks, %.2f s\n", tasks * each, tasks, now() - began);
	return 0;
}

static int by_size(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return (one > other) - (one < other);
}

static int beside(long dead, long make)
{
	double *took = calloc(make, sizeof(*took)), began, sum = 0;
	int *fds = calloc(dead, sizeof(*fds));

	must(took && fds, "calloc");
	for (long n = 0; n < dead; n++) {
		must(!unshare(CLONE_NEWNET), "unshare");
		fds[n] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		must(fds[n] >= 0, "open");
	}
	must(!unshare(CLONE_NEWNET), "unshare");
	for (long n = 0; n < dead; n++)
		close(fds[n]);
	for (long n = 0; n < make; n++) {
		began = now();
		must(!unshare(CLONE_NEWNET), "unshare");
		took[n] = now() - began;
		sum += took[n];
	}
	qsort(took, make, sizeof(*took), by_size);
	printf("beside %ld dead: %ld made in %.2f s, %.2f ms median, %.2f ms 99th, %.2f ms most\n",
	       dead, make, sum, took[make / 2] * 1e3, took[make * 99 / 100] * 1e3,
	       took[make - 1] * 1e3);
	return 0;
}

static void ask_what_is_gone(void)
{
	const char *name = "/proc/sys/net/ipv4/conf/lo/forwarding";
	int fd = open(name, O_RDONLY), none;
	char path[40], value[8];
	struct stat stat;
	double began;

	must(fd >= 0, name);
	must(pread(fd, value, sizeof(value), 0) > 0, "read");
	must(!unshare(CLONE_NEWNET), "unshare");
	for (began = now(); pread(fd, value, sizeof(value), 0) >= 0; usleep(1000))
		must(now() - began < 60, "the table stays");
	must(errno == ENOENT, "read of what is gone");
	must(fstat(fd, &stat) && errno == ENOENT, "stat of what is gone");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	none = open(path, O_RDONLY);
	must(none < 0 && errno == ENOENT, "open of what is gone");
}

static int gone(int tasks)
{
	for (int task = 0; task < tasks; task++) {
		if (fork())
			continue;
		must(!unshare(CLONE_NEWNET), "unshare");
		ask_what_is_gone();
		_exit(0);
	}
	must(all_ended(), "gone");
	printf("gone %d tables\n", tasks);
	return 0;
}

#define TASKS 6

struct storm {
	atomic_long made, moved, linked, refused;
	atomic_int ready, stop;
};

static struct storm *storm;
static unsigned int seed;

static unsigned int dice(unsigned int sides)
{
	return rand_r(&seed) % sides;
}

/* A stacked device of @kind on one of this namespace, itself in that of @fd. */
static int stacked(const char *name, const char *kind, const char *lower, int fd)
{
	struct request one = request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	int index = if_nametoindex(lower);
	struct rtattr *info;

	attribute(&one, IFLA_IFNAME, name, strlen(name) + 1);
	attribute(&one, IFLA_LINK, &index, sizeof(index));
	attribute(&one, IFLA_NET_NS_FD, &fd, sizeof(fd));
	info = attribute(&one, IFLA_LINKINFO, NULL, 0);
	attribute(&one, IFLA_INFO_KIND, kind, strlen(kind));
	closed(&one, info);
	return ask(&one);
}

/* Packets that are in a backlog for a while: nobody takes them. */
static void send_some(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	must(sock >= 0, "socket");
	for (int n = 0; n < 20; n++)
		sendto(sock, "x", 1, MSG_DONTWAIT, (void *)&to, sizeof(to));
	close(sock);
}

/* A socket that has something to say when its namespace goes. */
static int listens(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7) };
	int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(sock >= 0, "socket");
	if (bind(sock, (void *)&at, sizeof(at)) || listen(sock, 1))
		must(errno == EADDRINUSE, "listen");
	return sock;
}

/* Frames that differ in nothing; a destination that is everybody's. */
static void send_frames(const char *name, int frames)
{
	unsigned char frame[60] = { [12] = 0x08, 0x00, 0x45, 0, 0, 46, [22] = 64, 17 };
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(name) };
	int sock = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	must(sock >= 0, "socket");
	memset(frame, 0xff, 6);
	for (int n = 0; n < frames; n++)
		must(sendto(sock, frame, sizeof(frame), 0, (void *)&to, sizeof(to)) > 0, "sendto");
	close(sock);
}

/* Until packets are not dropped: a work item says so, under RTNL, which is taken after it. */
static void wait_for_carrier(const char *name)
{
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq state = { 0 };
	double began = now();

	must(sock >= 0, "socket");
	strcpy(state.ifr_name, name);
	do {
		must(now() - began < 60, "no carrier");
		usleep(10000);
		must(!ioctl(sock, SIOCGIFFLAGS, &state), "flags");
	} while (!(state.ifr_flags & IFF_RUNNING));
	close(sock);
	must(!up(name), name);
}

static int backlog(const char *cpus)
{
	int fd, here;

	must(!unshare(CLONE_NEWNET), "unshare");
	here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	fd = open("/proc/sys/net/core/rps_default_mask", O_WRONLY | O_CLOEXEC);
	must(here >= 0 && fd >= 0, "open");
	must(write(fd, cpus, strlen(cpus)) > 0, "rps_default_mask");
	must(!pair("one", "other", here) && !up("one") && !up("other"), "veth");
	wait_for_carrier("one");
	send_frames("one", 20);
	printf("backlog 20 frames\n");
	return 0;
}

#define HELD 4
#define KNOWN 8

/* A namespace, a socket or -1, and devices that were made there. */
struct place {
	int net, sock;
	char known[KNOWN][IFNAMSIZ];
};

/* One of its devices, if there is one. */
static char *known_of(struct place *place)
{
	int first = dice(KNOWN);

	for (int n = 0; n < KNOWN; n++)
		if (*place->known[(first + n) % KNOWN])
			return place->known[(first + n) % KNOWN];
	return NULL;
}

static int note(int error)
{
	/* What the other one was has gone, has that name, or there is no such kind. */
	static const int allowed[] = { ENODEV, EEXIST, EINVAL, EOPNOTSUPP, ENOMEM, EBUSY,
				       ENETDOWN, ENOBUFS, ENOSPC };

	if (!error) {
		storm->linked++;
		return 1;
	}
	storm->refused++;
	for (unsigned int n = 0; n < sizeof(allowed) / sizeof(*allowed); n++)
		if (error == allowed[n])
			return 0;
	errno = error;
	must(0, "rtnetlink");
	return 0;
}

static void weather(int me)
{
	struct place places[HELD] = { 0 }, *here, *there;
	char name[IFNAMSIZ], peer[IFNAMSIZ], *known;
	long n = 0;

	seed = me * 7919 + 1;
	for (int i = 0; i < HELD; i++) {
		must(!unshare(CLONE_NEWNET), "unshare");
		places[i].net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		must(places[i].net >= 0, "open");
		places[i].sock = -1;
	}
	storm->ready++;
	while (!storm->stop) {
		here = &places[dice(HELD)];
		there = &places[dice(HELD)];
		must(!setns(here->net, CLONE_NEWNET), "setns");
		send_some();
		snprintf(name, sizeof(name), "d%d.%ld", me, n++ % 50);
		snprintf(peer, sizeof(peer), "p%d.%ld", me, n % 50);
		switch (dice(8)) {
		case 0:
		case 1:
			/* The one that goes takes with it what is in it. */
			close(there->net);
			if (there->sock >= 0)
				close(there->sock);
			memset(there, 0, sizeof(*there));
			if (unshare(CLONE_NEWNET)) {
				must(errno == ENOMEM || errno == ENOSPC, "unshare");
				there->net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
				there->sock = -1;
				break;
			}
			there->net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
			must(there->net >= 0, "open");
			there->sock = dice(2) ? listens() : -1;
			storm->made++;
			note(up("lo"));
			break;
		case 2:
		case 3:
			if (note(pair(name, peer, there->net)))
				strcpy(here->known[dice(KNOWN)], name);
			break;
		case 4:
			if (note(simple(name, "dummy")))
				strcpy(here->known[dice(KNOWN)], name);
			note(up(name));
			break;
		case 5:
			known = known_of(here);
			if (here == there || !known || !note(move(known, there->net)))
				break;
			strcpy(there->known[dice(KNOWN)], known);
			*known = 0;
			storm->moved++;
			break;
		case 6:
			note(simple(name, "dummy"));
			note(stacked(peer, dice(2) ? "macvlan" : "ipvlan", name, there->net));
			break;
		case 7:
			note(simple(name, "bridge"));
			break;
		}
	}
	_exit(0);
}

static int storms(int seconds)
{
	storm = shared(sizeof(*storm));
	for (int task = 0; task < TASKS; task++)
		if (!fork())
			weather(task);
	/* Under a sanitizer and beside others a namespace may take seconds. */
	for (int n = 0; n < seconds * 10; n += storm->ready == TASKS) {
		must(!waitpid(-1, NULL, WNOHANG), "a task has ended");
		usleep(100000);
	}
	storm->stop = 1;
	must(all_ended(), "storm");
	printf("storm %ld made, %ld links, %ld moves, %ld refused\n", storm->made, storm->linked,
	       storm->moved, storm->refused);
	must(storm->made > 0 && storm->linked > 0, "nothing was made");
	return 0;
}

struct failed {
	atomic_long allocations, needed;
};

/* How many allocations from now on there are until the one that fails; 0: none does. */
static long fail_nth(int fd, long n)
{
	char left[32] = "", text[32];
	int size = snprintf(text, sizeof(text), "%ld", n);

	must(pread(fd, left, sizeof(left) - 1, 0) > 0, "fail-nth");
	must(pwrite(fd, text, size, 0) == size, "fail-nth");
	return atol(left);
}

static int fails(int tasks, long each)
{
	struct failed *failed = shared(sizeof(*failed));

	for (int task = 0; task < tasks; task++) {
		int fd;

		if (fork())
			continue;
		fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
		must(fd >= 0, "fail-nth");
		for (long n = 1 + task * each;; n += tasks * each) {
			int no, error;

			fail_nth(fd, n);
			no = unshare(CLONE_NEWNET);
			error = errno;
			if (fail_nth(fd, 0)) {
				errno = error;
				must(!no, "unshare, and nothing failed");
				_exit(0);
			}
			/* What is said then is ENOMEM, but for a dozen of init methods. */
			failed->allocations++;
			failed->needed += !!no;
		}
	}
	must(all_ended(), "fail");
	printf("fail %ld allocations, %ld of them needed\n", failed->allocations, failed->needed);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "hold")) {
		come_first();
		hold_processor();
		return 0;
	}
	if (!strcmp(what, "backlog"))
		return backlog(argv[2]);
	if (!strcmp(what, "churn") && argc > 3)
		return churn(atoi(argv[2]), atol(argv[3]));
	if (!strcmp(what, "beside") && argc > 3)
		return beside(atol(argv[2]), atol(argv[3]));
	if (!strcmp(what, "gone") && argc > 2)
		return gone(atoi(argv[2]));
	if (!strcmp(what, "storm"))
		return storms(atoi(argv[2]));
	if (!strcmp(what, "fail") && argc > 3)
		return fails(atoi(argv[2]), atol(argv[3]));
	printf("BROKEN usage\n");
	return 2;
}
