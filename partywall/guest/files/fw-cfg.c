// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a file of QEMU's firmware configuration device to standard output.
 * With a second argument it says that first, and waits until there is more
 * than one byte of it: a guest that goes on from a snapshot finds there what
 * it did not have when it booted.  No driver of the kernel is needed.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <unistd.h>

/* As QEMU's docs/specs/fw_cfg has them; all is big-endian but the selector. */
enum { SELECTOR = 0x510, DATA = 0x511, ADDRESS_HIGH = 0x514, ADDRESS_LOW = 0x518, PORTS = 12 };
enum { DIRECTORY = 0x19 };
enum { FAILED = 1, READ = 2, SELECT = 8 };

struct item {
	uint32_t size;
	uint16_t select;
	uint16_t reserved;
	char name[56];
};

struct transfer {
	uint32_t control;
	uint32_t length;
	uint64_t address;
};

enum { PAGE = 4096 };

static int pagemap;

static void die(const char *what)
{
	fprintf(stderr, "fw-cfg: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Two pages of memory that are not swapped out.  Where they are is asked for each time. */
static void *pages(void)
{
	void *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (at == MAP_FAILED || mlock(at, 2 * PAGE))
		die("memory");
	return at;
}

static uint64_t physical(const volatile void *at)
{
	const uint64_t present = 1ULL << 63, number = (1ULL << 55) - 1;
	uintptr_t address = (uintptr_t)at;
	uint64_t entry = 0;

	if (pread(pagemap, &entry, 8, address / PAGE * 8) != 8)
		die("/proc/self/pagemap");
	if (!(entry & present) || !(entry & number)) {
		errno = EFAULT;
		die("an address in /proc/self/pagemap");
	}
	return (entry & number) * PAGE + address % PAGE;
}

static void transfer(volatile struct transfer *how, uint32_t control, void *into, uint32_t length)
{
	uint64_t at = physical(how);

	how->length = htobe32(length);
	how->address = htobe64(physical(into));
	how->control = htobe32(control);
	outl(htobe32((uint32_t)(at >> 32)), ADDRESS_HIGH);
	outl(htobe32((uint32_t)at), ADDRESS_LOW);
	while (be32toh(how->control) & ~FAILED)
		;
	if (how->control) {
		errno = EIO;
		die("the device");
	}
}

/* Byte by byte: little is read so, and it may be while the snapshot is made. */
static struct item find(const char *name)
{
	struct item found = { 0 };
	uint32_t count;

	outw(DIRECTORY, SELECTOR);
	insb(DATA, &count, sizeof(count));
	for (count = be32toh(count); count; count--) {
		insb(DATA, &found, sizeof(found));
		if (!strncmp(found.name, name, sizeof(found.name)))
			return found;
	}
	errno = ENOENT;
	die(name);
	return found;
}

/* For some time, in which this CPU is not idle. */
static void spin(unsigned int rounds)
{
	for (volatile unsigned int n = 0; n < rounds; n++)
		;
}

/*
 * QEMU's main loop has still to do when a guest goes on from a snapshot.  It
 * advances the guest's clock when all CPUs are idle, and would do so at another
 * time each time: so this never is until QEMU is done.
 */
enum { LOOK_AGAIN = 2 * 1000 * 1000, SETTLE = 10 * 1000 * 1000 };

/* Twice the same: one half of it may be of before the snapshot, one of after. */
static struct item wait_for(const char *name)
{
	struct item before = find(name), now;

	for (;; before = now) {
		now = find(name);
		if (be32toh(now.size) > 1 && !memcmp(&now, &before, sizeof(now)))
			break;
		spin(LOOK_AGAIN);
	}
	spin(SETTLE);
	return now;
}

int main(int argc, char **argv)
{
	struct item item;
	uint32_t left, some;
	char *control, *data;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: fw-cfg FILE [TO SAY BEFORE IT WAITS]\n");
		return 2;
	}
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	if (pagemap < 0)
		die("/proc/self/pagemap (CONFIG_PROC_PAGE_MONITOR)");
	if (ioperm(SELECTOR, PORTS, 1))
		die("ports (CONFIG_X86_IOPL_IOPERM)");
	control = pages();
	data = control + PAGE;
	/* So that what fails does so before anybody relies on it. */
	item = find(argv[1]);
	physical(control);
	if (argc == 3) {
		fprintf(stderr, "%s\n", argv[2]);
		item = wait_for(argv[1]);
	}
	transfer((struct transfer *)control, SELECT | (uint32_t)be16toh(item.select) << 16, data, 0);
	for (left = be32toh(item.size); left; left -= some) {
		some = left < PAGE ? left : PAGE;
		transfer((struct transfer *)control, READ, data, some);
		if (write(STDOUT_FILENO, data, some) != (ssize_t)some)
			die("writing");
	}
	return 0;
}
