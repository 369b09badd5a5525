// SPDX-License-Identifier: GPL-2.0-or-later
/* Operations that keep what they make: what was sent to a socket that nobody reads. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "operations.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* So few that a container may have some under way by its usual limit. */
#define DESCRIPTORS 16
#define DATAGRAM 16384
/* Of what a socket may have received, 208 KiB unless somebody has it changed. */
#define ENOUGH (128 * 1024)

static int file = -1;

static int kept(int made, const char *what)
{
	check(made < 0, what);
	return made;
}

static void prepare_file(const struct run *run)
{
	file = kept(eventfd(0, EFD_CLOEXEC), "eventfd");
}

/* One file as often as can be: it is descriptors under way that are counted. */
static void op_descriptors(unsigned long n)
{
	union {
		char room[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
		struct cmsghdr header;
	} control = { };
	char byte = 0;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	int made[2], sent[DESCRIPTORS];

	for (int k = 0; k < DESCRIPTORS; k++)
		sent[k] = file;
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(sent));
	memcpy(CMSG_DATA(&control.header), sent, sizeof(sent));
	/* What one has room for is soon sent: each message has its own pair. */
	kept(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, made), "socketpair");
	check(sendmsg(made[0], &message, 0) != 1, "sendmsg");
}

/* Who sends a datagram is not told whether there was room for it, so that there is no error. */
static void op_datagrams(unsigned long n)
{
	static const char data[DATAGRAM];
	struct sockaddr_in own = { .sin_family = AF_INET };
	unsigned int memory[SK_MEMINFO_VARS];
	socklen_t length = sizeof(own), size = sizeof(memory);
	int made = kept(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");

	own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	kept(bind(made, (struct sockaddr *)&own, length), "bind");
	kept(getsockname(made, (struct sockaddr *)&own, &length), "getsockname");
	for (int k = 0; k < 2 * ENOUGH / DATAGRAM; k++)
		kept(sendto(made, data, sizeof(data), 0, (struct sockaddr *)&own, length),
		     "sendto");
	kept(getsockopt(made, SOL_SOCKET, SO_MEMINFO, memory, &size), "SO_MEMINFO");
	errno = 0;
	check(memory[SK_MEMINFO_RMEM_ALLOC] < ENOUGH, "receiving");
}

FAMILY({ "datagrams", op_datagrams, NULL },
       { "descriptors", op_descriptors, prepare_file });
