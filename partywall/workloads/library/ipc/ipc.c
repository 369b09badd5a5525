// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include "operations.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define PAGE 4096
#define LENGTH 64

struct message {
	long type;
	char text[LENGTH];
};

/* What operations work on, made by prepare(). */
static int id = -1;
static char name[64];
static mqd_t queue = -1;

static int make_queue(void)
{
	int made = msgget(IPC_PRIVATE, 0600);

	check(made < 0, "msgget");
	return made;
}

static void prepare_msg(const struct run *run)
{
	id = make_queue();
}

static void op_msg(unsigned long n)
{
	check(msgctl(make_queue(), IPC_RMID, NULL), "msgctl");
}

static void op_msg_transfer(unsigned long n)
{
	struct message message = { .type = 1 };

	check(msgsnd(id, &message, LENGTH, IPC_NOWAIT), "msgsnd");
	check(msgrcv(id, &message, LENGTH, 1, IPC_NOWAIT) != LENGTH, "msgrcv");
}

static void op_msg_stat(unsigned long n)
{
	struct msqid_ds state;

	check(msgctl(id, IPC_STAT, &state), "msgctl");
}

static int make_semaphores(void)
{
	int made = semget(IPC_PRIVATE, 1, 0600);

	check(made < 0, "semget");
	return made;
}

static void prepare_sem(const struct run *run)
{
	id = make_semaphores();
}

static void op_sem(unsigned long n)
{
	check(semctl(make_semaphores(), 0, IPC_RMID), "semctl");
}

static void change(short by, short flags)
{
	struct sembuf buffer = { .sem_op = by, .sem_flg = flags };

	check(semop(id, &buffer, 1), "semop");
}

static void op_sem_change(unsigned long n)
{
	change(1, IPC_NOWAIT);
	change(-1, IPC_NOWAIT);
}

static void op_sem_undo(unsigned long n)
{
	change(1, IPC_NOWAIT | SEM_UNDO);
	change(-1, IPC_NOWAIT | SEM_UNDO);
}

static int make_memory(void)
{
	int made = shmget(IPC_PRIVATE, PAGE, 0600);

	check(made < 0, "shmget");
	return made;
}

static char *attach(int to)
{
	char *memory = shmat(to, NULL, 0);

	check(memory == (void *)-1, "shmat");
	return memory;
}

static void prepare_shm(const struct run *run)
{
	id = make_memory();
}

static void op_shm(unsigned long n)
{
	int made = make_memory();
	char *memory = attach(made);

	check(shmctl(made, IPC_RMID, NULL), "shmctl");
	memory[0] = 1;
	check(shmdt(memory), "shmdt");
}

static void op_shm_attach(unsigned long n)
{
	check(shmdt(attach(id)), "shmdt");
}

static void make_name(const struct run *run)
{
	snprintf(name, sizeof(name), "/ipc-%u", run->index);
}

static mqd_t open_mq(void)
{
	struct mq_attr attr = { .mq_maxmsg = 4, .mq_msgsize = LENGTH };
	mqd_t opened = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attr);

	check(opened < 0, "mq_open");
	return opened;
}

static void prepare_mq_name(const struct run *run)
{
	make_name(run);
	/* Of a run before this one, outside a container. */
	check(mq_unlink(name) && errno != ENOENT, "mq_unlink");
}

static void prepare_mq(const struct run *run)
{
	prepare_mq_name(run);
	queue = open_mq();
}

static void op_mq(unsigned long n)
{
	mqd_t made = open_mq();

	check(mq_close(made), "mq_close");
	check(mq_unlink(name), "mq_unlink");
}

static void op_mq_open(unsigned long n)
{
	mqd_t opened = mq_open(name, O_RDWR);

	check(opened < 0, "mq_open");
	check(mq_close(opened), "mq_close");
}

static void op_mq_transfer(unsigned long n)
{
	char text[LENGTH] = "";

	check(mq_send(queue, text, LENGTH, 0), "mq_send");
	check(mq_receive(queue, text, LENGTH, NULL) != LENGTH, "mq_receive");
}

static void op_mq_getattr(unsigned long n)
{
	struct mq_attr attr;

	check(mq_getattr(queue, &attr), "mq_getattr");
}

FAMILY({ "msg", op_msg, NULL },
       { "msg-transfer", op_msg_transfer, prepare_msg },
       { "msg-stat", op_msg_stat, prepare_msg },
       { "sem", op_sem, NULL },
       { "sem-change", op_sem_change, prepare_sem },
       { "sem-undo", op_sem_undo, prepare_sem },
       { "shm", op_shm, NULL },
       { "shm-attach", op_shm_attach, prepare_shm },
       { "mq", op_mq, prepare_mq_name },
       { "mq-open", op_mq_open, prepare_mq },
       { "mq-transfer", op_mq_transfer, prepare_mq },
       { "mq-getattr", op_mq_getattr, prepare_mq });
