// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A tunnel's routes, and the namespace through which it tunnels.
 *
 *	routes [all]
 *		a tunnel through a namespace that dies is deleted, while somebody who sends
 *		through it waits for his own memory, and so has a reference of the device
 *
 * The namespace is gone before that reference is; ``all``: so are those that died after it.
 * Says so when the device is gone as well.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/if_tunnel.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "common.h"
#include "link.h"

#define NEAR "fd00::1"
#define FAR "fd02::1"
#define TUNNEL "t0"
#define OTHERS 8
#define SECONDS_EACH 15

/* 0 if there is none. What net/if.h declares, linux/if_tunnel.h declares otherwise. */
static int number_of_tunnel(void)
{
	struct ifreq request = { .ifr_name = TUNNEL };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	must(fd >= 0, "socket");
	if (ioctl(fd, SIOCGIFINDEX, &request))
		request.ifr_ifindex = 0;
	close(fd);
	return request.ifr_ifindex;
}

static void shell(const char *script)
{
	must(system(script) == 0, script);
}

static void make_tunnel(void)
{
	struct request one = request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	uint8_t of_ipv6 = IPPROTO_IPV6;
	struct rtattr *info, *data;
	struct in6_addr near, far;

	inet_pton(AF_INET6, NEAR, &near);
	inet_pton(AF_INET6, FAR, &far);
	attribute(&one, IFLA_IFNAME, TUNNEL, sizeof(TUNNEL));
	info = attribute(&one, IFLA_LINKINFO, NULL, 0);
	attribute(&one, IFLA_INFO_KIND, "ip6tnl", 6);
	data = attribute(&one, IFLA_INFO_DATA, NULL, 0);
	attribute(&one, IFLA_IPTUN_LOCAL, &near, sizeof(near));
	attribute(&one, IFLA_IPTUN_REMOTE, &far, sizeof(far));
	attribute(&one, IFLA_IPTUN_PROTO, &of_ipv6, sizeof(of_ipv6));
	closed(&one, data);
	closed(&one, info);
	errno = ask(&one);
	must(!errno, "RTM_NEWLINK");
}

/* A process with a namespace of its own, in which it does something first, until it is ended. */
static pid_t live_in_namespace(void (*first)(void))
{
	int made[2];
	char byte;
	pid_t pid;

	must(!pipe(made), "pipe");
	pid = fork();
	if (!pid) {
		must(!prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
		must(!unshare(CLONE_NEWNET), "unshare");
		if (first)
			first();
		must(write(made[1], "", 1) == 1, "pipe");
		for (;;)
			pause();
	}
	close(made[1]);
	must(pid > 0 && read(made[0], &byte, 1) == 1, "a namespace");
	close(made[0]);
	return pid;
}

static void leave_namespace(pid_t pid)
{
	must(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid, "kill");
}

/* The device goes to the other namespace. */
static void make_and_move_tunnel(void)
{
	char move[64];

	shell("ip link set lo up");
	shell("ip addr add " NEAR "/128 dev lo && ip -6 route add " FAR " dev lo");
	make_tunnel();
	snprintf(move, sizeof(move), "ip link set " TUNNEL " netns %d", getppid());
	shell(move);
}

/* So the tunnel finds its way, and keeps it. */
static void send_through(void)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);

	inet_pton(AF_INET6, "fd01::2", &to.sin6_addr);
	must(fd >= 0, "socket");
	must(sendto(fd, "", 1, 0, (void *)&to, sizeof(to)) == 1, "sendto");
	close(fd);
}

/* Memory that is not there until somebody gives it. */
static int watch(void *at, size_t size)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range = { (uintptr_t)at, size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	must(fd >= 0 && !ioctl(fd, UFFDIO_API, &api), "userfaultfd");
	must(!ioctl(fd, UFFDIO_REGISTER, &range), "UFFDIO_REGISTER");
	return fd;
}

static void *send_from(void *at)
{
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_IPV6),
		.sll_ifindex = number_of_tunnel(),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	must(fd >= 0 && to.sll_ifindex, "packet socket");
	/* The device may be gone by the time that there is something to send. */
	sendto(fd, at, 64, 0, (void *)&to, sizeof(to));
	close(fd);
	return NULL;
}

static int namespaces(void)
{
	FILE *file;
	int count;

	shell("echo 1 >/sys/kernel/slab/net_namespace/shrink");
	file = fopen("/sys/kernel/slab/net_namespace/objects", "r");
	must(file && fscanf(file, "%d", &count) == 1, "objects");
	fclose(file);
	return count;
}

/*
 * Until the tunnel's namespace is freed, which has died first: one of those that died is, or
 * ``all`` where batches of them are destroyed beside each other. Stock's kernel frees a batch when
 * the next one has died. No namespace is made meanwhile, which might be where that one was.
 */
static void settle(const pid_t others[OTHERS], int all)
{
	for (int dead = 1; dead <= OTHERS; dead++) {
		leave_namespace(others[dead - 1]);
		if (all && dead < OTHERS)
			continue;
		for (int second = 0; second < (all ? OTHERS : 1) * SECONDS_EACH; second++) {
			sleep(1);
			if (namespaces() - (OTHERS - dead) <= (all ? 0 : dead))
				return;
		}
	}
	must(0, "namespaces are left");
}

int main(int argc, char **argv)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct uffdio_zeropage give = { .range.len = page };
	pid_t through, others[OTHERS], deletes;
	struct uffd_msg message;
	pthread_t sender;
	int fd, status;
	void *at;

	setvbuf(stdout, NULL, _IOLBF, 0);
	through = live_in_namespace(make_and_move_tunnel);
	for (int i = 0; i < OTHERS; i++)
		others[i] = live_in_namespace(NULL);
	shell("ip link set " TUNNEL " up; ip addr add fd01::1/64 dev " TUNNEL);
	send_through();

	at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(at != MAP_FAILED, "mmap");
	fd = watch(at, page);
	must(!pthread_create(&sender, NULL, send_from, at), "pthread_create");
	must(read(fd, &message, sizeof(message)) == sizeof(message), "a fault");

	deletes = fork();
	if (!deletes) {
		shell("ip link del " TUNNEL);
		_exit(0);
	}
	while (number_of_tunnel()) {
		must(!waitpid(deletes, &status, WNOHANG), "ip link del");
		usleep(10000);
	}
	leave_namespace(through);
	settle(others, argc > 1 && !strcmp(argv[1], "all"));
	printf("routes: namespace gone\n");

	give.range.start = (uintptr_t)at;
	must(!ioctl(fd, UFFDIO_ZEROPAGE, &give), "UFFDIO_ZEROPAGE");
	must(!pthread_join(sender, NULL), "who sends");
	must(waitpid(deletes, &status, 0) == deletes && !status, "who deletes");
	callbacks_called();
	printf("routes: device gone\n");
	return 0;
}
