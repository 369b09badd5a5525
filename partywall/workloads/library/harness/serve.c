// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Measures a server while a client asks it, both strangers to the harness:
 *
 *	partywall-launch WORDS SERVER [ARGUMENT ...] [CLIENT [ARGUMENT ...]]
 *
 * WORDS: how many the server's command has. In the client's, {requests} stands for how many
 * it is to make. Two runs of it to their end show how many segments the kernel sends for a
 * request: what a run sends besides is in both. The window is a stretch of a third run, on all
 * CPUs of the container, and the segments of it tell how many requests it had.
 *
 * PW_PEER: a folder in which a container of the client's own is told to ask (peer.h); it is
 * that container where the server has 0 words. PW_APART: it has CPUs of its own, which are in
 * the window as well.
 *
 * PW_MIX: on a mixed machine, from which container on another server runs, and the windows of
 * the first one and of that one, in requests. The stretch is as long as the slower one needs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "barrier.h"
#include "harness.h"
#include "listens.h"
#include "partywall.h"
#include "peer.h"
#include "processes.h"
#include "spread.h"

#define SECOND_NS 1000000000L
#define MOMENT_NS (SECOND_NS / 50)
#define TRIES 50
/* What takes longer is said, in case the guest is ended meanwhile; for each CPU. */
#define LONG_NS SECOND_NS
/* The second run is so much longer. */
#define LONGER 3
/* Of the third, in windows: all containers have to have had theirs before it ends. */
#define LASTS 20
/* As much again where another server may be so much slower. */
#define MIXED 10
/* Bytes that a list of counters has, and more. */
#define LIST 16384

static pid_t server, asking;
static char **client;
/* Of who asks in our stead. */
static struct box *box;
static unsigned int container;
/* By the guest's clock, in which who waits for a disk or a timer waits for nothing. */
static long patience, unusual;
/* What the server and the client say, for when they fail. */
static int said_by_server, said_by_client;

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND_NS + t.tv_nsec;
}

static void rest(long ns)
{
	const struct timespec t = { ns / SECOND_NS, ns % SECOND_NS };

	nanosleep(&t, NULL);
}

static int said(void)
{
	int fd = memfd_create("said", MFD_CLOEXEC);

	if (fd < 0)
		fail("memfd_create");
	return fd;
}

/* Ends with the last line of what somebody said. */
static void give_up(const char *who, int fd)
{
	dprintf(STDERR_FILENO, "partywall: workload: container %u: %s%.200s\n", container, who,
		last_line(fd));
	exit(1);
}

/* Somebody may do nothing for so long. */
struct wait {
	long begun, quiet, next;
	unsigned long sent;
};

/*
 * What is counted of what a container sends: of TCP only what has data or ends a connection, as
 * how often somebody says no more than what he has received goes by the clock; or all, where
 * not each request has an answer.
 */
enum kind { DATA, ALL, KINDS };

/* So many that a request is not told by what is sent once for several, or by chance. */
static const double least[KINDS] = { 0.9, 0.1 };

static unsigned long sent(enum kind kind);

/* Waits a moment longer for what somebody has to do. */
static void wait_on(struct wait *w, const char *what, int fd)
{
	long t = now();

	if (!w->begun) {
		w->begun = w->quiet = t;
		w->next = t + unusual;
	}
	if (t > w->next) {
		unsigned long so_far = sent(ALL);

		if (so_far != w->sent)
			w->quiet = t;
		w->sent = so_far;
		if (t - w->quiet > patience)
			give_up(what, fd);
		dprintf(STDERR_FILENO, "container %u, after %ld s: %s%.120s\n", container,
			(t - w->begun) / SECOND_NS, what, last_line(fd));
		/* Its own time, and twice as much: hardly anything is said. */
		w->next = t + (t - w->begun < patience / 4 ? t - w->begun : patience / 4);
	}
	/* Who looks often runs the clock that all the others have. */
	rest(t - w->begun < unusual ? MOMENT_NS / 20 : (t - w->begun) / 16);
}

/* What server and client leave behind ends with us, their first process. */
static int is_over(int *status)
{
	int any, over = 0;
	pid_t gone;

	while ((gone = waitpid(-1, &any, WNOHANG)) > 0) {
		if (gone == server)
			give_up("the server ended", said_by_server);
		if (gone != asking)
			continue;
		*status = any;
		over = 1;
	}
	if (box && atomic_load(&box->over) == atomic_load(&box->begun)) {
		*status = box->status;
		over = 1;
	}
	return over;
}

static void check_server(void)
{
	int status;

	is_over(&status);
}

/* Of a line of names and one of numbers, that of one name. */
static unsigned long field(char *names, char *numbers, const char *wanted)
{
	char *in_names, *in_numbers;
	char *name = strtok_r(names, " ", &in_names);
	char *number = strtok_r(numbers, " ", &in_numbers);

	while (name && number) {
		if (!strcmp(name, wanted))
			return strtoul(number, NULL, 10);
		name = strtok_r(NULL, " ", &in_names);
		number = strtok_r(NULL, " ", &in_numbers);
	}
	return 0;
}

/* Of a list, whose lines are names and numbers in turn, what one line has of a name. */
static unsigned long counted(const char *list, const char *line, const char *wanted)
{
	static char text[LIST];
	char *next = strcpy(text, list), *names, *numbers;
	unsigned long sum = 0;

	while ((names = strsep(&next, "\n")) && (numbers = strsep(&next, "\n")))
		if (!strncmp(names, line, strlen(line)))
			sum += field(names, numbers, wanted);
	return sum;
}

/* The lists in which a container's network counts, as they were read. */
struct lists {
	char of_more[LIST], of_all[LIST];
};

static int opened(const char *list)
{
	int fd = open(list, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail(list);
	return fd;
}

static void read_list(int fd, char *text)
{
	ssize_t length = pread(fd, text, LIST - 1, 0);

	if (length < 0)
		fail("reading what is sent");
	text[length] = '\0';
}

/*
 * Reads them by one call each, and does nothing else: between this and a mark others may send
 * what is then counted with a window that it is not in.
 */
static void read_lists(struct lists *l)
{
	static int more = -1, all;

	if (more < 0) {
		more = opened("/proc/self/net/netstat");
		all = opened("/proc/self/net/snmp");
	}
	read_list(more, l->of_more);
	read_list(all, l->of_all);
}

/* How often somebody else has had our CPU though we had something to do. */
static long turned_out(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		fail("getrusage");
	return usage.ru_nivcsw;
}

/*
 * Around a window; of several CPUs around that of the first one, as those of the others begin and
 * end as much later.
 */
static struct lists before, after, later;

/* Who was turned out has an old number. Returns how often that was until then. */
static long read_undisturbed(struct lists *l)
{
	long times;

	do {
		times = turned_out();
		read_lists(l);
	} while (turned_out() != times);
	return times;
}

static void read_before(void)
{
	read_undisturbed(&before);
}

/*
 * A window closes right after its end was read. Who is turned out in between does not know
 * whether it was closed by then, and reads again: what was sent in it lies between both.
 */
static long closing;

static void read_closing(void)
{
	closing = read_undisturbed(&after);
}

static void read_later(void)
{
	if (turned_out() == closing)
		later = after;
	else
		read_lists(&later);
}

/* What the container had sent by then, by TCP and UDP, to itself as well. */
static unsigned long sent_in(const struct lists *l, enum kind kind)
{
	unsigned long udp = counted(l->of_all, "Udp:", "OutDatagrams");

	return udp + (kind == ALL ? counted(l->of_all, "Tcp:", "OutSegs") :
		      counted(l->of_more, "TcpExt:", "TCPOrigDataSent"));
}

static unsigned long sent(enum kind kind)
{
	static struct lists now;

	read_lists(&now);
	return sent_in(&now, kind);
}

static void sent_of_each_kind(unsigned long *so_far)
{
	static struct lists now;

	read_lists(&now);
	for (enum kind kind = DATA; kind < KINDS; kind++)
		so_far[kind] = sent_in(&now, kind);
}

/* Begins the client for so many requests. */
static void ask(unsigned long requests)
{
	if (box)
		peer_order(box, ORDER_ASK, requests);
	else
		asking = begin_asking(client, requests, said_by_client);
}

static int client_ends(void)
{
	int status;

	struct wait w = { 0 };

	while (!is_over(&status))
		wait_on(&w, "the client does not end", said_by_client);
	return status;
}

/* The client to its end, which has to be a good one. */
static void run_client(unsigned long requests)
{
	ask(requests);
	if (client_ends())
		give_up("the client failed", said_by_client);
}

/* The first time, until it ends well: a server may not answer as soon as it listens. */
static void run_client_at_last(unsigned long requests)
{
	for (int n = 1; n < TRIES; n++) {
		ask(requests);
		if (!client_ends())
			return;
		rest(MOMENT_NS);
	}
	ask(requests);
	if (!client_ends())
		return;
	if (box && listens_to_itself())
		dprintf(STDERR_FILENO, "partywall: hint: it asks from another container: the server "
			"has to listen to 0.0.0.0\n");
	give_up("the client failed", said_by_client);
}

static void await_server(void)
{
	struct wait w = { 0 };

	while (!listens_to_tcp()) {
		check_server();
		wait_on(&w, "the server listens to no TCP port", said_by_server);
	}
}

/* Which of two servers a container has, how many have each, and what a window of each is. */
struct mix {
	unsigned int side, many[2];
	unsigned long window[2];
};

static struct mix mix_of(const struct plan *plan, unsigned int containers)
{
	const char *told = getenv("PW_MIX");
	struct mix m = { .many = { containers }, .window = { plan->window } };
	unsigned int first;

	if (!told)
		return m;
	if (sscanf(told, "%u %lu %lu", &first, &m.window[0], &m.window[1]) != 3 ||
	    first > containers)
		fail("PW_MIX");
	m.many[0] = first;
	m.many[1] = containers - first;
	m.side = container >= first;
	return m;
}

/* Seconds that a window of the slower server takes, whose containers had so many a second. */
static double window_seconds(const struct mix *m, struct barrier *b, unsigned int cpus)
{
	double most = 0;

	for (unsigned int side = 0; side < 2; side++) {
		double each, takes;

		if (!m->many[side])
			continue;
		each = (double)atomic_load(&b->asks[side].done) / m->many[side];
		takes = m->window[side] * cpus / each;
		if (takes > most)
			most = takes;
	}
	return most;
}

int main(int argc, char **argv)
{
	unsigned long few, many, runs[3][KINDS], window, words, did;
	enum kind kind;
	unsigned int containers;
	struct mix mix;
	struct barrier *b;
	struct plan plan;
	const char *folder = getenv("PW_PEER");
	double each, rate, lasts;
	long begun, first, took;
	int status, apart;

	if (argc < 3)
		return 2;
	words = strtoul(argv[1], NULL, 10);
	client = argv + 2 + words;
	if (folder && !words)
		peer_obey(folder, client);
	if (!words || argc < 2 + (int)words + !folder)
		return 2;
	apart = !!getenv("PW_APART");
	plan_read(&plan);
	containers = plan.procs / plan.cpus;
	container = plan.first_cpu / plan.cpus;
	mix = mix_of(&plan, containers);
	patience = atol(getenv("PW_PATIENCE") ?: "60") * SECOND_NS;
	unusual = LONG_NS * plan.procs;
	b = barrier_keep(plan.barrier);
	char *serves[words + 1];

	memcpy(serves, argv + 2, words * sizeof(*serves));
	serves[words] = NULL;
	said_by_server = said();
	if (folder)
		box = peer_box(folder);
	said_by_client = folder ? peer_said(folder) : said();
	server = begin(serves, said_by_server);
	await_server();
	run_client_at_last(plan.warmup);

	/* Side by side, as in the window. */
	gate_wait(b, &b->here, containers);
	few = plan.warmup;
	many = few * LONGER;
	sent_of_each_kind(runs[0]);
	begun = now();
	run_client(few);
	first = now() - begun;
	sent_of_each_kind(runs[1]);
	begun = now();
	run_client(many);
	took = now() - begun;
	sent_of_each_kind(runs[2]);
	for (kind = DATA; kind < KINDS; kind++) {
		each = ((double)runs[2][kind] - runs[1][kind] - (runs[1][kind] - runs[0][kind])) /
		       (many - few);
		if (each >= least[kind])
			break;
	}
	if (kind == KINDS)
		give_up(box ? "the server sends nothing by TCP or UDP for a request" :
			"requests of the client don't show as TCP or UDP", said_by_client);

	gate_wait(b, &b->settled, containers);
	window = plan.window * own_cpus();
	ask(few + window * LASTS * (getenv("PW_MIX") ? MIXED : 1));
	/* It begins as the first one did, which had as much to do before it asked. */
	rest(first);
	gate_wait(b, &b->looks[0], containers);
	/* How fast all are together, which is how fast they will be. */
	read_before();
	begun = now();
	rest(took / 2);
	rate = (sent(kind) - sent_in(&before, kind)) / each / (now() - begun) * SECOND_NS;
	if (rate < 1)
		give_up("the client asks nothing any more", said_by_client);
	/* One length for all: the emulator gives its CPUs uneven shares of a short time. */
	atomic_fetch_add(&b->asks[mix.side].done, (unsigned long)rate);
	gate_wait(b, &b->start, containers);
	lasts = window_seconds(&mix, b, own_cpus());
	/* What the client does on the way is a little more than for these requests. */
	if (apart)
		peer_order(box, ORDER_OPEN, 0);
	mark(1, read_before, NULL);
	rest(lasts * SECOND_NS);
	mark(0, read_closing, read_later);
	if (apart)
		peer_order(box, ORDER_CLOSE, 0);
	if (is_over(&status))
		give_up("the client ended before the window did", said_by_client);
	did = (sent_in(&after, kind) + sent_in(&later, kind)) / 2 - sent_in(&before, kind);
	printf("\nPARTYWALL requests %u %.0f %.0f\n", container, did / each * 1000, each * 1000);
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	gate_wait(b, &b->end, containers);
	if (!plan.first_cpu)
		partywall_next();
	for (;;)
		pause();
}
