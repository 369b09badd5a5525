/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A client in a container of its own. It and the server's container have a folder together:
 * `box`, a page of zeroes at first, in which it is told what to do, and `said`, what the
 * client prints.
 */
#ifndef PEER_H
#define PEER_H

#include <stdatomic.h>

enum order {
	ORDER_ASK,	/* so many requests */
	ORDER_OPEN,	/* the window, on its own CPUs */
	ORDER_CLOSE,
};

struct box {
	_Atomic unsigned int given, taken;	/* orders */
	enum order order;
	unsigned long requests;
	_Atomic unsigned int begun, over;	/* clients */
	int status;				/* of the last one that is over */
};

/* Both end the process with a message if the folder has no such file. */
struct box *peer_box(const char *folder);
int peer_said(const char *folder);

/* Returns when the peer has taken the order. */
void peer_order(struct box *box, enum order order, unsigned long requests);

/* Is the peer: runs this command when it is told to. */
void peer_obey(const char *folder, char **client) __attribute__((noreturn));

#endif
