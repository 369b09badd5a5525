/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What programs ask netlink for that make and change devices. */
#ifndef LINK_H
#define LINK_H

#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

struct request {
	struct nlmsghdr head;
	struct ifinfomsg link;
	char data[512];
};

static inline struct rtattr *attribute(struct request *one, int type, const void *data, int size)
{
	struct rtattr *at = (void *)one + NLMSG_ALIGN(one->head.nlmsg_len);

	at->rta_type = type;
	at->rta_len = RTA_LENGTH(size);
	if (size)
		memcpy(RTA_DATA(at), data, size);
	one->head.nlmsg_len = NLMSG_ALIGN(one->head.nlmsg_len) + RTA_ALIGN(at->rta_len);
	return at;
}

static inline void closed(struct request *one, struct rtattr *at)
{
	at->rta_len = (void *)one + one->head.nlmsg_len - (void *)at;
}

/* Asks for something in the namespace that the task is in; 0, or an error number. */
static inline int ask(struct request *one)
{
	char answer[1024];
	struct nlmsghdr *head = (void *)answer;
	struct nlmsgerr *error = NLMSG_DATA(head);
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t got;

	must(sock >= 0, "netlink");
	one->head.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	must(send(sock, one, one->head.nlmsg_len, 0) == one->head.nlmsg_len, "send");
	got = recv(sock, answer, sizeof(answer), 0);
	close(sock);
	must(got >= (ssize_t)NLMSG_LENGTH(sizeof(*error)) && head->nlmsg_type == NLMSG_ERROR, "recv");
	return -error->error;
}

static inline struct request request(int type, int flags)
{
	struct request one = {
		.head = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
			  .nlmsg_type = type, .nlmsg_flags = flags },
		.link = { .ifi_family = AF_UNSPEC },
	};
	return one;
}

/* Moves a device to the namespace of @fd. */
static inline int move(const char *name, int fd)
{
	struct request one = request(RTM_NEWLINK, 0);

	attribute(&one, IFLA_IFNAME, name, strlen(name) + 1);
	attribute(&one, IFLA_NET_NS_FD, &fd, sizeof(fd));
	return ask(&one);
}

/* A pair of veth, the other end in the namespace of @fd. */
static inline int pair(const char *name, const char *peer, int fd)
{
	struct request one = request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	struct ifinfomsg end = { .ifi_family = AF_UNSPEC };
	struct rtattr *info, *data, *far;

	attribute(&one, IFLA_IFNAME, name, strlen(name) + 1);
	info = attribute(&one, IFLA_LINKINFO, NULL, 0);
	attribute(&one, IFLA_INFO_KIND, "veth", 4);
	data = attribute(&one, IFLA_INFO_DATA, NULL, 0);
	far = attribute(&one, VETH_INFO_PEER, &end, sizeof(end));
	attribute(&one, IFLA_IFNAME, peer, strlen(peer) + 1);
	attribute(&one, IFLA_NET_NS_FD, &fd, sizeof(fd));
	closed(&one, far);
	closed(&one, data);
	closed(&one, info);
	return ask(&one);
}

/* A device of @kind that needs nothing else. */
static inline int simple(const char *name, const char *kind)
{
	struct request one = request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	struct rtattr *info;

	attribute(&one, IFLA_IFNAME, name, strlen(name) + 1);
	info = attribute(&one, IFLA_LINKINFO, NULL, 0);
	attribute(&one, IFLA_INFO_KIND, kind, strlen(kind));
	closed(&one, info);
	return ask(&one);
}

static inline int up(const char *name)
{
	struct request one = request(RTM_NEWLINK, 0);

	attribute(&one, IFLA_IFNAME, name, strlen(name) + 1);
	one.link.ifi_flags = one.link.ifi_change = IFF_UP;
	return ask(&one);
}

/* Puts this task into a new namespace, and returns a descriptor of that. */
static inline int namespace(void)
{
	int fd;

	must(!unshare(CLONE_NEWNET), "unshare");
	fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	must(fd >= 0, "open");
	return fd;
}

#endif
