// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tasks in several user namespaces race for what a limit leaves. In every
 * round as many charges as there is room must succeed, neither more nor less;
 * in every other round there is room for all. The third begins when a level that
 * has refused may keep stock again, so that the limit binds while processors have some.
 *
 *	limits TYPE NAMESPACES TASKS ROOM ROUNDS
 *
 * TYPE: sigpending, nproc, msgqueue, memlock. With NAMESPACES 0 the limit is
 * the user's own; with more, each namespace is made under the limit, which so
 * binds the user at the level above all of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define UID 1000
#define MOST 512

struct shared {
	atomic_int ready, go, tried, release, released, stop, broken;
	atomic_long charged;
	long attempts;
	long extra;	/* the first so many tasks try once more */
	char why[200];
};

static struct shared *shared;
static pid_t boss;

static void die(const char *format, ...)
{
	va_list list;

	if (shared && !atomic_exchange(&shared->broken, 1)) {
		va_start(list, format);
		vsnprintf(shared->why, sizeof(shared->why), format, list);
		va_end(list);
	}
	_exit(3);
}

/* One charge and its end, for each type. */

static pid_t child[MOST];
static mqd_t queue[MOST];
static int segment[MOST];
static int me;

static int charge_sigpending(int n)
{
	union sigval value = { .sival_int = n };

	return sigqueue(getpid(), SIGRTMIN, value);
}

static void uncharge_sigpending(int n)
{
	struct timespec now = { 0 };
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	if (sigtimedwait(&set, &info, &now) != SIGRTMIN)
		die("signal %d was queued and is not there", n);
}

static int charge_nproc(int n)
{
	child[n] = fork();
	if (child[n])
		return child[n] < 0 ? -1 : 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static void uncharge_nproc(int n)
{
	kill(child[n], SIGKILL);
	if (waitpid(child[n], NULL, 0) != child[n])
		die("waiting for a child: %m");
}

static int charge_msgqueue(int n)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 100 };
	char name[64];

	snprintf(name, sizeof(name), "/limits-%d-%d", me, n);
	queue[n] = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr);
	if (queue[n] < 0)
		return -1;
	mq_unlink(name);
	return 0;
}

static void uncharge_msgqueue(int n)
{
	mq_close(queue[n]);
}

static int charge_memlock(int n)
{
	segment[n] = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	if (segment[n] < 0)
		die("shmget: %m");
	if (!shmctl(segment[n], SHM_LOCK, NULL))
		return 0;
	shmctl(segment[n], IPC_RMID, NULL);
	return -1;
}

static void uncharge_memlock(int n)
{
	shmctl(segment[n], IPC_RMID, NULL);
}

static const struct type {
	const char *name;
	int resource;
	long unit;
	int (*charge)(int n);
	void (*uncharge)(int n);
	int refusal;
} types[] = {
	{ "sigpending", RLIMIT_SIGPENDING, 1, charge_sigpending, uncharge_sigpending, EAGAIN },
	{ "nproc", RLIMIT_NPROC, 1, charge_nproc, uncharge_nproc, EAGAIN },
	{ "msgqueue", RLIMIT_MSGQUEUE, 0, charge_msgqueue, uncharge_msgqueue, EMFILE },
	{ "memlock", RLIMIT_MEMLOCK, 4096, charge_memlock, uncharge_memlock, ENOMEM },
};

static void await(atomic_int *counter, int value)
{
	while (atomic_load(counter) < value) {
		if (atomic_load(&shared->broken)) {
			if (getpid() == boss) {
				printf("not ok 1 - %s\n", shared->why);
				fflush(stdout);
			}
			_exit(3);
		}
		sched_yield();
	}
}

static void run_task(const struct type *type, int number)
{
	sigset_t set;
	int round;

	me = number;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (round = 1; ; round++) {
		int mine = 0, n, tries;

		atomic_fetch_add(&shared->ready, 1);
		await(&shared->go, round);
		if (atomic_load(&shared->stop))
			_exit(0);
		tries = shared->attempts + (number < shared->extra);
		for (n = 0; n < tries; n++) {
			if (!type->charge(mine))
				mine++;
			else if (errno != type->refusal)
				die("%s: %m", type->name);
		}
		atomic_fetch_add(&shared->charged, mine);
		atomic_fetch_add(&shared->tried, 1);
		await(&shared->release, round);
		while (mine)
			type->uncharge(--mine);
		atomic_fetch_add(&shared->released, 1);
	}
}

static void set_limit(int resource, rlim_t soft)
{
	struct rlimit limit = { .rlim_cur = soft, .rlim_max = RLIM_INFINITY };

	if (setrlimit(resource, &limit))
		die("setrlimit: %m");
}

static void become_user(void)
{
	if (setresgid(UID, UID, UID) || setresuid(UID, UID, UID))
		die("becoming user %d: %m", UID);
	/* Children must not need a capability to be killed, nor have one. */
	prctl(PR_SET_DUMPABLE, 1);
}

/* How much the limit admits, found out by one task alone. */
static long room_for_one(const struct type *type, rlim_t limit)
{
	int status, n, pipe_of[2];
	long found = -1;
	pid_t pid;

	if (pipe(pipe_of))
		die("pipe: %m");
	pid = fork();
	if (!pid) {
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGRTMIN);
		sigprocmask(SIG_BLOCK, &set, NULL);
		set_limit(type->resource, limit);
		become_user();
		for (n = 0; n < MOST && !type->charge(n); n++)
			;
		found = n;
		while (n)
			type->uncharge(--n);
		if (write(pipe_of[1], &found, sizeof(found)) != sizeof(found))
			_exit(1);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (read(pipe_of[0], &found, sizeof(found)) != sizeof(found))
		found = -1;
	close(pipe_of[0]);
	close(pipe_of[1]);
	return found;
}

static void run_namespace(const struct type *type, int namespaces, int tasks, int number,
			  rlim_t limit)
{
	int n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	set_limit(type->resource, limit);
	become_user();
	if (namespaces) {
		if (unshare(CLONE_NEWUSER))
			die("unshare: %m");
		set_limit(type->resource, RLIM_INFINITY);
	}
	for (n = 0; n < tasks; n++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork of a task: %m");
		if (!pid)
			run_task(type, number * tasks + n);
	}
	while (wait(NULL) > 0)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	const struct type *type = types;
	int namespaces, tasks, groups, all, rounds, round, n, bad = 0;
	long room, expected, attempts;
	rlim_t limit;

	if (argc != 6)
		return 2;
	while (strcmp(type->name, argv[1])) {
		if (++type == types + sizeof(types) / sizeof(*types))
			return 2;
	}
	boss = getpid();
	namespaces = atoi(argv[2]);
	groups = namespaces ? namespaces : 1;
	tasks = atoi(argv[3]);
	all = groups * tasks;
	room = atol(argv[4]);
	rounds = atoi(argv[5]);

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 3;

	/* A queue's size is the kernel's own business: so many bytes, then count. */
	limit = type->unit ? room * type->unit : room * 250;
	if (type->resource != RLIMIT_NPROC) {
		long alone = room_for_one(type, limit);

		if (type->unit && alone != room) {
			printf("not ok 1 - one task has room for %ld, not %ld\n", alone, room);
			return 1;
		}
		room = alone;
		/*
		 * A namespace's maximum is kept as its creator's limit was,
		 * in bytes, and compared with pages: so be it.
		 */
		if (type->resource == RLIMIT_MEMLOCK && namespaces)
			limit = room;
	} else {
		/* The tasks themselves are charged too. */
		limit += groups + all;
	}

	for (n = 0; n < groups; n++) {
		pid_t pid = fork();

		if (!pid)
			run_namespace(type, namespaces, tasks, n, limit);
	}
	for (round = 1; round <= rounds && !atomic_load(&shared->broken); round++) {
		/* Room for all to the last one, or not for some, or not for most. */
		long total = round % 2 ? room : round % 4 ? room + 1 : 2 * room + all;

		attempts = total / all;
		shared->attempts = attempts;
		shared->extra = total % all;
		expected = total < room ? total : room;
		await(&shared->ready, round * all);
		if (round == 3)
			usleep(2100000);
		atomic_store(&shared->charged, 0);
		atomic_store(&shared->tried, 0);
		atomic_store(&shared->released, 0);
		atomic_store(&shared->go, round);
		await(&shared->tried, all);
		if (atomic_load(&shared->charged) != expected) {
			printf("# round %d: %ld of %ld attempts succeeded, there was room for %ld\n",
			       round, atomic_load(&shared->charged), total, room);
			bad++;
		}
		atomic_store(&shared->release, round);
		await(&shared->released, all);
	}
	await(&shared->ready, round * all);
	atomic_store(&shared->stop, 1);
	atomic_store(&shared->go, round);
	while (wait(NULL) > 0)
		;
	printf("%sok 1 - %s: %d tasks in %d namespaces, room for %ld, %d of %d rounds exact\n",
	       bad ? "not " : "", type->name, all, namespaces, room, rounds - bad, rounds);
	return bad != 0;
}
