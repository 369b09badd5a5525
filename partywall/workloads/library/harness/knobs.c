// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <ctype.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "knobs.h"
#include "outside.h"

#define MOST 2048
#define TOP "/proc/sys/"
#define LENGTH 96

struct knob {
	char name[LENGTH], value[LENGTH], raised[LENGTH];
	/* Of processes, or less than none: it is a file. */
	int limit;
};

static struct knob knobs[MOST];
static unsigned int count, of_container;

static const char *const places[] = { "fs", "kernel", "net", "user", "vm" };
/* No other is touched: kernel.panic may be doubled, and kernel.sysrq too. */
static const char *const words[] = {
	"max", "limit", "nr", "mni", "all", "sem", "mem", "thresh", "pages", "bytes", "keys",
};

/* Writing it sets another one, of bytes, which is not to be had back by either. */
#define TWIN "unres_qlen"

static int may_limit(const char *path)
{
	if (strstr(path, TWIN))
		return 0;
	for (size_t n = 0; n < sizeof(words) / sizeof(*words); n++)
		if (strstr(path, words[n]))
			return 1;
	return 0;
}

/* Writes each number twice as large; returns 0 if there is anything else, or nothing. */
static int twice(const char *text, char *raised)
{
	int used = 0, any = 0;
	char *end;

	while (*text) {
		unsigned long value;

		if (isspace(*text)) {
			text++;
			continue;
		}
		if (!isdigit(*text))
			return 0;
		value = strtoul(text, &end, 10);
		/* Without end as it is, or as much as it can be. */
		if (value < INT_MAX / 2 || (value > UINT_MAX && value < LONG_MAX / 2))
			value *= 2;
		used += snprintf(raised + used, LENGTH - used, "%s%lu", used ? " " : "", value);
		if (used >= LENGTH)
			return 0;
		any |= value != 0;
		text = end;
	}
	return any;
}

static int read_line(const char *path, char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got;

	if (fd < 0)
		return 0;
	got = read(fd, text, LENGTH - 1);
	close(fd);
	/* What is not all of it can't be written back. */
	if (got <= 0 || got == LENGTH - 1)
		return 0;
	text[got] = 0;
	text[strcspn(text, "\n")] = 0;
	return 1;
}

static int consider(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
	struct knob *knob = &knobs[count];
	const char *name = path + strlen(TOP);

	(void)walk;
	if (count == MOST || flag != FTW_F || !(st->st_mode & S_IWUSR) || strlen(name) >= LENGTH ||
	    !may_limit(name) || !read_line(path, knob->value) ||
	    !twice(knob->value, knob->raised) || !strcmp(knob->value, knob->raised))
		return 0;
	strcpy(knob->name, name);
	knob->limit = -1;
	count++;
	return 0;
}

/* Those of a user, which all of its processes have together. */
static const struct {
	int which;
	const char *name;
} limits[] = {
	{ RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING" }, { RLIMIT_MSGQUEUE, "RLIMIT_MSGQUEUE" },
	{ RLIMIT_NPROC, "RLIMIT_NPROC" }, { RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK" },
	/* Of descriptors that are under way in sockets. */
	{ RLIMIT_NOFILE, "RLIMIT_NOFILE" },
};

/* Of the first process of a container; returns 0 if it has none. */
static int limit_of(unsigned int container, int which, struct rlimit *limit)
{
	char path[sizeof(CONTAINERS_CGROUP) + 32];
	FILE *procs;
	int pid, found;

	snprintf(path, sizeof(path), CONTAINERS_CGROUP "/c%u/cgroup.procs", container);
	procs = fopen(path, "r");
	found = procs && fscanf(procs, "%d", &pid) == 1 && !prlimit(pid, which, NULL, limit);
	if (procs)
		fclose(procs);
	return found;
}

static void set_limit(unsigned int container, const struct knob *knob, int raise)
{
	const rlim_t value = strtoul(raise ? knob->raised : knob->value, NULL, 10);
	const struct rlimit limit = { .rlim_cur = value, .rlim_max = value };
	char path[sizeof(CONTAINERS_CGROUP) + 32];
	FILE *procs;
	int pid;

	snprintf(path, sizeof(path), CONTAINERS_CGROUP "/c%u/cgroup.procs", container);
	procs = fopen(path, "r");
	while (procs && fscanf(procs, "%d", &pid) == 1)
		prlimit(pid, knob->limit, &limit, NULL);
	if (procs)
		fclose(procs);
}

void knobs_find_limits(unsigned int container)
{
	struct rlimit limit;

	for (size_t n = 0; n < sizeof(limits) / sizeof(*limits); n++) {
		struct knob *knob = &knobs[count];

		if (count == MOST || !limit_of(container, limits[n].which, &limit) ||
		    limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur != limit.rlim_max)
			continue;
		snprintf(knob->value, LENGTH, "%lu", (unsigned long)limit.rlim_cur);
		snprintf(knob->raised, LENGTH, "%lu", 2 * (unsigned long)limit.rlim_cur);
		strcpy(knob->name, limits[n].name);
		knob->limit = limits[n].which;
		of_container = container;
		count++;
	}
}

static void set(const struct knob *knob, int raise)
{
	char path[sizeof(TOP) + LENGTH];

	if (knob->limit >= 0) {
		set_limit(of_container, knob, raise);
		return;
	}
	snprintf(path, sizeof(path), TOP "%s", knob->name);
	put(path, raise ? knob->raised : knob->value);
}

static int is_as_it_was(const struct knob *knob)
{
	char path[sizeof(TOP) + LENGTH], value[LENGTH];
	struct rlimit limit;

	if (knob->limit >= 0)
		return limit_of(of_container, knob->limit, &limit) &&
		       limit.rlim_cur == strtoul(knob->value, NULL, 10);
	snprintf(path, sizeof(path), TOP "%s", knob->name);
	return read_line(path, value) && !strcmp(value, knob->value);
}

/* Some are set to another value than was written: those are left alone from then on. */
static void keep_those_that_come_back(void)
{
	unsigned int kept = 0;

	for (unsigned int n = 0; n < count; n++) {
		set(&knobs[n], 1);
		set(&knobs[n], 0);
		if (is_as_it_was(&knobs[n]))
			knobs[kept++] = knobs[n];
	}
	count = kept;
}

void knobs_find(void)
{
	char path[32];

	for (size_t n = 0; n < sizeof(places) / sizeof(*places); n++) {
		snprintf(path, sizeof(path), TOP "%s", places[n]);
		nftw(path, consider, 16, FTW_PHYS);
	}
	keep_those_that_come_back();
}

unsigned int knobs_count(void)
{
	return count;
}

const char *knobs_name(unsigned int knob)
{
	static char dotted[LENGTH];

	strcpy(dotted, knobs[knob].name);
	for (char *place = dotted; *place; place++)
		if (*place == '/')
			*place = '.';
	return dotted;
}

const char *knobs_value(unsigned int knob)
{
	static char joined[LENGTH];

	strcpy(joined, knobs[knob].value);
	for (char *place = joined; *place; place++)
		if (isspace(*place))
			*place = '/';
	return joined;
}

void knobs_raise(unsigned int from, unsigned int to)
{
	for (unsigned int n = from; n < to; n++)
		set(&knobs[n], 1);
}

const char *knobs_restore(unsigned int from, unsigned int to)
{
	/* One may be bounded by one before it. */
	for (unsigned int n = to; n-- > from;)
		set(&knobs[n], 0);
	for (unsigned int n = from; n < to; n++)
		if (!is_as_it_was(&knobs[n]))
			return knobs_name(n);
	return NULL;
}
