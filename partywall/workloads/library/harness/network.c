// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a host has before its containers start, as Docker's default network does it:
 *
 *	network COUNT
 *
 * COUNT pairs of network namespaces, /run/netns/c0 and p0 and so on, each with one end of a
 * pair of veth devices, whose other end is in the one bridge; and a folder for each
 * pair, /run/peers/0 and so on (peer.h).
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

#define BRIDGE "docker0"
#define NETWORK 0xac110000	/* 172.17.0.0 */
#define PREFIX 16
#define PAGE 4096

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

static struct in_addr address(unsigned int number)
{
	return (struct in_addr){ .s_addr = htonl(NETWORK + number) };
}

/* As Docker has it where a network is none of IPv6. */
static void without_ipv6(void)
{
	int fd = open("/proc/sys/net/ipv6/conf/default/disable_ipv6", O_WRONLY);

	if (fd < 0)
		return;
	check(write(fd, "1", 1) != 1, "disable_ipv6");
	close(fd);
}

/* The namespace of one container, which has this number in the network. */
static void make_space(char side, unsigned int pair, unsigned int number)
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
	without_ipv6();
	enter(host);
	netlink_open(NETLINK_ROUTE);
	make_veth(port, "eth0", space);
	set_link(port, 1, BRIDGE);
	close(netlink);
	enter(space);
	netlink_open(NETLINK_ROUTE);
	give_address("eth0", address(number), PREFIX);
	set_link("lo", 1, NULL);
	set_link("eth0", 1, NULL);
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

/* It is no workload that fails: init says which step it was. */
static void say(void)
{
	fprintf(stderr, "network: %s\n", strerror(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	unsigned int pairs = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;

	if (!pairs)
		return 2;
	failing = say;
	host = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	check(host < 0, "open of a network namespace");
	make_dir("/run/netns");
	make_dir("/run/peers");
	netlink_open(NETLINK_ROUTE);
	make_bridge(BRIDGE);
	give_address(BRIDGE, address(1), PREFIX);
	set_link(BRIDGE, 1, NULL);
	close(netlink);
	for (unsigned int pair = 0; pair < pairs; pair++) {
		make_space('c', pair, 2 + 2 * pair);
		make_space('p', pair, 3 + 2 * pair);
		make_folder(pair);
	}
	return 0;
}
