// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Makes files where names were known not to be there, and says what stays counted.
 *
 *	named COUNT
 *
 * In a file system of FUSE, which drops such a name and adds it again with the file: for open(),
 * where the server can't make and open in one; other calls, and O_EXCL, ask it for the name
 * anew. Prints by how much the number of names that are not there has grown: when twice as
 * many were asked for, when half of these are files, and when all is unmounted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include "common.h"

#define AT "/named"
#define LONG 3600 /* seconds */

static void answer(int fd, unsigned long unique, int error, const void *data, size_t size)
{
	struct fuse_out_header head = { sizeof(head) + size, error, unique };
	struct iovec both[] = { { &head, sizeof(head) }, { (void *)data, size } };

	must(writev(fd, both, 2) == (ssize_t)head.len, "answering");
}

static struct fuse_attr attributes(unsigned long number)
{
	unsigned int type = number == FUSE_ROOT_ID ? S_IFDIR : S_IFREG;
	struct fuse_attr attr = { .ino = number, .mode = type | 0755, .nlink = 1 };

	return attr;
}

/* Has one directory, in which files can be made. */
static void serve(int fd)
{
	static char request[1 << 16];
	const struct fuse_in_header *in = (const void *)request;
	unsigned long made = FUSE_ROOT_ID;

	while (read(fd, request, sizeof(request)) > 0) {
		struct fuse_init_out init = {
			.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096
		};
		struct fuse_attr_out root = {
			.attr_valid = LONG, .attr = attributes(FUSE_ROOT_ID)
		};
		struct fuse_entry_out entry = { .entry_valid = LONG, .attr_valid = LONG };

		switch (in->opcode) {
		case FUSE_INIT:
			answer(fd, in->unique, 0, &init, sizeof(init));
			break;
		case FUSE_GETATTR:
			answer(fd, in->unique, 0, &root, sizeof(root));
			break;
		case FUSE_MKNOD:
			entry.nodeid = ++made;
			entry.attr = attributes(made);
			/* fallthrough */
		case FUSE_LOOKUP:
			/* Without a number it says that the name is not there. */
			answer(fd, in->unique, 0, &entry, sizeof(entry));
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
			break;
		default:
			answer(fd, in->unique, -ENOSYS, NULL, 0);
		}
	}
	_exit(0);
}

static long counted(void)
{
	FILE *state = fopen("/proc/sys/fs/dentry-state", "r");
	long negative;

	must(state && fscanf(state, "%*d %*d %*d %*d %ld", &negative) == 1, "dentry-state");
	fclose(state);
	return negative;
}

int main(int argc, char **argv)
{
	int fd = open("/dev/fuse", O_RDWR), count = argc > 1 ? atoi(argv[1]) : 0, file, n;
	char options[128], path[64];
	struct stat found;
	long before, known, made;

	must(count > 0, "COUNT");
	must(fd >= 0, "/dev/fuse");
	must(!mkdir(AT, 0755), AT);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	must(!mount("named", AT, "fuse", 0, options), "mount");
	if (!fork())
		serve(fd);
	close(fd);
	before = counted();
	for (n = 0; n < 2 * count; n++) {
		snprintf(path, sizeof(path), AT "/%d", n);
		must(stat(path, &found) < 0 && errno == ENOENT, "a name that is not there");
	}
	known = counted();
	for (n = 0; n < count; n++) {
		snprintf(path, sizeof(path), AT "/%d", n);
		file = open(path, O_CREAT | O_RDWR, 0644);
		must(file >= 0, "making a file");
		close(file);
	}
	made = counted();
	must(!umount(AT), "umount");
	must(all_ended(), "the server");
	printf("known %ld made %ld left %ld\n", known - before, made - before, counted() - before);
	return 0;
}
