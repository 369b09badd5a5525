// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "operations.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define LENGTH 64

/* Below those that the kernel gives out; one for each process. */
#define FIRST_PORT 20000

/* What operations work on, made by prepare(). */
static int fd = -1, ends[2];
static union {
	struct sockaddr any;
	struct sockaddr_un local;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
} address;
static socklen_t address_length;

static void shut(int opened)
{
	check(close(opened), "close");
}

static int make(int family, int type, int protocol)
{
	int made = socket(family, type | SOCK_CLOEXEC, protocol);

	check(made < 0, "socket");
	return made;
}

static void bind_to(int made)
{
	check(bind(made, &address.any, address_length), "bind");
}

static void put(int to)
{
	static const char message[LENGTH];

	check(send(to, message, LENGTH, 0) != LENGTH, "send");
}

static void take(int from)
{
	char message[LENGTH];

	check(recv(from, message, LENGTH, MSG_WAITALL) != LENGTH, "recv");
}

static void transfer(unsigned long n)
{
	put(ends[0]);
	take(ends[1]);
}

/* A connection of a socket of this process to another, which is accepted. */
static void join(int family, int listener, int made[2])
{
	made[0] = make(family, SOCK_STREAM, 0);
	check(connect(made[0], &address.any, address_length), "connect");
	made[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	check(made[1] < 0, "accept4");
}

static void pair(int type)
{
	check(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), "socketpair");
}

static void prepare_unix_stream(const struct run *run)
{
	pair(SOCK_STREAM);
}

static void prepare_unix_dgram(const struct run *run)
{
	pair(SOCK_DGRAM);
}

static void prepare_unix_seqpacket(const struct run *run)
{
	pair(SOCK_SEQPACKET);
}

/* An abstract name, which is the network namespace's. */
static void prepare_unix_name(const struct run *run)
{
	address.local.sun_family = AF_UNIX;
	address_length = offsetof(struct sockaddr_un, sun_path) + 1
		+ snprintf(address.local.sun_path + 1, 32, "partywall-%u", run->index);
}

static void prepare_unix_listener(const struct run *run)
{
	prepare_unix_name(run);
	fd = make(AF_UNIX, SOCK_STREAM, 0);
	bind_to(fd);
	check(listen(fd, 8), "listen");
}

static void op_unix_connect(unsigned long n)
{
	int made[2];

	join(AF_UNIX, fd, made);
	shut(made[0]);
	shut(made[1]);
}

static void op_unix_bind(unsigned long n)
{
	int made = make(AF_UNIX, SOCK_STREAM, 0);

	bind_to(made);
	shut(made);
}

static void prepare_rights(const struct run *run)
{
	pair(SOCK_STREAM);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	check(fd < 0, "opening /dev/null");
}

/* A socket that is on its way in a socket may be garbage: the kernel keeps a graph of those. */
static void prepare_rights_socket(const struct run *run)
{
	pair(SOCK_STREAM);
	fd = make(AF_UNIX, SOCK_STREAM, 0);
}

static void op_unix_rights(unsigned long n)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .header = {
		.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
	} };
	char byte = 0;
	struct iovec part = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int passed;

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
	check(sendmsg(ends[0], &message, 0) != 1, "sendmsg");
	message.msg_controllen = sizeof(control);
	check(recvmsg(ends[1], &message, MSG_CMSG_CLOEXEC) != 1, "recvmsg");
	errno = EBADMSG;
	check(message.msg_controllen < CMSG_LEN(sizeof(int)), "what recvmsg took");
	memcpy(&passed, CMSG_DATA(&control.header), sizeof(int));
	shut(passed);
}

static void prepare_port(const struct run *run)
{
	address.in.sin_family = AF_INET;
	address.in.sin_port = htons(FIRST_PORT + run->index);
	address.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address_length = sizeof(address.in);
}

static void prepare_port6(const struct run *run)
{
	address.in6.sin6_family = AF_INET6;
	address.in6.sin6_port = htons(FIRST_PORT + run->index);
	address.in6.sin6_addr = (struct in6_addr)IN6ADDR_LOOPBACK_INIT;
	address_length = sizeof(address.in6);
}

/* As servers do it: what is left of a port's connections keeps nobody from it. */
static int make_listener(void)
{
	int one = 1, made = make(AF_INET, SOCK_STREAM, 0);

	check(setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), "SO_REUSEADDR");
	bind_to(made);
	check(listen(made, 8), "listen");
	return made;
}

static void prepare_listener(const struct run *run)
{
	prepare_port(run);
	fd = make_listener();
}

static void prepare_connection(const struct run *run)
{
	int one = 1;

	prepare_listener(run);
	join(AF_INET, fd, ends);
	check(setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), "TCP_NODELAY");
}

static void op_tcp(unsigned long n)
{
	shut(make(AF_INET, SOCK_STREAM, 0));
}

static void op_tcp_listen(unsigned long n)
{
	shut(make_listener());
}

/* Reset by the one that connected: a connection that is closed is kept a minute. */
static void op_tcp_connect(unsigned long n)
{
	struct linger reset = { .l_onoff = 1 };
	int made[2];

	join(AF_INET, fd, made);
	check(setsockopt(made[0], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), "SO_LINGER");
	shut(made[0]);
	shut(made[1]);
}

static void op_udp(unsigned long n)
{
	shut(make(AF_INET, SOCK_DGRAM, 0));
}

static void op_udp_bind(unsigned long n)
{
	int made = make(AF_INET, SOCK_DGRAM, 0);

	bind_to(made);
	shut(made);
}

static void prepare_udp(const struct run *run)
{
	prepare_port(run);
	fd = make(AF_INET, SOCK_DGRAM, 0);
	bind_to(fd);
}

static void prepare_udp6(const struct run *run)
{
	prepare_port6(run);
	fd = make(AF_INET6, SOCK_DGRAM, 0);
	bind_to(fd);
}

static void op_udp_transfer(unsigned long n)
{
	static const char message[LENGTH];

	check(sendto(fd, message, LENGTH, 0, &address.any, address_length) != LENGTH, "sendto");
	take(fd);
}

static void op_getsockname(unsigned long n)
{
	struct sockaddr_in6 name;
	socklen_t length = sizeof(name);

	check(getsockname(fd, (struct sockaddr *)&name, &length), "getsockname");
}

static void op_setsockopt(unsigned long n)
{
	int on = n % 2;

	check(setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)), "setsockopt");
}

static void op_getsockopt(unsigned long n)
{
	int on;
	socklen_t length = sizeof(on);

	check(getsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, &length), "getsockopt");
}

static void op_netlink(unsigned long n)
{
	shut(make(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
}

static void prepare_netlink(const struct run *run)
{
	fd = make(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
}

/* Asks for all of a kind, and reads the answers to the last. */
static void dump(unsigned short type)
{
	static struct {
		struct nlmsghdr header;
		struct rtgenmsg body;
	} request;
	static union {
		struct nlmsghdr header;
		char space[32768];
	} answer;
	struct nlmsghdr *message;
	int length;

	request.header = (struct nlmsghdr){
		.nlmsg_len = NLMSG_LENGTH(sizeof(request.body)),
		.nlmsg_type = type,
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
	};
	check(send(fd, &request, request.header.nlmsg_len, 0) < 0, "send");
	for (;;) {
		length = recv(fd, &answer, sizeof(answer), 0);
		check(length <= 0, "recv");
		for (message = &answer.header; NLMSG_OK(message, (unsigned int)length);
		     message = NLMSG_NEXT(message, length)) {
			errno = EBADMSG;
			check(message->nlmsg_type == NLMSG_ERROR, "what netlink answered");
			if (message->nlmsg_type == NLMSG_DONE)
				return;
		}
	}
}

static void op_netlink_links(unsigned long n)
{
	dump(RTM_GETLINK);
}

static void op_netlink_addresses(unsigned long n)
{
	dump(RTM_GETADDR);
}

static void op_netlink_routes(unsigned long n)
{
	dump(RTM_GETROUTE);
}

static void op_icmp(unsigned long n)
{
	shut(make(AF_INET, SOCK_RAW, IPPROTO_ICMP));
}

FAMILY({ "unix-stream", transfer, prepare_unix_stream },
       { "unix-dgram", transfer, prepare_unix_dgram },
       { "unix-seqpacket", transfer, prepare_unix_seqpacket },
       { "unix-connect", op_unix_connect, prepare_unix_listener },
       { "unix-rights", op_unix_rights, prepare_rights },
       { "unix-rights-socket", op_unix_rights, prepare_rights_socket },
       { "unix-bind", op_unix_bind, prepare_unix_name },
       { "tcp", op_tcp, NULL },
       { "tcp-listen", op_tcp_listen, prepare_port },
       { "tcp-connect", op_tcp_connect, prepare_listener },
       { "tcp-transfer", transfer, prepare_connection },
       { "udp", op_udp, NULL },
       { "udp-bind", op_udp_bind, prepare_port },
       { "udp-transfer", op_udp_transfer, prepare_udp },
       { "udp6-transfer", op_udp_transfer, prepare_udp6 },
       { "getsockname", op_getsockname, prepare_udp },
       { "setsockopt", op_setsockopt, prepare_udp },
       { "getsockopt", op_getsockopt, prepare_udp },
       { "netlink", op_netlink, NULL },
       { "netlink-links", op_netlink_links, prepare_netlink },
       { "netlink-addresses", op_netlink_addresses, prepare_netlink },
       { "netlink-routes", op_netlink_routes, prepare_netlink },
       { "icmp", op_icmp, NULL });
