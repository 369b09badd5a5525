// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Names that are not there.
 *
 *	missing flood DIR NAMES [TASKS]
 *		looks up so many names in DIR, each once
 *	missing again DIR NAMES ROUNDS
 *		looks up the same names over and over
 *	missing beside DIR NAMES WHERE OTHERS
 *		looks up the same NAMES in DIR over and over while OTHERS are looked up
 *		in WHERE, each once, in turns
 *	missing victim DIR NAMES WHERE OTHERS CGROUP
 *		looks up the same NAMES in DIR before, while and after OTHERS are looked
 *		up in WHERE, each once, by a task in CGROUP, in turns
 *	missing files DIR NAMES
 *		makes and removes so many files, each of a name of its own
 *	missing lock DIR ROUNDS
 *		makes and removes a file of the same name over and over
 *	missing storm DIR SECONDS
 *		names come, go and are looked for by all at once. What is known to be
 *		there has to be found, and what is not, not.
 *	missing watch DIR TIMES
 *		begins and ends to watch what happens in DIR
 *	missing hog DIR NAMES
 *		looks up so many names in DIR, each once, as a real-time task of its
 *		processor; makes a file /held then, and leaves the processor to nobody
 *		until there is a file /stop
 *	missing pauses COMMAND...
 *		runs a command, and says for how long its processor could not be had
 *		by a task that may have it at any time
 *
 * Each says what it did in one line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

static char path[512], other[512];

static void miss(const char *dir, const char *kind, long n)
{
	snprintf(path, sizeof(path), "%s/%s-%ld", dir, kind, n);
	must(access(path, F_OK) && errno == ENOENT, path);
}

static int flood(const char *dir, long names, int tasks)
{
	double began = now();

	for (int task = 0; task < tasks; task++) {
		if (fork())
			continue;
		for (long n = task; n < names; n += tasks)
			miss(dir, "flood", n);
		_exit(0);
	}
	must(all_ended(), "flood");
	printf("flood %ld names, %d tasks, %.3f s\n", names, tasks, now() - began);
	return 0;
}

static int again(const char *dir, long names, long rounds)
{
	for (long round = 0; round < rounds; round++)
		for (long n = 0; n < names; n++)
			miss(dir, "again", n);
	printf("again %ld names, %ld rounds\n", names, rounds);
	return 0;
}

/* Look-ups of the same names, and what each of them took. */
struct looked {
	const char *dir;
	long names, done, slow;
	double known, sum;
};

/*
 * What the dentry cache knows takes not much more than the directory itself; what
 * the file system has to be asked for takes half as much again at least.
 */
static struct looked looks_in(const char *dir, long names)
{
	struct looked at = { .dir = dir, .names = names, .known = 1 };
	double began, took;

	for (int n = 0; n < 100; n++) {
		began = now();
		must(!access(dir, F_OK), dir);
		took = now() - began;
		at.known = took < at.known ? took : at.known;
	}
	return at;
}

static void look_round(struct looked *at, int counts)
{
	double began, took;

	for (long n = 0; n < at->names; n++) {
		began = now();
		miss(at->dir, "again", n);
		took = now() - began;
		if (!counts)
			continue;
		at->done++;
		at->sum += took;
		at->slow += took > 1.6 * at->known;
	}
}

static void say_looked(const struct looked *at, const char *when, long others)
{
	must(at->done > 0, "too few rounds");
	printf("%s %ld others: %ld look-ups, %.0f ns each, %.0f of %s, %.2f %% slow\n", when, others,
	       at->done, at->sum / at->done * 1e9, at->known * 1e9, at->dir,
	       100.0 * at->slow / at->done);
}

/* Sixteen times as many of those that are not asked for again. */
static int beside(const char *dir, long names, const char *where, long others)
{
	struct looked at = looks_in(dir, names);
	long done = 0;

	for (int rounds = 0; done < others; rounds++) {
		/* At first nothing is known. */
		look_round(&at, rounds >= 2);
		for (long n = 0; n < names * 16 && done < others; n++)
			miss(where, "flood", done++);
	}
	say_looked(&at, "beside", others);
	return 0;
}

#define TURNS 100
#define ALONE 20

/* The flood of another cgroup; goes on by one part for each byte that it reads. */
static void flood_in_turns(const char *where, long others, const char *cgroup, const int turns[2])
{
	char byte, procs[256];
	long done = 0;
	FILE *file;

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", cgroup);
	file = fopen(procs, "w");
	must(file && fprintf(file, "%d\n", getpid()) > 0 && !fclose(file), procs);
	while (read(turns[0], &byte, 1) == 1) {
		for (long n = 0; n < others / TURNS; n++)
			miss(where, "flood", done++);
		must(write(turns[1], &byte, 1) == 1, "write");
	}
	_exit(0);
}

static int victim(const char *dir, long names, const char *where, long others, const char *cgroup)
{
	struct looked before = looks_in(dir, names), during, after;
	int go[2], went[2];
	char byte = 0;

	must(!pipe(go) && !pipe(went), "pipe");
	if (!fork()) {
		close(go[1]);
		flood_in_turns(where, others, cgroup, (int[]){ go[0], went[1] });
	}
	during = after = before;
	for (int n = 0; n < ALONE; n++)
		look_round(&before, n >= 2);
	for (int n = 0; n < TURNS; n++) {
		must(write(go[1], &byte, 1) == 1 && read(went[0], &byte, 1) == 1, "a turn");
		look_round(&during, 1);
	}
	close(go[1]);
	must(all_ended(), "flood");
	for (int n = 0; n < ALONE; n++)
		look_round(&after, 1);
	say_looked(&before, "before", 0);
	say_looked(&during, "during", others);
	say_looked(&after, "after", 0);
	return 0;
}

static void make_and_remove(void)
{
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);

	must(fd >= 0, path);
	close(fd);
	must(!unlink(path), path);
}

static int files(const char *dir, long names)
{
	for (long n = 0; n < names; n++) {
		snprintf(path, sizeof(path), "%s/file-%ld", dir, n);
		make_and_remove();
	}
	printf("files %ld\n", names);
	return 0;
}

static int lock(const char *dir, long rounds)
{
	snprintf(path, sizeof(path), "%s/lock", dir);
	for (long n = 0; n < rounds; n++)
		make_and_remove();
	printf("lock %ld\n", rounds);
	return 0;
}

/*
 * Each owner has names of its own, and says of each whether it is there, before
 * and after it changes that: an odd number while it does, and the others by turns
 * for a name that is there and one that is not. Who looks at the number, at the
 * name and at the number again, and finds the same one twice, knows what it has to
 * have found.
 */
#define OWNERS 4
#define LOOKERS 4
#define NAMES 24

struct storm {
	atomic_uint state[OWNERS][NAMES];
	atomic_long changes, looks, sure;
	atomic_int stop;
};

static struct storm *storm;
static const char *base;
static unsigned int seed;

static unsigned int dice(unsigned int sides)
{
	return rand_r(&seed) % sides;
}

static const char *name_of(char *to, int owner, int n)
{
	snprintf(to, sizeof(path), "%s/%d/%s%d", base, owner, n % 3 ? "" : "deep/", n);
	return to;
}

static int is_there(unsigned int state)
{
	return state & 2;
}

static void change(int owner, int n, int from)
{
	atomic_uint *state = &storm->state[owner][n];
	unsigned int was = atomic_load(state), fd;

	name_of(path, owner, n);
	atomic_store(state, was + 1);
	if (from >= 0) {
		atomic_uint *source = &storm->state[owner][from];
		unsigned int there = atomic_load(source);

		name_of(other, owner, from);
		atomic_store(source, there + 1);
		must(!rename(other, path), "rename");
		atomic_store(source, there + 2);
	} else if (is_there(was)) {
		must(!unlink(path) || (errno == EISDIR && !rmdir(path)), path);
	} else if (dice(4)) {
		fd = open(path, O_CREAT | O_WRONLY | (dice(2) ? O_EXCL : 0), 0600);
		must((int)fd >= 0, path);
		close(fd);
	} else {
		must(!mkdir(path, 0700), path);
	}
	atomic_store(state, was + 2);
	atomic_fetch_add(&storm->changes, 1);
}

static void owner(int me)
{
	snprintf(path, sizeof(path), "%s/%d", base, me);
	must(!mkdir(path, 0755), path);
	strcat(path, "/deep");
	must(!mkdir(path, 0755), path);
	while (!storm->stop) {
		int n = dice(NAMES), from = dice(NAMES);

		/* A rename goes where nothing is. */
		if (is_there(storm->state[me][from]) && !is_there(storm->state[me][n]))
			change(me, n, from);
		else
			change(me, n, -1);
	}
}

static void look(void)
{
	int whose = dice(OWNERS), n = dice(NAMES), found;
	unsigned int before = atomic_load(&storm->state[whose][n]);
	struct stat stat;

	name_of(path, whose, n);
	found = dice(2) ? !access(path, F_OK) : !lstat(path, &stat);
	must(found || errno == ENOENT, path);
	atomic_fetch_add(&storm->looks, 1);
	/* Zero: the directories may not be there yet. */
	if (!before || before & 1 || atomic_load(&storm->state[whose][n]) != before)
		return;
	atomic_fetch_add(&storm->sure, 1);
	errno = 0;
	must(found == !!is_there(before), path);
}

static void looker(int me)
{
	while (!storm->stop) {
		look();
		if (me % 2)
			miss(base, "random", dice(1 << 30));
	}
}

static int storms(const char *dir, int seconds)
{
	base = dir;
	storm = shared(sizeof(*storm));
	for (int n = 0; n < OWNERS + LOOKERS; n++) {
		if (fork())
			continue;
		seed = n + 1;
		if (n < OWNERS)
			owner(n);
		else
			looker(n);
		_exit(0);
	}
	sleep(seconds);
	storm->stop = 1;
	must(all_ended(), "storm");
	printf("storm %ld changes, %ld looks, %ld sure\n", storm->changes, storm->looks,
	       storm->sure);
	must(storm->sure > 0, "nothing was sure");
	return 0;
}

static int watch(const char *dir, long times)
{
	int fd = inotify_init1(0);

	must(fd >= 0, "inotify_init1");
	for (long n = 0; n < times; n++) {
		int wd = inotify_add_watch(fd, dir, IN_MODIFY);

		must(wd >= 0 && !inotify_rm_watch(fd, wd), dir);
	}
	printf("watch %ld\n", times);
	return 0;
}

/* A task of the highest priority, on the processor of a command of the lowest. */
static int pauses(char **command)
{
	double longest = 0, last, at, total;
	cpu_set_t one;
	pid_t pid;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	must(!sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
	pid = fork();
	if (!pid) {
		execvp(command[0], command);
		must(0, command[0]);
	}
	must(!mlockall(MCL_CURRENT | MCL_FUTURE), "mlockall");
	come_first();
	total = last = now();
	while (!waitpid(pid, NULL, WNOHANG)) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = 200000 }, NULL);
		at = now();
		if (at - last > longest)
			longest = at - last;
		last = at;
	}
	printf("pauses %.1f ms at most in %.1f ms: %s\n", longest * 1e3, (last - total) * 1e3,
	       command[0]);
	return 0;
}

static int hog(const char *dir, long names)
{
	come_first();
	for (long n = 0; n < names; n++)
		miss(dir, "hog", n);
	hold_processor();
	printf("hog %ld names\n", names);
	return 0;
}

static int usage(void)
{
	printf("BROKEN usage\n");
	return 2;
}

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(what, "flood"))
		return flood(argv[2], atol(argv[3]), argc > 4 ? atoi(argv[4]) : 1);
	if (!strcmp(what, "hog"))
		return hog(argv[2], atol(argv[3]));
	if (!strcmp(what, "again") && argc > 4)
		return again(argv[2], atol(argv[3]), atol(argv[4]));
	if (!strcmp(what, "beside") && argc > 5)
		return beside(argv[2], atol(argv[3]), argv[4], atol(argv[5]));
	if (!strcmp(what, "victim") && argc > 6)
		return victim(argv[2], atol(argv[3]), argv[4], atol(argv[5]), argv[6]);
	if (!strcmp(what, "files"))
		return files(argv[2], atol(argv[3]));
	if (!strcmp(what, "lock"))
		return lock(argv[2], atol(argv[3]));
	if (!strcmp(what, "storm"))
		return storms(argv[2], atoi(argv[3]));
	if (!strcmp(what, "watch"))
		return watch(argv[2], atol(argv[3]));
	if (!strcmp(what, "pauses"))
		return pauses(argv + 2);
	return usage();
}
