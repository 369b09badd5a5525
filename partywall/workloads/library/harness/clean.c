// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <ftw.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include "clean.h"

static const char *const places[] = { "/tmp", "/volume", "/dev/shm", "/dev/mqueue" };

static int drop(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
	(void)st;
	(void)flag;
	/* What can't be removed is in nobody's way. */
	if (walk->level)
		(void)!remove(path);
	return 0;
}

void clean_places(void)
{
	for (size_t n = 0; n < sizeof(places) / sizeof(*places); n++)
		nftw(places[n], drop, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void clean_directory(const char *path)
{
	nftw(path, drop, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void clean_ipc(void)
{
	struct msqid_ds queue;
	struct semid_ds set;
	struct seminfo sets;
	struct shmid_ds memory;
	int last, n;

	for (last = msgctl(0, MSG_INFO, &queue), n = 0; n <= last; n++)
		msgctl(msgctl(n, MSG_STAT, &queue), IPC_RMID, NULL);
	for (last = semctl(0, 0, SEM_INFO, &sets), n = 0; n <= last; n++)
		semctl(semctl(n, 0, SEM_STAT, &set), 0, IPC_RMID);
	for (last = shmctl(0, SHM_INFO, &memory), n = 0; n <= last; n++)
		shmctl(shmctl(n, SHM_STAT, &memory), IPC_RMID, NULL);
}
