// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sockets of netlink, and whether they are found.
 *
 *	sockets MANY
 *		so many are made, of five protocols in turn; after each, every list of
 *		sockets has to name it, those before it, and the kernel's, once
 *
 * Says which kernel sockets there are, how many others, and which lists there were.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/netlink.h>
#include <linux/netlink_diag.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

#define PROTOCOLS 32
#define FIRST_PORT 1000000
#define MOST 1000

/* Lists that may be wrong the first time, of all; see listed_whole(). */
#define MOST_AGAIN 60

static const int made_of[] = {
	NETLINK_ROUTE, NETLINK_USERSOCK, NETLINK_AUDIT, NETLINK_KOBJECT_UEVENT, NETLINK_GENERIC,
};
#define of(i) made_of[(i) % (sizeof(made_of) / sizeof(made_of[0]))]

/* How often a list names the kernel's socket of a protocol, and each made here. */
struct listed {
	unsigned char kernel[PROTOCOLS], made[MOST];
};

static void name(struct listed *listed, unsigned int protocol, unsigned int port)
{
	must(protocol < PROTOCOLS, "protocol");
	if (!port)
		listed->kernel[protocol]++;
	else if (port - FIRST_PORT < MOST)
		listed->made[port - FIRST_PORT]++;
}

static void list_proc(struct listed *listed)
{
	FILE *file = fopen("/proc/net/netlink", "r");
	unsigned int protocol, port;
	char line[256];

	memset(listed, 0, sizeof(*listed));
	must(file && fgets(line, sizeof(line), file), "/proc/net/netlink");
	while (fgets(line, sizeof(line), file)) {
		must(sscanf(line, "%*s %u %u", &protocol, &port) == 2, line);
		name(listed, protocol, port);
	}
	fclose(file);
}

/* Those of a protocol, or of all; 0 if the kernel was built without. */
static int list_diag(struct listed *listed, int protocol)
{
	static struct {
		struct nlmsghdr head;
		struct netlink_diag_req diag;
	} one = {
		.head = { .nlmsg_len = sizeof(one), .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.diag = { .sdiag_family = AF_NETLINK },
	};
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	static char answer[8192];

	one.diag.sdiag_protocol = protocol;
	memset(listed, 0, sizeof(*listed));
	must(sock >= 0 && send(sock, &one, sizeof(one), 0) == sizeof(one), "diag");
	for (;;) {
		ssize_t got = recv(sock, answer, sizeof(answer), 0);
		struct nlmsghdr *head = (void *)answer;

		must(got > 0, "diag's answer");
		for (; NLMSG_OK(head, got); head = NLMSG_NEXT(head, got)) {
			struct netlink_diag_msg *found = NLMSG_DATA(head);

			if (head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR) {
				close(sock);
				return head->nlmsg_type == NLMSG_DONE;
			}
			name(listed, found->ndiag_protocol, found->ndiag_portid);
		}
	}
}

/* Whether a list of one protocol, or of all, is whole. */
static int whole(const struct listed *listed, const struct listed *before, int many, int protocol)
{
	for (int i = 0; i < PROTOCOLS; i++) {
		int there = (protocol == NDIAG_PROTO_ALL || protocol == i) && before->kernel[i];

		if (listed->kernel[i] != there)
			return 0;
	}
	for (int i = 0; i < many; i++)
		if (listed->made[i] != (protocol == NDIAG_PROTO_ALL || protocol == of(i)))
			return 0;
	return 1;
}

#define BY_PROC (-1)

/*
 * By /proc, or by diag of a protocol or of all; 0 if the kernel was built without.
 *
 * Who walks a hash table that grows meanwhile begins again, and each part of /proc's list
 * is found by how many sockets come before it: stock, too, then names one twice, or not.
 * Asked again, it has to be right.
 */
static int listed_whole(const struct listed *before, int many, int how)
{
	int protocol = how == BY_PROC ? NDIAG_PROTO_ALL : how;
	static int again;

	for (;;) {
		struct listed listed;

		if (how == BY_PROC)
			list_proc(&listed);
		else if (!list_diag(&listed, protocol))
			return 0;
		if (whole(&listed, before, many, protocol))
			return 1;
		if (again++ == MOST_AGAIN)
			break;
		usleep(10000);
	}
	errno = 0;
	must(0, how == BY_PROC ? "a list of proc's" : "a list of diag's");
	return 0;
}

static int try_bind(int protocol, unsigned int port)
{
	struct sockaddr_nl at = { .nl_family = AF_NETLINK, .nl_pid = port };
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

	must(sock >= 0, "socket");
	if (!bind(sock, (void *)&at, sizeof(at)))
		return sock;
	close(sock);
	return -errno;
}

int main(int argc, char **argv)
{
	int many = argc > 1 ? atoi(argv[1]) : 0, diag = 1;
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct listed before;

	must(many > 0 && many <= MOST, "usage");
	list_proc(&before);
	printf("kernel");
	for (int i = 0; i < PROTOCOLS; i++)
		if (before.kernel[i])
			printf(" %d", i);
	printf("\n");

	for (int i = 1; i <= many; i++) {
		must(try_bind(of(i - 1), FIRST_PORT + i - 1) >= 0, "bind");
		must(try_bind(of(i - 1), FIRST_PORT + i - 1) == -EADDRINUSE, "bound twice");
		listed_whole(&before, i, BY_PROC);
		diag = listed_whole(&before, i, NDIAG_PROTO_ALL);
		if (diag)
			must(listed_whole(&before, i, of(i - 1)), "diag of one protocol");
	}

	/* No kernel socket is there to hear that. */
	must(sendto(try_bind(NETLINK_USERSOCK, 0), "", 1, 0, (void *)&kernel, sizeof(kernel)) < 0 &&
	     errno == ECONNREFUSED, "a message to nobody");
	printf("listed %d by proc%s\n", many, diag ? " and diag" : "");
	return 0;
}
