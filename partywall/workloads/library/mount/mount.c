// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "operations.h"

/* As in <sys/mount.h>, which does not go with <linux/mount.h> everywhere. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
	  const void *data);
int umount2(const char *target, int flags);
#define DETACH 2

/* On the volume: an overlay can't have layers on an overlay. */
static char from[64], on[64], elsewhere[64], options[4096];

static void make(char *path, size_t size, const char *what, const struct run *run)
{
	snprintf(path, size, "/volume/mount-%u-%s", run->index, what);
	make_dir(path);
}

static void prepare(const struct run *run)
{
	make(from, sizeof(from), "from", run);
	make(on, sizeof(on), "on", run);
	make(elsewhere, sizeof(elsewhere), "elsewhere", run);
	/* Of an operation before this one. */
	while (!umount2(on, DETACH) || !umount2(elsewhere, DETACH))
		;
}

static void bind(void)
{
	check(mount(from, on, NULL, MS_BIND, NULL), "mount(MS_BIND)");
}

static void prepare_bound(const struct run *run)
{
	prepare(run);
	bind();
}

/* The last part of the variant's name is how many lower layers there are. */
static void prepare_layers(const struct run *run)
{
	int layers = atoi(strrchr(run->variant, '-') + 1);
	char path[96], upper[64], work[64];
	size_t length;

	prepare(run);
	make(upper, sizeof(upper), "upper", run);
	make(work, sizeof(work), "work", run);
	length = snprintf(options, sizeof(options), "userxattr,upperdir=%s,workdir=%s,lowerdir=",
			  upper, work);
	for (int n = 0; n < layers; n++) {
		snprintf(path, sizeof(path), "%s/%d", from, n);
		make_dir(path);
		length += snprintf(options + length, sizeof(options) - length, "%s%s",
				   n ? ":" : "", path);
	}
}

static void unmount(int flags)
{
	check(umount2(on, flags), "umount2");
}

static void op_tmpfs(unsigned long n)
{
	(void)n;
	check(mount("tmpfs", on, "tmpfs", 0, NULL), "mount of a tmpfs");
	unmount(0);
}

static void op_bind(unsigned long n)
{
	(void)n;
	bind();
	unmount(0);
}

static void op_rbind(unsigned long n)
{
	(void)n;
	check(mount("/dev", on, NULL, MS_BIND | MS_REC, NULL), "mount(MS_REC)");
	unmount(DETACH);
}

static void op_lazy(unsigned long n)
{
	(void)n;
	bind();
	unmount(DETACH);
}

static void op_remount(unsigned long n)
{
	unsigned long flags = MS_REMOUNT | MS_BIND | (n % 2 ? 0 : MS_RDONLY);

	check(mount(NULL, on, NULL, flags, NULL), "mount(MS_REMOUNT)");
}

static void op_attributes(unsigned long n)
{
	struct mount_attr attr = { 0 };

	if (n % 2)
		attr.attr_clr = MOUNT_ATTR_RDONLY;
	else
		attr.attr_set = MOUNT_ATTR_RDONLY;
	check(syscall(SYS_mount_setattr, AT_FDCWD, on, 0, &attr, sizeof(attr)), "mount_setattr");
}

static void op_propagation(unsigned long n)
{
	check(mount(NULL, on, NULL, n % 2 ? MS_PRIVATE : MS_SHARED, NULL), "mount(MS_SHARED)");
}

static void op_move(unsigned long n)
{
	const char *a = n % 2 ? elsewhere : on, *b = n % 2 ? on : elsewhere;

	check(mount(a, b, NULL, MS_MOVE, NULL), "mount(MS_MOVE)");
}

/* A descriptor of a new tmpfs's mount. */
static int new_mount(void)
{
	int context = syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC), made;

	check(context < 0, "fsopen");
	check(syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0), "fsconfig");
	made = syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, 0);
	check(made < 0, "fsmount");
	close(context);
	return made;
}

static void op_fsmount(unsigned long n)
{
	(void)n;
	close(new_mount());
}

static void op_attach(unsigned long n)
{
	int made = new_mount();

	(void)n;
	check(syscall(SYS_move_mount, made, "", AT_FDCWD, on, MOVE_MOUNT_F_EMPTY_PATH),
	      "move_mount");
	close(made);
	unmount(0);
}

static void op_open_tree(unsigned long n)
{
	int tree = syscall(SYS_open_tree, AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	(void)n;
	check(tree < 0, "open_tree");
	close(tree);
}

static void op_overlay(unsigned long n)
{
	(void)n;
	check(mount("overlay", on, "overlay", 0, options), "mount of an overlay");
	unmount(0);
}

FAMILY({ "tmpfs", op_tmpfs, prepare },
       { "bind", op_bind, prepare },
       { "rbind", op_rbind, prepare },
       { "lazy", op_lazy, prepare },
       { "remount", op_remount, prepare_bound },
       { "attributes", op_attributes, prepare_bound },
       { "propagation", op_propagation, prepare_bound },
       { "move", op_move, prepare_bound },
       { "fsmount", op_fsmount, prepare },
       { "attach", op_attach, prepare },
       { "open-tree", op_open_tree, prepare },
       { "overlay-1", op_overlay, prepare_layers },
       { "overlay-10", op_overlay, prepare_layers },
       { "overlay-50", op_overlay, prepare_layers });
