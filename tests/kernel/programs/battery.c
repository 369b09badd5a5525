// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * File operations on overlays of many kinds, as several users, each on objects
 * of many owners and modes: what came of every one is printed, so that two
 * kernels can be laid side by side.
 *
 *	battery [KIND...]
 *
 * A line is "KIND USER OBJECT OPERATION result". Whatever differs from run to
 * run (numbers of inodes and devices, times) is not printed. After each
 * operation the task's own credentials are looked at: an override that was not
 * taken back would show there.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define BASE "/battery"
#define MERGED BASE "/merged"
#define SIZE(a) (sizeof(a) / sizeof(*(a)))

static const char *kind, *who, *object;
static char path[256], other[512], result[1024];

static void die(const char *what)
{
	printf("BROKEN %s %s: %s: %s\n", kind, who ?: "-", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static void must(int ok, const char *what)
{
	if (!ok)
		die(what);
}

static void make(const char *where, const char *data, mode_t mode, uid_t uid, gid_t gid)
{
	int fd = open(where, O_CREAT | O_WRONLY | O_TRUNC, 0600);

	must(fd >= 0 && write(fd, data, strlen(data)) == (ssize_t)strlen(data), where);
	must(!fchown(fd, uid, gid) && !fchmod(fd, mode), where);
	close(fd);
}

static void make_dir(const char *where, mode_t mode, uid_t uid, gid_t gid)
{
	must(!mkdir(where, 0700) || errno == EEXIST, where);
	must(!chown(where, uid, gid) && !chmod(where, mode), where);
}

/* An access list: owner rw, uid 1001 r, group r, mask r, others none. */
static void give_acl(const char *where)
{
	static const struct { unsigned int version; struct { short tag, perm; int id; } e[5]; } acl = {
		2, { { 1, 6, -1 }, { 2, 4, 1001 }, { 4, 4, -1 }, { 16, 4, -1 }, { 32, 0, -1 } },
	};

	must(!setxattr(where, "system.posix_acl_access", &acl, sizeof(acl), 0), "an ACL");
}

static const char *const OBJECTS[] = {
	"open", "secret", "group", "user", "setuid", "setgid", "acl", "link", "hard", "fifo",
	"both", "upper", "dir", "private", "sticky", "groupdir", "merged", "dangling", "gone",
	"missing",
};

/* Objects of a lower layer in the current directory. */
static void lower_layer(void)
{
	make("open", "open", 0644, 0, 0);
	make("secret", "secret", 0600, 0, 0);
	make("group", "group", 0640, 0, 100);
	make("user", "user", 0600, 1000, 1000);
	make("setuid", "setuid", 04755, 1001, 1001);
	make("setgid", "setgid", 02775, 1000, 100);
	make("acl", "acl", 0640, 1000, 1000);
	give_acl("acl");
	make("hard", "hard", 0664, 1000, 100);
	must(!link("hard", "hard.second") || errno == EEXIST, "link");
	must(!symlink("open", "link") && !symlink("nowhere", "dangling"), "symlink");
	must(!mkfifo("fifo", 0622), "fifo");
	make("both", "lower", 0644, 1000, 1000);
	make("gone", "gone", 0644, 0, 0);
	make_dir("dir", 0755, 0, 0);
	make("dir/file", "in dir", 0644, 0, 0);
	make_dir("private", 0700, 1000, 1000);
	make("private/file", "in private", 0644, 1000, 1000);
	make_dir("sticky", 01777, 0, 0);
	make("sticky/file", "in sticky", 0666, 1001, 1001);
	make_dir("groupdir", 02775, 0, 100);
	make("groupdir/file", "in groupdir", 0664, 1001, 100);
	make_dir("merged", 0777, 1000, 1000);
	make("merged/low", "low", 0644, 1000, 1000);
	must(!setxattr("open", "user.x", "lower", 5, 0), "user.x");
	must(!setxattr("merged", "user.x", "lower", 5, 0), "user.x");
}

static void upper_layer(void)
{
	make("both", "upper", 0600, 1001, 1001);
	make("upper", "upper", 0664, 1000, 100);
	make_dir("merged", 0777, 1000, 1000);
	make("merged/up", "up", 0600, 0, 0);
}

/* ---- operations: 0 and what to print in result, or -1 and errno ---- */

static int op_stat(void)
{
	struct stat st;

	if (lstat(path, &st))
		return -1;
	sprintf(result, "%o %u:%u %ld links %lu", st.st_mode, st.st_uid, st.st_gid,
		S_ISDIR(st.st_mode) ? 0 : (long)st.st_size, (long)st.st_nlink);
	return 0;
}

static int op_r(void) { return access(path, R_OK); }
static int op_w(void) { return access(path, W_OK); }
static int op_x(void) { return access(path, X_OK); }
static int op_eaccess(void) { return faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS); }

static int with_open(int flags, int (*then)(int))
{
	int fd = open(path, flags | O_NONBLOCK | O_NOFOLLOW, 0644), err;

	if (fd < 0)
		return -1;
	err = then ? then(fd) : 0;
	if (err) {
		err = errno;
		close(fd);
		errno = err;
		return -1;
	}
	return close(fd);
}

static int then_read(int fd)
{
	char text[32] = "";

	if (read(fd, text, sizeof(text) - 1) < 0)
		return -1;
	sprintf(result, "'%s'", text);
	return 0;
}

static int then_write(int fd) { return write(fd, "w", 1) == 1 ? 0 : -1; }
static int then_fsync(int fd) { return fsync(fd); }
static int then_fallocate(int fd) { return fallocate(fd, 0, 0, 64); }
static int then_flags(int fd)
{
	int flags = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags))
		return -1;
	sprintf(result, "%x", flags);
	return 0;
}

static int then_mmap(int fd)
{
	char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	return page == MAP_FAILED ? -1 : munmap(page, 4096);
}

static int then_copy(int fd)
{
	int from = open(MERGED "/open", O_RDONLY), err;
	ssize_t n;

	if (from < 0)
		return -1;
	n = copy_file_range(from, NULL, fd, NULL, 4, 0);
	err = errno;
	close(from);
	errno = err;
	sprintf(result, "%zd", n);
	return n < 0 ? -1 : 0;
}

static int op_read(void) { return with_open(O_RDONLY, then_read); }
static int op_noatime(void) { return with_open(O_RDONLY | O_NOATIME, then_read); }
static int op_write(void) { return with_open(O_WRONLY | O_APPEND, then_write); }
static int op_trunc_open(void) { return with_open(O_RDWR | O_TRUNC, then_write); }
static int op_path(void) { return with_open(O_PATH, NULL); }
static int op_fsync(void) { return with_open(O_RDONLY, then_fsync); }
static int op_fallocate(void) { return with_open(O_RDWR, then_fallocate); }
static int op_flags(void) { return with_open(O_RDONLY, then_flags); }
static int op_mmap(void) { return with_open(O_RDONLY, then_mmap); }
static int op_copy(void) { return with_open(O_RDWR, then_copy); }

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int op_list(void)
{
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, by_name);

	if (n < 0)
		return -1;
	for (int k = 0; k < n; k++) {
		if (strlen(result) < sizeof(result) - 64)
			sprintf(result + strlen(result), "%s/%d ", entries[k]->d_name, entries[k]->d_type);
		free(entries[k]);
	}
	free(entries);
	return 0;
}

static int op_readlink(void) { return readlink(path, result, sizeof(result) - 1) < 0 ? -1 : 0; }
static int op_getxattr(void) { return lgetxattr(path, "user.x", result, 64) < 0 ? -1 : 0; }
static int op_setxattr(void) { return lsetxattr(path, "user.y", "value", 5, 0); }
static int op_delxattr(void) { return lremovexattr(path, "user.y"); }
static int op_trusted(void) { return lsetxattr(path, "trusted.z", "value", 5, 0); }
static int op_private_xattr(void) { return lsetxattr(path, "trusted.overlay.opaque", "y", 1, 0); }
static int op_acl(void) { return lgetxattr(path, "system.posix_acl_access", result, 0) < 0 ? -1 : 0; }

static int op_listxattr(void)
{
	char names[512];
	ssize_t n = llistxattr(path, names, sizeof(names));

	if (n < 0)
		return -1;
	for (char *name = names; name < names + n; name += strlen(name) + 1)
		sprintf(result + strlen(result), "%s ", name);
	return 0;
}

static int op_chmod(void) { return chmod(path, 02770); }
static int op_chmod_back(void) { return chmod(path, 0755); }
static int op_chown(void) { return lchown(path, 1001, -1); }
static int op_chgrp(void) { return lchown(path, -1, 100); }
static int op_times(void) { return utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW); }
static int op_truncate(void) { return truncate(path, 3); }

static int op_link(void)
{
	sprintf(other, "%s.link", path);
	return link(path, other) ? -1 : unlink(other);
}

static int op_rename(void)
{
	sprintf(other, "%s.renamed", path);
	return rename(path, other) ? -1 : rename(other, path);
}

static int op_exchange(void)
{
	sprintf(other, MERGED "/both");
	if (syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, other, RENAME_EXCHANGE))
		return -1;
	return syscall(SYS_renameat2, AT_FDCWD, other, AT_FDCWD, path, RENAME_EXCHANGE);
}

static int op_noreplace(void)
{
	return syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, MERGED "/both", RENAME_NOREPLACE);
}

static int op_into(void)
{
	sprintf(other, MERGED "/groupdir/moved");
	return rename(path, other) ? -1 : rename(other, path);
}

static int owner_of(const char *where)
{
	struct stat st;

	if (lstat(where, &st))
		return -1;
	sprintf(result, "%o %u:%u", st.st_mode, st.st_uid, st.st_gid);
	return 0;
}

static int op_create_in(void)
{
	int fd;

	sprintf(other, "%s/new", path);
	fd = open(other, O_CREAT | O_EXCL | O_WRONLY, 0666);
	if (fd < 0)
		return -1;
	close(fd);
	return owner_of(other) ? -1 : unlink(other);
}

static int op_mkdir_in(void)
{
	sprintf(other, "%s/newdir", path);
	return mkdir(other, 0777) || owner_of(other) ? -1 : rmdir(other);
}

static int op_mknod_in(void)
{
	sprintf(other, "%s/newfifo", path);
	return mkfifo(other, 0666) || owner_of(other) ? -1 : unlink(other);
}

static int op_device_in(void)
{
	sprintf(other, "%s/newdevice", path);
	return mknod(other, S_IFCHR | 0666, makedev(1, 3)) ? -1 : unlink(other);
}

static int op_whiteout_in(void)
{
	sprintf(other, "%s/newwhiteout", path);
	return mknod(other, S_IFCHR | 0666, 0) ? -1 : unlink(other);
}

static int op_symlink_in(void)
{
	sprintf(other, "%s/newlink", path);
	return symlink("target", other) || owner_of(other) ? -1 : unlink(other);
}

static int op_tmpfile_in(void)
{
	int fd = open(path, O_TMPFILE | O_RDWR, 0666), err;
	char link_from[64];

	if (fd < 0)
		return -1;
	sprintf(link_from, "/proc/self/fd/%d", fd);
	sprintf(other, "%s/newtmp", path);
	err = linkat(AT_FDCWD, link_from, AT_FDCWD, other, AT_SYMLINK_FOLLOW);
	if (!err)
		err = owner_of(other) ? -1 : unlink(other);
	close(fd);
	return err;
}

static int op_file_in(void)
{
	sprintf(other, "%s/file", path);
	return access(other, R_OK) ? -1 : owner_of(other);
}

static int op_unlink_in(void)
{
	sprintf(other, "%s/file", path);
	return unlink(other);
}

static int op_remake_in(void)
{
	int fd;

	sprintf(other, "%s/file", path);
	fd = open(other, O_CREAT | O_EXCL | O_WRONLY, 0640);
	return fd < 0 || close(fd) ? -1 : owner_of(other);
}

static int op_rmdir(void) { return rmdir(path); }
static int op_statfs(void)
{
	struct statfs st;

	if (statfs(path, &st))
		return -1;
	sprintf(result, "%lx", (long)st.f_type);
	return 0;
}

static int op_handle(void)
{
	struct { struct file_handle handle; char room[128]; } at = { .handle.handle_bytes = 128 };
	int mount;

	return name_to_handle_at(AT_FDCWD, path, &at.handle, &mount, 0);
}

static const struct { const char *name; int (*run)(void); } OPS[] = {
#define OP(name) { #name, op_##name }
	OP(stat), OP(r), OP(w), OP(x), OP(eaccess), OP(read), OP(noatime), OP(path), OP(list),
	OP(readlink), OP(getxattr), OP(listxattr), OP(acl), OP(statfs), OP(handle), OP(fsync),
	OP(flags), OP(mmap), OP(file_in), OP(write), OP(setxattr), OP(listxattr), OP(delxattr),
	OP(trusted), OP(private_xattr), OP(times), OP(chmod), OP(chmod_back), OP(chgrp), OP(chown),
	OP(link), OP(rename), OP(exchange), OP(noreplace), OP(into), OP(create_in), OP(mkdir_in),
	OP(mknod_in), OP(device_in), OP(whiteout_in), OP(symlink_in), OP(tmpfile_in), OP(unlink_in),
	OP(remake_in), OP(fallocate), OP(copy), OP(truncate), OP(trunc_open), OP(rmdir), OP(stat),
};

/* ---- users ---- */

struct identity { uid_t r, e, s, fs; gid_t gr, ge, gs, gfs; unsigned int caps[2]; };

static void look_at_self(struct identity *self)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	memset(self, 0, sizeof(*self));
	getresuid(&self->r, &self->e, &self->s);
	getresgid(&self->gr, &self->ge, &self->gs);
	self->fs = setfsuid(-1);
	self->gfs = setfsgid(-1);
	must(!syscall(SYS_capget, &header, data), "capget");
	self->caps[0] = data[0].effective;
	self->caps[1] = data[1].effective;
}

static void keep_caps(unsigned int keep)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { keep, keep, 0 }, { 0, 0, 0 } };

	must(!syscall(SYS_capset, &header, data), "capset");
}

static void become(uid_t uid, gid_t gid, const gid_t *groups, int n)
{
	must(!setgroups(n, groups) && !setresgid(gid, gid, gid) && !setresuid(uid, uid, uid), "become");
}

static void as_root(void) { }
static void as_weak_root(void) { keep_caps(1 << CAP_CHOWN); }
static void as_user(void) { become(1000, 1000, NULL, 0); }
static void as_member(void) { become(1002, 1002, (gid_t[]){ 100 }, 1); }
static void as_acl_user(void) { become(1001, 1001, NULL, 0); }

static void as_capable_user(void)
{
	must(!prctl(PR_SET_KEEPCAPS, 1), "keepcaps");
	become(1002, 1002, NULL, 0);
	keep_caps(1 << CAP_DAC_READ_SEARCH | 1 << CAP_FOWNER);
}

static void as_fsuid(void)
{
	setfsgid(1000);
	setfsuid(1000);
}

static void write_file(const char *where, const char *text)
{
	int fd = open(where, O_WRONLY);

	must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), where);
	close(fd);
}

/* As uid_map and gid_map of the process have it. */
static void map_users(pid_t pid, const char *map)
{
	char name[64];

	sprintf(name, "/proc/%d/uid_map", pid);
	write_file(name, map);
	sprintf(name, "/proc/%d/gid_map", pid);
	write_file(name, map);
}

/* Root of a namespace whose only user is 1000. */
static void as_nested_root(void)
{
	become(1000, 1000, NULL, 0);
	/* Else /proc/self is root's. */
	must(!prctl(PR_SET_DUMPABLE, 1), "dumpable");
	must(!unshare(CLONE_NEWUSER), "unshare");
	write_file("/proc/self/setgroups", "deny");
	map_users(getpid(), "0 1000 1");
}

static const struct { const char *name; void (*become)(void); } USERS[] = {
	{ "root", as_root }, { "weak-root", as_weak_root }, { "user", as_user },
	{ "member", as_member }, { "acl-user", as_acl_user }, { "capable", as_capable_user },
	{ "fsuid", as_fsuid }, { "nested-root", as_nested_root },
};

static void run_ops(void)
{
	struct identity before, now;

	look_at_self(&before);
	for (size_t o = 0; o < SIZE(OBJECTS); o++) {
		object = OBJECTS[o];
		snprintf(path, sizeof(path), MERGED "/%s", object);
		for (size_t n = 0; n < SIZE(OPS); n++) {
			int failed;

			result[0] = 0;
			memset(result, 0, sizeof(result));
			errno = 0;
			failed = OPS[n].run();
			printf("%s %s %s %s %s\n", kind, who, object, OPS[n].name,
			       failed ? strerrorname_np(errno) : result[0] ? result : "ok");
			look_at_self(&now);
			if (memcmp(&before, &now, sizeof(now)))
				printf("ESCAPED %s %s %s %s\n", kind, who, object, OPS[n].name);
		}
	}
}

static void run_as(size_t user)
{
	pid_t pid;
	int status;

	who = USERS[user].name;
	fflush(stdout);
	pid = fork();
	must(pid >= 0, "fork");
	if (!pid) {
		umask(022);
		USERS[user].become();
		run_ops();
		fflush(stdout);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid, "wait");
	if (status)
		printf("BROKEN %s %s ended with %x\n", kind, who, status);
}

/* ---- what is left in the upper layer ---- */

static int print_entry(const char *where)
{
	struct stat st;
	char names[1024];
	ssize_t n;

	must(!lstat(where, &st), where);
	printf("%s %s left %s %o %u:%u %ld", kind, who, where + strlen(BASE), st.st_mode,
	       st.st_uid, st.st_gid, S_ISREG(st.st_mode) ? (long)st.st_size : 0);
	n = llistxattr(where, names, sizeof(names));
	for (char *name = names; n > 0 && name < names + n; name += strlen(name) + 1)
		printf(" %s", name);
	printf("\n");
	return S_ISDIR(st.st_mode);
}

static void walk(const char *where)
{
	struct dirent **entries;
	char below[512];
	int n;

	if (!print_entry(where))
		return;
	n = scandir(where, &entries, NULL, by_name);
	for (int k = 0; k < n; k++) {
		if (strcmp(entries[k]->d_name, ".") && strcmp(entries[k]->d_name, "..")) {
			snprintf(below, sizeof(below), "%s/%s", where, entries[k]->d_name);
			walk(below);
		}
		free(entries[k]);
	}
	if (n >= 0)
		free(entries);
}

/* ---- kinds of overlay ---- */

static void layer(const char *where, void (*fill)(void))
{
	must(!mkdir(where, 0755), where);
	must(!chdir(where), where);
	if (fill)
		fill();
	must(!chdir("/"), "/");
}

static void upper_and_work(void (*fill)(void))
{
	layer(BASE "/upper", fill);
	layer(BASE "/work", NULL);
}

/* A clone of a mount, seen through a user namespace that maps 0 to 20000. */
static void idmapped(const char *from, const char *to)
{
	struct { unsigned long set, clear, propagation, userns; } attr = { .set = 0x100000 };
	int ready[2], done[2], tree, namespace;
	char byte = 0, name[64];
	pid_t pid;

	must(!pipe(ready) && !pipe(done), "pipe");
	pid = fork();
	must(pid >= 0, "fork");
	if (!pid) {
		must(!unshare(CLONE_NEWUSER), "unshare");
		must(write(ready[1], &byte, 1) == 1, "write");
		_exit(read(done[0], &byte, 1) != 1);
	}
	must(read(ready[0], &byte, 1) == 1, "read");
	map_users(pid, "0 20000 10000");
	sprintf(name, "/proc/%d/ns/user", pid);
	namespace = open(name, O_RDONLY);
	tree = syscall(428 /* open_tree */, AT_FDCWD, from, 1 /* clone */ | O_CLOEXEC);
	attr.userns = namespace;
	must(namespace >= 0 && tree >= 0, "open_tree");
	must(!syscall(442 /* mount_setattr */, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)),
	     "mount_setattr");
	must(!mkdir(to, 0755), to);
	must(!syscall(429 /* move_mount */, tree, "", AT_FDCWD, to, 4 /* empty from */), "move_mount");
	must(write(done[1], &byte, 1) == 1 && waitpid(pid, NULL, 0) == pid, "wait");
	close(tree);
	close(namespace);
}

/* Layers shifted, so that through an idmapped mount they look as others do. */
static void shifted(void)
{
	must(!setfsuid(0), "setfsuid");
	lower_layer();
	if (system("for f in * */*; do set -- $(stat -c '%u %g' $f);"
		   "m=$(stat -c %a $f); chown -h $(($1 + 20000)):$(($2 + 20000)) $f;"
		   "[ -L $f ] || chmod $m $f; done; chown 20000:20000 ."))
		die("shifting");
}

static void overlay(const char *where, const char *options, unsigned long flags)
{
	must(!mkdir(where, 0755) || errno == EEXIST, where);
	must(!mount("overlay", where, "overlay", flags, options), options);
}

#define L BASE "/lower"
#define UW ",upperdir=" BASE "/upper,workdir=" BASE "/work"

static void kind_plain(const char *more)
{
	char options[512];

	layer(L, lower_layer);
	upper_and_work(upper_layer);
	snprintf(options, sizeof(options), "lowerdir=" L UW "%s", more);
	overlay(MERGED, options, 0);
}

static void kind_readonly(const char *more)
{
	(void)more;
	layer(L, lower_layer);
	layer(BASE "/above", upper_layer);
	overlay(MERGED, "lowerdir=" BASE "/above:" L, 0);
}

static void kind_remounted(const char *more)
{
	kind_plain(more);
	must(!mount("overlay", MERGED, "overlay", MS_REMOUNT | MS_RDONLY, NULL), "remount");
}

static void kind_layers(const char *more)
{
	(void)more;
	layer(L, lower_layer);
	layer(BASE "/middle", upper_layer);
	upper_and_work(NULL);
	overlay(MERGED, "lowerdir=" BASE "/middle:" L UW, 0);
}

static void kind_nested(const char *more)
{
	(void)more;
	layer(L, lower_layer);
	layer(BASE "/upper2", upper_layer);
	layer(BASE "/work2", NULL);
	overlay(BASE "/inner", "lowerdir=" L ",upperdir=" BASE "/upper2,workdir=" BASE "/work2", 0);
	upper_and_work(NULL);
	overlay(MERGED, "lowerdir=" BASE "/inner" UW, 0);
}

static void kind_idmapped(const char *more)
{
	(void)more;
	layer(BASE "/shifted", shifted);
	idmapped(BASE "/shifted", L);
	upper_and_work(upper_layer);
	overlay(MERGED, "lowerdir=" L UW, 0);
}

static const struct { const char *name; void (*mount)(const char *); const char *more; int userns; }
KINDS[] = {
	{ "plain", kind_plain, "", 0 },
	{ "metacopy", kind_plain, ",metacopy=on,redirect_dir=on", 0 },
	{ "redirect", kind_plain, ",redirect_dir=on", 0 },
	{ "index", kind_plain, ",index=on", 0 },
	{ "xino", kind_plain, ",xino=on", 0 },
	{ "volatile", kind_plain, ",volatile", 0 },
	{ "userxattr", kind_plain, ",userxattr", 0 },
	{ "readonly", kind_readonly, "", 0 },
	{ "remounted", kind_remounted, "", 0 },
	{ "layers", kind_layers, "", 0 },
	{ "nested", kind_nested, "", 0 },
	{ "idmapped", kind_idmapped, "", 0 },
	{ "userns", kind_plain, ",userxattr", 1 },
};

/* In a user namespace of its own, with a range of users as a container has it. */
static void enter_userns(void)
{
	int ready[2], done[2];
	char byte = 0;
	pid_t parent = getpid(), pid;

	must(!pipe(ready) && !pipe(done), "pipe");
	pid = fork();
	must(pid >= 0, "fork");
	if (!pid) {
		must(read(ready[0], &byte, 1) == 1, "read");
		map_users(parent, "0 100000 65536");
		_exit(write(done[1], &byte, 1) != 1);
	}
	must(!unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare");
	must(write(ready[1], &byte, 1) == 1 && read(done[0], &byte, 1) == 1, "maps");
	must(!setresgid(0, 0, 0) && !setresuid(0, 0, 0), "root there");
	must(waitpid(pid, NULL, 0) == pid, "wait");
}

/* One user on layers of his own, so that none finds what another left. */
static void run_kind(size_t n, size_t user)
{
	must(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "namespace");
	must(!mkdir(BASE, 0755) || errno == EEXIST, BASE);
	if (KINDS[n].userns)
		enter_userns();
	must(!mount("battery", BASE, "tmpfs", 0, "mode=755"), "tmpfs");
	KINDS[n].mount(KINDS[n].more);
	run_as(user);
	walk(MERGED);
	must(!umount(MERGED), "umount");
	if (!access(BASE "/upper", F_OK))
		walk(BASE "/upper");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int status = 0, ended;

	for (size_t n = 0; n < SIZE(KINDS); n++) {
		int wanted = argc < 2;
		pid_t pid;

		for (int k = 1; k < argc; k++)
			wanted |= !strcmp(argv[k], KINDS[n].name);
		if (!wanted)
			continue;
		kind = KINDS[n].name;
		for (size_t user = 0; user < SIZE(USERS); user++) {
			fflush(stdout);
			pid = fork();
			must(pid >= 0, "fork");
			if (!pid) {
				run_kind(n, user);
				_exit(0);
			}
			must(waitpid(pid, &ended, 0) == pid, "wait");
			status |= ended;
		}
	}
	printf("battery ends\n");
	return !!status;
}
