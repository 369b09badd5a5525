// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Threads of one process, one on each CPU: what they share is the process.
 * The harness makes a process for each CPU; here that of the container's first
 * makes threads in place of the others, which leave their part to them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "harness.h"
#include "partywall.h"
#include "spread.h"

#define PAGE 4096
#define PAGES 1024
#define SLOTS 256

static char *region[SLOTS];
static int maps[SLOTS], ends[SLOTS][2], queues[SLOTS], file;

/* A page of the thread's own mapping is written to for the first time. */
static void fault(const struct run *run, unsigned long n)
{
	region[run->slot][n % PAGES * PAGE] = 1;
}

/* The same page each time, which is given back. */
static void dontneed(const struct run *run, unsigned long n)
{
	(void)n;
	region[run->slot][0] = 1;
	if (madvise(region[run->slot], PAGE, MADV_DONTNEED))
		fail("madvise");
}

static void read_file(const struct run *run, unsigned long n)
{
	char byte;

	(void)run;
	(void)n;
	if (pread(file, &byte, 1, 0) != 1)
		fail("pread");
}

static void read_maps(const struct run *run, unsigned long n)
{
	char text[PAGE];

	(void)n;
	if (pread(maps[run->slot], text, sizeof(text), 0) <= 0)
		fail("reading /proc/self/maps");
}

/* What all threads of the process have used. */
static void usage(const struct run *run, unsigned long n)
{
	struct rusage used;

	(void)run;
	(void)n;
	if (getrusage(RUSAGE_SELF, &used))
		fail("getrusage");
}

/* A message goes through the thread's own queue. */
static void pass_message(const struct run *run, unsigned long n)
{
	struct {
		long type;
		char text[16];
	} message = { .type = 1 };
	int queue = queues[run->slot];

	(void)n;
	if (msgsnd(queue, &message, sizeof(message.text), 0) ||
	    msgrcv(queue, &message, sizeof(message.text), 0, 0) < 0)
		fail("passing a message");
}

/* The CPU goes idle and comes back. */
static void nap(const struct run *run, unsigned long n)
{
	struct timespec soon = { .tv_nsec = 1000 };

	(void)run;
	(void)n;
	if (nanosleep(&soon, NULL))
		fail("nanosleep");
}

/* The connections of all threads are made by one, as a server accepts them. */
static void connect_ends(unsigned int count)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(10000),
	};
	int on = 1, listening = socket(AF_INET, SOCK_STREAM, 0);
	unsigned int n;

	if (bind(listening, (void *)&at, sizeof(at)) || listen(listening, SLOTS))
		fail("listen");
	for (n = 0; n < count; n++) {
		ends[n][0] = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(ends[n][0], (void *)&at, sizeof(at)))
			fail("connect");
		ends[n][1] = accept(listening, NULL, NULL);
		if (ends[n][1] < 0 ||
		    setsockopt(ends[n][0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
			fail("accept");
	}
}

static void send_byte(const struct run *run, unsigned long n)
{
	char byte = 1;

	(void)n;
	if (write(ends[run->slot][0], &byte, 1) != 1 || read(ends[run->slot][1], &byte, 1) != 1)
		fail("sending a byte");
}

static const struct {
	const char *name;
	void (*operation)(const struct run *run, unsigned long n);
} variants[] = {
	{ "fault", fault }, { "dontneed", dontneed }, { "pread", read_file },
	{ "maps", read_maps }, { "nap", nap }, { "tcp", send_byte },
	{ "usage", usage }, { "queue", pass_message },
};

static void (*chosen)(const struct run *run, unsigned long n);

static void *thread(void *told)
{
	struct plan *plan = told;
	unsigned long n = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(plan->first_cpu + plan->run.slot, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
	barrier_settle(plan->barrier, plan->procs, plan->run.index);
	while (n < plan->warmup)
		chosen(&plan->run, n++);
	barrier_wait(plan->barrier, plan->procs);

	partywall_start();
	while (n < plan->warmup + plan->window) {
		chosen(&plan->run, n++);
		/*
		 * The emulator may run a thread's whole window before the next one's,
		 * and nobody is seen to come back then; here it turns to another CPU.
		 */
		if (n % 8 == 0)
			__builtin_ia32_pause();
	}
	partywall_stop();
	for (;;)
		pause();
	return told;
}

static void start_threads(void)
{
	static struct plan plans[SLOTS];
	unsigned int n;
	pthread_t id;

	plan_read(&plans[0]);
	for (n = 1; n < plans[0].cpus; n++) {
		plans[n] = plans[0];
		plans[n].run.slot = n;
		plans[n].run.index += n;
		errno = pthread_create(&id, NULL, thread, &plans[n]);
		if (errno)
			fail("pthread_create");
	}
}

static void prepare(const struct run *run)
{
	unsigned int n;
	char *place;

	for (n = 0; n < sizeof(variants) / sizeof(*variants); n++)
		if (!strcmp(run->variant, variants[n].name))
			chosen = variants[n].operation;
	if (!chosen || run->siblings > SLOTS)
		fail("no such variant");
	while (run->slot)
		pause();
	file = open("threads-file", O_RDWR | O_CREAT, 0600);
	if (file < 0 || write(file, "x", 1) != 1)
		fail("threads-file");
	for (n = 0; n < run->siblings; n++) {
		/* A page that no one may touch keeps neighbours from becoming one mapping. */
		place = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (place == MAP_FAILED || mprotect(place, PAGE, PROT_NONE))
			fail("mmap");
		region[n] = place + PAGE;
		if (madvise(region[n], PAGES * PAGE, MADV_NOHUGEPAGE))
			fail("madvise");
		maps[n] = open("/proc/self/maps", O_RDONLY);
		if (maps[n] < 0)
			fail("/proc/self/maps");
		queues[n] = msgget(IPC_PRIVATE, 0600);
		if (queues[n] < 0)
			fail("msgget");
	}
	if (chosen == send_byte)
		connect_ends(run->siblings);
	start_threads();
}

static void operation(const struct run *run, unsigned long n)
{
	chosen(run, n);
}

const struct workload workload = { .prepare = prepare, .operation = operation };
