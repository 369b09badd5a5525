/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What processes leave in their container's files and queues. */
#ifndef CLEAN_H
#define CLEAN_H

/* All that is in the directories that operations write to. */
void clean_places(void);

/* All that is in this one. */
void clean_directory(const char *path);

/* System V's, which stay when all are gone that use them. */
void clean_ipc(void);

#endif
