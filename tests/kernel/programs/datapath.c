// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Datapaths of Open vSwitch whose device is in another namespace, while both go.
 *
 *	datapath TIMES
 *		makes a namespace with a datapath, moves its device to another one, and
 *		gives both up: the one first, or the other, or both at once
 *
 * It says how many devices it moved.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openvswitch.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"
#include "generic.h"
#include "link.h"

/* A datapath, and a device of it besides the one of its own name, which can't be moved. */
static void make(const char *name)
{
	struct generic datapath = {
		.head = { .nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN) + sizeof(struct ovs_header),
			  .nlmsg_type = family(OVS_DATAPATH_FAMILY), .nlmsg_flags = NLM_F_ACK },
		.command = { .cmd = OVS_DP_CMD_NEW, .version = OVS_DATAPATH_VERSION },
	};
	struct generic port = {
		.head = { .nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN) + sizeof(struct ovs_header),
			  .nlmsg_type = family(OVS_VPORT_FAMILY), .nlmsg_flags = NLM_F_ACK },
		.command = { .cmd = OVS_VPORT_CMD_NEW, .version = OVS_VPORT_VERSION },
	};
	struct ovs_header *of = (void *)port.data;
	unsigned int nobody = 0, internal = OVS_VPORT_TYPE_INTERNAL;

	add(&datapath, OVS_DP_ATTR_NAME, "datapath", sizeof("datapath"));
	add(&datapath, OVS_DP_ATTR_UPCALL_PID, &nobody, sizeof(nobody));
	ask_generic(&datapath, "a datapath");

	of->dp_ifindex = if_nametoindex("datapath");
	add(&port, OVS_VPORT_ATTR_TYPE, &internal, sizeof(internal));
	add(&port, OVS_VPORT_ATTR_NAME, name, strlen(name) + 1);
	add(&port, OVS_VPORT_ATTR_UPCALL_PID, &nobody, sizeof(nobody));
	ask_generic(&port, "a port");
}

int main(int argc, char **argv)
{
	int first = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int times = argc > 1 ? atoi(argv[1]) : 0;

	must(first >= 0 && times > 0, "usage");
	for (int n = 0; n < times; n++) {
		int there = namespace(), here = namespace();
		char name[IFNAMSIZ];

		snprintf(name, sizeof(name), "port%d", n);
		make(name);
		errno = move(name, there);
		must(!errno, "move");
		must(!setns(first, CLONE_NEWNET), "setns");
		close(n % 2 ? here : there);
		/* So long that the first one is on its way, or not even so. */
		usleep(n % 3 * 10000);
		close(n % 2 ? there : here);
	}
	printf("datapath %d devices moved\n", times);
	return 0;
}
