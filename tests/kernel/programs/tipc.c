// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Nodes of TIPC in two namespaces that know each other as namespaces, while they go.
 *
 *	tipc TIMES
 *		two namespaces send each other messages that go through no device; then
 *		the one goes, and the other one sends it messages on, as it is not told;
 *		or both at once; or the other one first. The next one that a namespace
 *		meets has the identity of the one that is gone
 *
 * It says how often two met, and how often one was sent a message when it had been given up.
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
/* Milliseconds after which a node that says nothing is taken for gone: the most there may be. */
#define TOLERANCE 30000

static void enter(int fd)
{
	must(!setns(fd, CLONE_NEWNET), "setns");
}

/* Begins an attribute that holds others; `nested` ends it. */
static struct nlattr *nest(struct generic *one, int type)
{
	struct nlattr *at = (void *)one + NLMSG_ALIGN(one->head.nlmsg_len);

	add(one, type | NLA_F_NESTED, NULL, 0);
	return at;
}

static void nested(struct generic *one, struct nlattr *at)
{
	at->nla_len = (void *)one + one->head.nlmsg_len - (void *)at;
}

static void ask_bearer(int command, const char *device, unsigned int tolerance)
{
	struct generic one = {
		.head = { .nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN),
			  .nlmsg_type = family(TIPC_GENL_V2_NAME), .nlmsg_flags = NLM_F_ACK },
		.command = { .cmd = command, .version = TIPC_GENL_V2_VERSION },
	};
	struct nlattr *bearer = nest(&one, TIPC_NLA_BEARER), *properties;
	char name[IFNAMSIZ + 4];

	snprintf(name, sizeof(name), "eth:%s", device);
	add(&one, TIPC_NLA_BEARER_NAME, name, strlen(name) + 1);
	if (tolerance) {
		properties = nest(&one, TIPC_NLA_BEARER_PROP);
		add(&one, TIPC_NLA_PROP_TOL, &tolerance, sizeof(tolerance));
		nested(&one, properties);
	}
	nested(&one, bearer);
	ask_generic(&one, name);
}

/* Makes the device a way to other nodes; the first one's address is the node's identity. */
static void bearer(const char *device)
{
	must(!up(device), "up");
	ask_bearer(TIPC_NL_BEARER_ENABLE, device, 0);
	ask_bearer(TIPC_NL_BEARER_SET, device, TOLERANCE);
}

static void address(const char *device, const unsigned char *is)
{
	struct request one = request(RTM_NEWLINK, 0);

	attribute(&one, IFLA_IFNAME, device, strlen(device) + 1);
	attribute(&one, IFLA_ADDRESS, is, 6);
	must(!ask(&one), "address");
}

/* Puts a device of the first namespace on the bridge there, or takes it away. */
static void bridged(const char *device, int on)
{
	struct request one = request(RTM_NEWLINK, 0);
	int bridge = on ? if_nametoindex("bridge") : 0;

	must(!on || bridge, "bridge");
	attribute(&one, IFLA_IFNAME, device, strlen(device) + 1);
	attribute(&one, IFLA_MASTER, &bridge, sizeof(bridge));
	must(!ask(&one), "master");
	must(!up(device), "up");
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

/* A socket of this task's namespace, bound to @instance of the service. */
static int endpoint(unsigned int instance)
{
	struct sockaddr_tipc at = {
		.family = AF_TIPC, .addrtype = TIPC_ADDR_NAMESEQ, .scope = TIPC_CLUSTER_SCOPE,
		.addr.nameseq = { SERVICE, instance, instance },
	};
	struct timeval wait = { .tv_sec = 10 };
	int fd = socket(AF_TIPC, SOCK_RDM | SOCK_CLOEXEC, 0), droppable = 1;

	must(fd >= 0, "socket");
	must(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), "SO_RCVTIMEO");
	/* Else what can't be delivered comes back. */
	must(!setsockopt(fd, SOL_TIPC, TIPC_DEST_DROPPABLE, &droppable, sizeof(droppable)),
	     "TIPC_DEST_DROPPABLE");
	must(!bind(fd, (void *)&at, sizeof(at)), "bind");
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

/*
 * Returns when messages from @from to @to, which is @instance and in another namespace than
 * this task, arrive and don't go through the device.
 */
static void meet(int from, int to, unsigned int instance, const char *device)
{
	double began = now();
	long before, packets;
	char message[64];

	while (!reach(from, instance)) {
		must(now() - began < PATIENCE, "the other node");
		usleep(10000);
	}
	must(recv(to, message, sizeof(message), 0) > 0, "recv");
	do {
		must(now() - began < PATIENCE, "without the device");
		before = sent(device);
		for (int n = 0; n < MESSAGES; n++) {
			must(reach(from, instance), "send");
			must(recv(to, message, sizeof(message), 0) > 0, "recv");
		}
		packets = sent(device) - before;
	} while (packets >= MESSAGES);
}

/* Sends to who goes until its node is taken for gone; how often that went well. */
static long send_on(int from, const struct sockaddr_tipc *to)
{
	double began = now();
	long times = 0;

	for (;;) {
		must(now() - began < PATIENCE, "the node stays");
		if (sendto(from, to, sizeof(*to), MSG_DONTWAIT, (void *)to, sizeof(*to)) > 0)
			times++;
		else if (errno == EHOSTUNREACH)
			return times;
		else
			must(errno == EAGAIN, "send");
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	int first = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int times = argc > 1 ? atoi(argv[1]) : 0, here = -1;
	long on = 0;

	must(first >= 0 && times > 0, "usage");
	must(!simple("bridge", "bridge") && !up("bridge"), "bridge");
	for (int n = 1; n <= times; n++) {
		static const unsigned char identity[6] = { 2, 0, 0, 0, 0, 1 };
		int there, one, other, instance = 2 * n;
		struct sockaddr_tipc at;
		socklen_t size = sizeof(at);
		char port[IFNAMSIZ];

		/* Its port goes when the namespace does, which takes as long as it takes. */
		if (here < 0) {
			here = namespace();
			snprintf(port, sizeof(port), "here%d", n);
			must(!pair("here", port, first), "veth");
			bearer("here");
			enter(first);
			bridged(port, 1);
		}
		there = namespace();
		snprintf(port, sizeof(port), "there%d", n);
		must(!pair("there", port, first), "veth");
		address("there", identity);
		bearer("there");
		other = endpoint(instance);
		enter(first);
		bridged(port, 1);
		enter(here);
		one = endpoint(instance + 1);
		meet(one, other, instance, "here");
		enter(there);
		meet(other, one, instance + 1, "there");
		/* Nodes have their numbers now. */
		must(!getsockname(other, (void *)&at, &size) && at.addr.id.node, "getsockname");
		enter(first);
		if (n % 3 == 1) {
			/* So that nobody tells the other node. */
			bridged(port, 0);
			close(other);
			close(there);
			on += send_on(one, &at);
			close(one);
			continue;
		}
		close(other);
		close(one);
		close(n % 3 ? here : there);
		usleep(n % 2 * 10000);
		close(n % 3 ? there : here);
		here = -1;
	}
	printf("tipc %d met, %ld sent to who goes\n", times, on);
	return 0;
}
