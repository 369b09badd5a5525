// SPDX-License-Identifier: GPL-2.0-or-later
/* Files on the container's own layer, and pages of them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

#define PAGE 4096
#define PAGES 256
#define STEP (2 * PAGE)
#define STEPS 128

static char name[64], *pages;
static int fd;

/* As fallocate2 of will-it-scale: 8 KiB at a time up to 1 MiB, then to nothing again. */
static void allocate(unsigned long n)
{
	if (fallocate(fd, 0, n % STEPS * STEP, STEP))
		fail("fallocate");
	if (n % STEPS == STEPS - 1 && ftruncate(fd, 0))
		fail("ftruncate");
}

static void create(unsigned long n)
{
	int opened = open(name, O_RDWR | O_CREAT, 0600);

	(void)n;
	if (opened < 0)
		fail("open");
	close(opened);
}

/* As page_fault2: a page of a file mapped private is written to, all of them in turn. */
static void fault(unsigned long n)
{
	pages[n % PAGES * PAGE] = 1;
	if (n % PAGES == PAGES - 1 && madvise(pages, PAGES * PAGE, MADV_DONTNEED))
		fail("madvise");
}

static const struct {
	const char *name;
	void (*operation)(unsigned long n);
} variants[] = {
	{ "fallocate", allocate }, { "create", create }, { "fault", fault },
};

static void (*chosen)(unsigned long n);

static void prepare(const struct run *run)
{
	size_t n;

	for (n = 0; n < sizeof(variants) / sizeof(*variants); n++)
		if (!strcmp(run->variant, variants[n].name))
			chosen = variants[n].operation;
	if (!chosen)
		fail("no such variant");
	if (mkdir("/files", 0700) && access("/files", W_OK))
		fail("/files");
	snprintf(name, sizeof(name), "/files/%u", run->slot);
	fd = open(name, O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		fail(name);
	if (chosen == fault) {
		if (ftruncate(fd, PAGES * PAGE))
			fail("ftruncate");
		pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		if (pages == MAP_FAILED)
			fail("mmap");
	}
}

static void operation(const struct run *run, unsigned long n)
{
	(void)run;
	chosen(n);
}

const struct workload workload = { .prepare = prepare, .operation = operation };
