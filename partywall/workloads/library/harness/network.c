// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a host has before its containers start, as Docker's default network does it:
 *
 *	network COUNT [outside]
 *
 * COUNT pairs of network namespaces, /run/netns/c0 and p0 and so on, each with one end of a
 * pair of veth devices, whose other end is in the one bridge; and a folder for each
 * pair, /run/peers/0 and so on (peer.h).
 *
 * Outside: p0 and so on are on another bridge. What they send is routed, and a filter asks for
 * the state of its connection, as Docker's does of what comes to a container's port.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "links.h"
#include "rules.h"

#define PREFIX 16
#define TABLE "partywall"
#define PAGE 4096

struct network {
	const char *bridge;
	unsigned int address;
};

/* 172.17.0.0 and 172.18.0.0 */
static const struct network containers = { "docker0", 0xac110000 },
			    others = { "docker1", 0xac120000 };
static int host;

static void make_file(const char *path, off_t length)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	check(fd < 0 || fchmod(fd, 0666) || ftruncate(fd, length), path);
	close(fd);
}

static void enter(int space)
{
	check(setns(space, CLONE_NEWNET), "setns");
}

static struct in_addr address(const struct network *in, unsigned int number)
{
	return (struct in_addr){ .s_addr = htonl(in->address + number) };
}

/* What a kernel without it has not needs no setting. */
static void turn_on(const char *setting)
{
	int fd = open(setting, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	check(write(fd, "1", 1) != 1, setting);
	close(fd);
}

static void make_network(const struct network *network)
{
	make_bridge(network->bridge);
	give_address(network->bridge, address(network, 1), PREFIX);
	set_link(network->bridge, 1, NULL);
}

/* The namespace of one container, which has this number in the network. */
static void make_space(char side, unsigned int pair, const struct network *network,
		       unsigned int number)
{
	char path[64], port[IFNAMSIZ];
	int space;

	snprintf(path, sizeof(path), "/run/netns/%c%u", side, pair);
	snprintf(port, sizeof(port), "veth%c%u", side, pair);
	make_file(path, 0);
	check(unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)");
	check(mount("/proc/self/ns/net", path, NULL, MS_BIND, NULL), path);
	space = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	check(space < 0, "open of a network namespace");
	/* As Docker has it where a network is none of IPv6. */
	turn_on("/proc/sys/net/ipv6/conf/default/disable_ipv6");
	enter(host);
	netlink_open(NETLINK_ROUTE);
	make_veth(port, "eth0", space);
	set_link(port, 1, network->bridge);
	close(netlink);
	enter(space);
	netlink_open(NETLINK_ROUTE);
	give_address("eth0", address(network, number), PREFIX);
	set_link("lo", 1, NULL);
	set_link("eth0", 1, NULL);
	make_default_route(address(network, 1));
	close(netlink);
	close(space);
	enter(host);
}

static void make_folder(unsigned int pair)
{
	char path[64];

	snprintf(path, sizeof(path), "/run/peers/%u", pair);
	make_dir(path);
	snprintf(path, sizeof(path), "/run/peers/%u/box", pair);
	make_file(path, PAGE);
	snprintf(path, sizeof(path), "/run/peers/%u/said", pair);
	make_file(path, 0);
}

/* Looking at the state of a connection is what has them tracked. */
static void make_rule(void)
{
	const unsigned int to = htonl(NFT_REG_1), key = htonl(NFT_CT_STATE);
	struct nlmsghdr *made = change_rules(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	struct nlattr *all, *one, *data;

	text(made, NFTA_RULE_TABLE, TABLE);
	text(made, NFTA_RULE_CHAIN, "forward");
	all = attribute(made, NFTA_RULE_EXPRESSIONS | NLA_F_NESTED, NULL, 0);
	one = attribute(made, NFTA_LIST_ELEM | NLA_F_NESTED, NULL, 0);
	text(made, NFTA_EXPR_NAME, "ct");
	data = attribute(made, NFTA_EXPR_DATA | NLA_F_NESTED, NULL, 0);
	attribute(made, NFTA_CT_DREG, &to, sizeof(to));
	attribute(made, NFTA_CT_KEY, &key, sizeof(key));
	end(data);
	end(one);
	end(all);
	errno = commit();
	check(errno, "NFT_MSG_NEWRULE");
}

static void route(void)
{
	netlink_open(NETLINK_NETFILTER);
	text(change_rules(NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL), NFTA_TABLE_NAME, TABLE);
	errno = commit();
	check(errno, "NFT_MSG_NEWTABLE");
	make_chain(TABLE, "forward", NF_INET_FORWARD);
	make_rule();
	close(netlink);
	turn_on("/proc/sys/net/ipv4/ip_forward");
}

/* It is no workload that fails: init says which step it was. */
static void say(void)
{
	fprintf(stderr, "network: %s\n", strerror(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	unsigned int pairs = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	int outside = argc == 3 && !strcmp(argv[2], "outside");

	if (!pairs || argc > 2 + outside)
		return 2;
	failing = say;
	host = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	check(host < 0, "open of a network namespace");
	make_dir("/run/netns");
	make_dir("/run/peers");
	netlink_open(NETLINK_ROUTE);
	make_network(&containers);
	if (outside)
		make_network(&others);
	close(netlink);
	if (outside)
		route();
	for (unsigned int pair = 0; pair < pairs; pair++) {
		make_space('c', pair, &containers, 2 + 2 * pair);
		make_space('p', pair, outside ? &others : &containers, 3 + 2 * pair);
		make_folder(pair);
	}
	return 0;
}
