// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Nodes of TIPC in two namespaces that know each other as namespaces, while they go.
 *
 *	tipc TIMES
 *		two namespaces send each other messages that go through no device; then
 *		the one goes, or both at once, or the other first. The next one that a
 *		namespace meets has the identity of the one that is gone
 *
 * It says how often two met.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/tipc.h>
#include <linux/tipc_netlink.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "generic.h"
#include "link.h"

#define SERVICE 1000
#define MESSAGES 50
/* Seconds. Nodes take one to try out their numbers. */
#define PATIENCE 120

static int namespace(void)
{
	int fd;

	must(!unshare(CLONE_NEWNET), "unshare");
	fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	must(fd >= 0, "open");
	return fd;
}

static void enter(int fd)
{
	must(!setns(fd, CLONE_NEWNET), "setns");
}

/* Makes the device a way to other nodes; the first one's address is the node's identity. */
static void bearer(const char *device)
{
	struct generic one = {
		.head = { .nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN),
			  .nlmsg_type = family(TIPC_GENL_V2_NAME), .nlmsg_flags = NLM_F_ACK },
		.command = { .cmd = TIPC_NL_BEARER_ENABLE, .version = TIPC_GENL_V2_VERSION },
	};
	struct nlattr *nest = (void *)one.data;
	char name[IFNAMSIZ + 4];

	snprintf(name, sizeof(name), "eth:%s", device);
	add(&one, TIPC_NLA_BEARER | NLA_F_NESTED, NULL, 0);
	add(&one, TIPC_NLA_BEARER_NAME, name, strlen(name) + 1);
	nest->nla_len = (void *)&one + one.head.nlmsg_len - (void *)nest;
	must(!up(device), "up");
	ask_generic(&one, name);
}

static void address(const char *device, const unsigned char *is)
{
	struct request one = request(RTM_NEWLINK, 0);

	attribute(&one, IFLA_IFNAME, device, strlen(device) + 1);
	attribute(&one, IFLA_ADDRESS, is, 6);
	must(!ask(&one), "address");
}

/* How many packets went out of a device of this task's namespace. */
static long sent(const char *device)
{
	FILE *file = fopen("/proc/thread-self/net/dev", "re");
	char line[512], name[IFNAMSIZ];
	long packets = -1, found = -1;

	must(file != NULL, "/proc/net/dev");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " %15[^:]: %*d %*d %*d %*d %*d %*d %*d %*d %*d %ld", name,
			   &packets) == 2 && !strcmp(name, device))
			found = packets;
	fclose(file);
	must(found >= 0, device);
	return found;
}

/* A socket of this task's namespace, bound to @instance of the service if that is not 0. */
static int endpoint(unsigned int instance)
{
	struct sockaddr_tipc at = {
		.family = AF_TIPC, .addrtype = TIPC_ADDR_NAMESEQ, .scope = TIPC_CLUSTER_SCOPE,
		.addr.nameseq = { SERVICE, instance, instance },
	};
	struct timeval wait = { .tv_sec = 10 };
	int fd = socket(AF_TIPC, SOCK_RDM | SOCK_CLOEXEC, 0);

	must(fd >= 0, "socket");
	must(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), "SO_RCVTIMEO");
	must(!instance || !bind(fd, (void *)&at, sizeof(at)), "bind");
	return fd;
}

static int reach(int fd, unsigned int instance)
{
	struct sockaddr_tipc to = {
		.family = AF_TIPC, .addrtype = TIPC_ADDR_NAME, .scope = TIPC_CLUSTER_SCOPE,
		.addr.name.name = { SERVICE, instance },
	};

	return sendto(fd, &to, sizeof(to), 0, (void *)&to, sizeof(to)) == sizeof(to);
}

/* Returns when messages from @here, where this task is, reach @there without the device. */
static void meet(int here, int there, unsigned int instance, const char *device)
{
	double began = now();
	long before, packets;
	char message[64];

	while (!reach(here, instance)) {
		must(now() - began < PATIENCE, "the other node");
		usleep(10000);
	}
	must(recv(there, message, sizeof(message), 0) > 0, "recv");
	do {
		must(now() - began < PATIENCE, "without the device");
		before = sent(device);
		for (int n = 0; n < MESSAGES; n++) {
			must(reach(here, instance), "send");
			must(recv(there, message, sizeof(message), 0) > 0, "recv");
		}
		packets = sent(device) - before;
	} while (packets >= MESSAGES);
}

int main(int argc, char **argv)
{
	int first = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int times = argc > 1 ? atoi(argv[1]) : 0, here = -1;

	must(first >= 0 && times > 0, "usage");
	for (int n = 1; n <= times; n++) {
		static const unsigned char identity[6] = { 2, 0, 0, 0, 0, 1 };
		int there, sending, receiving;
		char device[IFNAMSIZ];

		snprintf(device, sizeof(device), "here%d", n);
		if (here < 0)
			here = namespace();
		there = namespace();
		must(!pair("there", device, here), "veth");
		address("there", identity);
		bearer("there");
		receiving = endpoint(n);
		enter(here);
		bearer(device);
		sending = endpoint(0);
		meet(sending, receiving, n, device);
		enter(first);
		close(receiving);
		if (n % 3 == 1) {
			close(there);
			/* While the other one goes. */
			for (double began = now(); reach(sending, n);)
				must(now() - began < PATIENCE, "the other node stays");
			close(sending);
			continue;
		}
		close(sending);
		close(n % 3 ? here : there);
		usleep(n % 2 * 10000);
		close(n % 3 ? there : here);
		here = -1;
	}
	printf("tipc %d met\n", times);
	return 0;
}
