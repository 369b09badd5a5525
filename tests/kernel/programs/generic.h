/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What programs ask families of generic netlink for. */
#ifndef GENERIC_H
#define GENERIC_H

#include <errno.h>
#include <linux/genetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

struct generic {
	struct nlmsghdr head;
	struct genlmsghdr command;
	char data[256];
};

static inline void add(struct generic *one, int type, const void *data, int size)
{
	struct nlattr *at = (void *)one + NLMSG_ALIGN(one->head.nlmsg_len);

	at->nla_type = type;
	at->nla_len = NLA_HDRLEN + size;
	memcpy((void *)at + NLA_HDRLEN, data, size);
	one->head.nlmsg_len = NLMSG_ALIGN(one->head.nlmsg_len) + NLA_ALIGN(at->nla_len);
}

/* The answer is put where the question was. */
static inline void ask_generic(struct generic *one, const char *what)
{
	int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	struct nlmsgerr *error = NLMSG_DATA(&one->head);
	ssize_t got;

	must(sock >= 0, "generic netlink");
	one->head.nlmsg_flags |= NLM_F_REQUEST;
	must(send(sock, one, one->head.nlmsg_len, 0) == one->head.nlmsg_len, what);
	got = recv(sock, one, sizeof(*one), 0);
	close(sock);
	must(got > 0, what);
	if (one->head.nlmsg_type == NLMSG_ERROR && error->error) {
		errno = -error->error;
		must(0, what);
	}
}

static inline int family(const char *name)
{
	struct generic one = {
		.head = { .nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN), .nlmsg_type = GENL_ID_CTRL },
		.command = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 },
	};
	struct nlattr *at;

	add(&one, CTRL_ATTR_FAMILY_NAME, name, strlen(name) + 1);
	ask_generic(&one, name);
	for (at = (void *)one.data; (void *)at < (void *)&one + one.head.nlmsg_len;
	     at = (void *)at + NLA_ALIGN(at->nla_len))
		if (at->nla_type == CTRL_ATTR_FAMILY_ID)
			return *(unsigned short *)((void *)at + NLA_HDRLEN);
	must(0, "number of a family");
	return 0;
}

#endif
