// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "links.h"
#include "operations.h"
#include "rules.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* One that is left to experiments. */
#define ETHER_TYPE 0x88b5
#define FRAME 64
/* A new bridge may take a moment until it forwards. */
#define TRIES 20

/* Names of this process; the ends of two pairs, a bridge. */
static char ends[4][IFNAMSIZ], bridge[IFNAMSIZ], table[32];
static unsigned int number, loopback;
static int from = -1, to = -1;

static void prepare_names(const struct run *run)
{
	netlink_open(NETLINK_ROUTE);
	number = run->index;
	loopback = if_nametoindex("lo");
	set_link("lo", 1, NULL);
	for (int n = 0; n < 4; n++) {
		snprintf(ends[n], IFNAMSIZ, "pw%u-%d", number, n);
		/* Of an operation before this one. */
		drop_link(ends[n]);
	}
	snprintf(bridge, IFNAMSIZ, "pwbr%u", number);
	drop_link(bridge);
}

static void prepare_pair(const struct run *run)
{
	prepare_names(run);
	make_veth(ends[0], ends[1], -1);
	set_link(ends[0], 1, NULL);
	set_link(ends[1], 1, NULL);
}

static int packets(const char *name, int protocol)
{
	const struct timeval patience = { .tv_usec = 100000 };
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = if_nametoindex(name),
	};
	int made = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	check(made < 0, "socket(AF_PACKET)");
	check(bind(made, (struct sockaddr *)&address, sizeof(address)), "bind");
	check(setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)),
	      "SO_RCVTIMEO");
	return made;
}

static int frame_passes(void)
{
	/* To all, from an address that is given out by hand. */
	static const unsigned char frame[FRAME] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1,
		ETHER_TYPE >> 8, ETHER_TYPE & 0xff,
	};
	char taken[2 * FRAME];

	check(send(from, frame, FRAME, 0) != FRAME, "send");
	return recv(to, taken, sizeof(taken), 0) == FRAME;
}

static void open_path(const char *first, const char *last)
{
	from = packets(first, 0);
	to = packets(last, ETHER_TYPE);
	for (int n = 0; !frame_passes(); n++)
		check(n == TRIES, "the first frame");
}

static void prepare_veth_frame(const struct run *run)
{
	prepare_pair(run);
	open_path(ends[0], ends[1]);
}

/* Two pairs, of each an end in the bridge, as two containers have. */
static void prepare_bridge_frame(const struct run *run)
{
	prepare_pair(run);
	make_veth(ends[2], ends[3], -1);
	make_bridge(bridge);
	set_link(bridge, 1, NULL);
	set_link(ends[3], 1, NULL);
	set_link(ends[1], 1, bridge);
	set_link(ends[2], 1, bridge);
	open_path(ends[0], ends[3]);
}

static void op_frame(unsigned long n)
{
	check(!frame_passes(), "recv");
}

static void op_veth(unsigned long n)
{
	make_veth(ends[0], ends[1], -1);
	errno = drop_link(ends[0]);
	check(errno, "RTM_DELLINK");
}

static void op_bridge(unsigned long n)
{
	make_bridge(bridge);
	errno = drop_link(bridge);
	check(errno, "RTM_DELLINK");
}

static void op_up(unsigned long n)
{
	set_link(ends[0], 0, NULL);
	set_link(ends[0], 1, NULL);
}

static void change_address(int type, int flags)
{
	const struct ifaddrmsg body = {
		.ifa_family = AF_INET,
		.ifa_prefixlen = 32,
		.ifa_index = loopback,
	};
	const unsigned int address = htonl(0x7f010000 + number);
	struct nlmsghdr *made = message(type, flags | NLM_F_ACK, &body, sizeof(body));

	attribute(made, IFA_LOCAL, &address, sizeof(address));
	ask(type == RTM_NEWADDR ? "RTM_NEWADDR" : "RTM_DELADDR");
}

static void op_address(unsigned long n)
{
	change_address(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
	change_address(RTM_DELADDR, 0);
}

static void change_route(int type, int flags)
{
	const struct rtmsg body = {
		.rtm_family = AF_INET,
		.rtm_dst_len = 32,
		.rtm_table = RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = RT_SCOPE_LINK,
		.rtm_type = RTN_UNICAST,
	};
	const unsigned int address = htonl(0x0a630000 + number);
	struct nlmsghdr *made = message(type, flags | NLM_F_ACK, &body, sizeof(body));

	attribute(made, RTA_DST, &address, sizeof(address));
	attribute(made, RTA_OIF, &loopback, sizeof(loopback));
	ask(type == RTM_NEWROUTE ? "RTM_NEWROUTE" : "RTM_DELROUTE");
}

static void op_route(unsigned long n)
{
	change_route(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
	change_route(RTM_DELROUTE, 0);
}

static int change_table(int type, int flags)
{
	text(change_rules(type, flags), NFTA_TABLE_NAME, table);
	return commit();
}

static void make_table(void)
{
	errno = change_table(NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
	check(errno, "NFT_MSG_NEWTABLE");
}

static void prepare_table_name(const struct run *run)
{
	netlink_open(NETLINK_NETFILTER);
	snprintf(table, sizeof(table), "partywall-%u", run->index);
	/* Of an operation before this one. */
	change_table(NFT_MSG_DELTABLE, 0);
}

static void prepare_table(const struct run *run)
{
	prepare_table_name(run);
	make_table();
}

static void op_table(unsigned long n)
{
	make_table();
	errno = change_table(NFT_MSG_DELTABLE, 0);
	check(errno, "NFT_MSG_DELTABLE");
}

static void op_chain(unsigned long n)
{
	struct nlmsghdr *made;

	make_chain(table, "in", NF_INET_LOCAL_IN);
	made = change_rules(NFT_MSG_DELCHAIN, 0);
	text(made, NFTA_CHAIN_TABLE, table);
	text(made, NFTA_CHAIN_NAME, "in");
	errno = commit();
	check(errno, "NFT_MSG_DELCHAIN");
}

FAMILY({ "veth", op_veth, prepare_names },
       { "bridge", op_bridge, prepare_names },
       { "up", op_up, prepare_pair },
       { "address", op_address, prepare_names },
       { "route", op_route, prepare_names },
       { "veth-frame", op_frame, prepare_veth_frame },
       { "bridge-frame", op_frame, prepare_bridge_frame },
       { "nft-table", op_table, prepare_table_name },
       { "nft-chain", op_chain, prepare_table });
