/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Network devices and what is theirs, by netlink. */
#ifndef LINKS_H
#define LINKS_H

#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "operations.h"

static int netlink = -1;

/* What is asked for, one message or more behind each other. */
static struct {
	_Alignas(NLMSG_ALIGNTO) char data[2048];
	size_t length;
} asked;

static inline struct nlmsghdr *message(int type, int flags, const void *body, size_t length)
{
	struct nlmsghdr *made = (void *)(asked.data + asked.length);

	*made = (struct nlmsghdr){
		.nlmsg_len = NLMSG_LENGTH(length),
		.nlmsg_type = type,
		.nlmsg_flags = NLM_F_REQUEST | flags,
	};
	memcpy(NLMSG_DATA(made), body, length);
	asked.length += NLMSG_SPACE(length);
	return made;
}

static inline struct nlattr *attribute(struct nlmsghdr *of, int type, const void *data, size_t length)
{
	struct nlattr *made = (void *)(asked.data + asked.length);

	made->nla_type = type;
	made->nla_len = NLA_HDRLEN + length;
	memcpy((char *)made + NLA_HDRLEN, data, length);
	asked.length += NLA_ALIGN(made->nla_len);
	of->nlmsg_len = asked.data + asked.length - (char *)of;
	return made;
}

static inline void text(struct nlmsghdr *of, int type, const char *data)
{
	attribute(of, type, data, strlen(data) + 1);
}

static inline void end(struct nlattr *nest)
{
	nest->nla_len = asked.data + asked.length - (char *)nest;
}

/* Sends what is asked for; returns what the one with NLM_F_ACK is answered: 0 or an errno. */
static inline int answer(void)
{
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char rest[4096];
	} got;
	ssize_t length = asked.length;

	asked.length = 0;
	check(send(netlink, asked.data, length, 0) != length, "send");
	check(recv(netlink, &got, sizeof(got), 0) < (ssize_t)NLMSG_LENGTH(sizeof(got.error)),
	      "recv");
	errno = EBADMSG;
	check(got.header.nlmsg_type != NLMSG_ERROR, "what netlink answered");
	return -got.error.error;
}

static inline void ask(const char *what)
{
	errno = answer();
	check(errno, what);
}

static inline struct nlmsghdr *new_link(const char *name)
{
	const struct ifinfomsg none = { 0 };
	struct nlmsghdr *made = message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK,
					&none, sizeof(none));

	text(made, IFLA_IFNAME, name);
	return made;
}

static inline void make_bridge(const char *name)
{
	struct nlmsghdr *made = new_link(name);
	struct nlattr *info = attribute(made, IFLA_LINKINFO, NULL, 0);

	text(made, IFLA_INFO_KIND, "bridge");
	end(info);
	ask("RTM_NEWLINK of a bridge");
}

/* The peer goes to a network namespace, or stays here if that is -1. */
static inline void make_veth(const char *name, const char *peer, int namespace)
{
	const struct ifinfomsg none = { 0 };
	struct nlmsghdr *made = new_link(name);
	struct nlattr *info = attribute(made, IFLA_LINKINFO, NULL, 0), *data, *other;

	text(made, IFLA_INFO_KIND, "veth");
	data = attribute(made, IFLA_INFO_DATA, NULL, 0);
	other = attribute(made, VETH_INFO_PEER, &none, sizeof(none));
	text(made, IFLA_IFNAME, peer);
	if (namespace >= 0)
		attribute(made, IFLA_NET_NS_FD, &namespace, sizeof(namespace));
	end(other);
	end(data);
	end(info);
	ask("RTM_NEWLINK of a pair of veth devices");
}

static inline int drop_link(const char *name)
{
	const struct ifinfomsg none = { 0 };

	text(message(RTM_DELLINK, NLM_F_ACK, &none, sizeof(none)), IFLA_IFNAME, name);
	return answer();
}

static inline void set_link(const char *name, int up, const char *master)
{
	const struct ifinfomsg changed = { .ifi_change = IFF_UP, .ifi_flags = up ? IFF_UP : 0 };
	struct nlmsghdr *made = message(RTM_NEWLINK, NLM_F_ACK, &changed, sizeof(changed));
	unsigned int index = master ? if_nametoindex(master) : 0;

	text(made, IFLA_IFNAME, name);
	if (master)
		attribute(made, IFLA_MASTER, &index, sizeof(index));
	ask("RTM_NEWLINK of a link");
}

static inline void give_address(const char *name, struct in_addr address, unsigned char prefix)
{
	const struct ifaddrmsg body = {
		.ifa_family = AF_INET,
		.ifa_prefixlen = prefix,
		.ifa_index = if_nametoindex(name),
	};
	struct nlmsghdr *made = message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &body,
					sizeof(body));

	attribute(made, IFA_LOCAL, &address, sizeof(address));
	ask("RTM_NEWADDR");
}

/* Whatever has no way of its own goes there. */
static inline void make_default_route(struct in_addr gateway)
{
	const struct rtmsg body = {
		.rtm_family = AF_INET,
		.rtm_table = RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = RT_SCOPE_UNIVERSE,
		.rtm_type = RTN_UNICAST,
	};
	struct nlmsghdr *made = message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &body,
					sizeof(body));

	attribute(made, RTA_GATEWAY, &gateway, sizeof(gateway));
	ask("RTM_NEWROUTE");
}

static inline void netlink_open(int protocol)
{
	netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	check(netlink < 0, "socket");
}

#endif
