// SPDX-License-Identifier: GPL-2.0-or-later
/* Both ends of a connection over the container's own loopback. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

static int one_end, other_end;

static void prepare(const struct run *run)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(10000 + run->slot),
	};
	int on = 1, listening = socket(AF_INET, SOCK_STREAM, 0);

	one_end = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listening, (void *)&at, sizeof(at)) || listen(listening, 1) ||
	    connect(one_end, (void *)&at, sizeof(at)))
		fail("connect");
	other_end = accept(listening, NULL, NULL);
	if (other_end < 0 || setsockopt(one_end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		fail("accept");
}

static void operation(const struct run *run, unsigned long n)
{
	char byte = 1;

	(void)run;
	(void)n;
	if (write(one_end, &byte, 1) != 1 || read(other_end, &byte, 1) != 1)
		fail("sending a byte");
}

const struct workload workload = { .prepare = prepare, .operation = operation };
