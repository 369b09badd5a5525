/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LISTENS_H
#define LISTENS_H

/* Whether anybody in the container listens to a port of TCP. */
int listens_to_tcp(void);

/* Whether nobody listens to one by which others reach it. */
int listens_to_itself(void);

/* Whether anybody listens to a socket with a name in a file system. */
int listens_to_unix(void);

#endif
