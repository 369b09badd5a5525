// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "links.h"
#include "operations.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define LENGTH 64
#define PORT 8080
#define BRIDGE "docker0"
/* A new port of a bridge may take a moment until it forwards. */
#define TRIES 50

enum side { CLIENT, SERVER };

/* Of each side: its network namespace, its address, its socket. */
static int spaces[2] = { -1, -1 }, sockets[2] = { -1, -1 }, listener = -1;
static struct sockaddr_in addresses[2];

static int space(void)
{
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	check(fd < 0, "open of a network namespace");
	return fd;
}

static void enter(int fd)
{
	check(setns(fd, CLONE_NEWNET), "setns");
}

/* As of a container of its own: a namespace with an end of a pair, whose other is in the bridge. */
static void make_side(int host, enum side side, unsigned int number)
{
	char port[IFNAMSIZ];

	addresses[side] = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(PORT),
		.sin_addr.s_addr = htonl(0xac110000 + 2 + 2 * number + side),
	};
	check(unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)");
	spaces[side] = space();
	enter(host);
	netlink_open(NETLINK_ROUTE);
	snprintf(port, sizeof(port), "pw%u-%d", number, side);
	make_veth(port, "eth0", spaces[side]);
	set_link(port, 1, BRIDGE);
	close(netlink);
	enter(spaces[side]);
	netlink_open(NETLINK_ROUTE);
	give_address("eth0", addresses[side].sin_addr, 16);
	set_link("eth0", 1, NULL);
	close(netlink);
}

/*
 * Client, server and, as of a host, the bridge are in a namespace each, which end with
 * this process. Goes on in the client's.
 */
static void prepare_sides(const struct run *run)
{
	int host;

	check(unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)");
	host = space();
	netlink_open(NETLINK_ROUTE);
	make_bridge(BRIDGE);
	set_link(BRIDGE, 1, NULL);
	close(netlink);
	make_side(host, SERVER, run->index);
	make_side(host, CLIENT, run->index);
}

static void send_at_once(int fd)
{
	int one = 1;

	check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), "TCP_NODELAY");
}

static int make(enum side side, int type)
{
	const struct timeval patience = { .tv_usec = 100000 };
	int made;

	enter(spaces[side]);
	made = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	check(made < 0, "socket");
	check(setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)),
	      "SO_RCVTIMEO");
	if (type == SOCK_STREAM)
		send_at_once(made);
	return made;
}

static void bind_to(int fd, const struct sockaddr_in *address)
{
	check(bind(fd, (const struct sockaddr *)address, sizeof(*address)), "bind");
}

static int connected(int fd, const struct sockaddr_in *address)
{
	return !connect(fd, (const struct sockaddr *)address, sizeof(*address));
}

/* 64 bytes with a number from one to another; 0 if they do not come. */
static int passes(int from, int to)
{
	static unsigned long number;
	union {
		unsigned long number;
		char bytes[LENGTH];
	} sent = { .number = ++number }, got;
	size_t length;

	check(send(from, &sent, LENGTH, MSG_NOSIGNAL) != LENGTH, "send");
	/* Those that were given up may come after all. */
	do {
		for (length = 0; length < LENGTH;) {
			ssize_t part = recv(to, got.bytes + length, LENGTH - length, 0);

			if (part <= 0)
				return 0;
			length += part;
		}
	} while (got.number != number);
	return 1;
}

static void prepare_udp(const struct run *run)
{
	prepare_sides(run);
	for (int side = SERVER; side >= CLIENT; side--) {
		sockets[side] = make(side, SOCK_DGRAM);
		bind_to(sockets[side], &addresses[side]);
		check(!connected(sockets[side], &addresses[!side]), "connect");
	}
	for (int n = 0; !passes(sockets[CLIENT], sockets[SERVER]); n++)
		check(n == TRIES, "the first datagram");
	for (int n = 0; !passes(sockets[SERVER], sockets[CLIENT]); n++)
		check(n == TRIES, "the first answer");
}

static void prepare_listener(const struct run *run)
{
	prepare_sides(run);
	listener = make(SERVER, SOCK_STREAM);
	bind_to(listener, &addresses[SERVER]);
	check(listen(listener, 8), "listen");
	enter(spaces[CLIENT]);
}

static void connection(void)
{
	sockets[CLIENT] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check(sockets[CLIENT] < 0, "socket");
	send_at_once(sockets[CLIENT]);
	check(!connected(sockets[CLIENT], &addresses[SERVER]), "connect");
	sockets[SERVER] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	check(sockets[SERVER] < 0, "accept4");
}

static void prepare_tcp(const struct run *run)
{
	prepare_listener(run);
	connection();
}

static void op_request(unsigned long n)
{
	check(!passes(sockets[CLIENT], sockets[SERVER]), "the request");
	check(!passes(sockets[SERVER], sockets[CLIENT]), "the answer");
}

/* Who asks ends it first, and keeps the port for its time. */
static void op_connection(unsigned long n)
{
	connection();
	op_request(n);
	close(sockets[CLIENT]);
	close(sockets[SERVER]);
}

FAMILY({ "tcp-own", op_request, prepare_tcp },
       { "tcp-connect-own", op_connection, prepare_listener },
       { "udp-own", op_request, prepare_udp });
