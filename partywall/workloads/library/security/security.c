// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "operations.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define PAGE 4096
#define GROUPS 4

/* What operations work on, made by prepare(). */
static int fd = -1;
static struct __user_cap_header_struct cap_header = { .version = _LINUX_CAPABILITY_VERSION_3 };
static struct __user_cap_data_struct caps[2];

/* Does what can't be undone in a child; its status is what it returns. */
static void in_child(int (*what)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(what());
	check(pid < 0, "fork");
	check(waitpid(pid, &status, 0) != pid || status, "what the child does");
}

static void op_getrandom(unsigned long n)
{
	char bytes[16];

	check(getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes), "getrandom");
}

static void op_getrandom_page(unsigned long n)
{
	char bytes[PAGE];

	check(getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes), "getrandom");
}

/* The first version of the rules for files. */
static int make_ruleset(void)
{
	struct landlock_ruleset_attr attr = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE,
	};
	int ruleset = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	check(ruleset < 0, "landlock_create_ruleset");
	return ruleset;
}

static void op_landlock(unsigned long n)
{
	close(make_ruleset());
}

static void prepare_root(const struct run *run)
{
	fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	check(fd < 0, "opening the root");
}

static int ruleset_of_root(void)
{
	struct landlock_path_beneath_attr rule = {
		.allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE,
		.parent_fd = fd,
	};
	int ruleset = make_ruleset();

	check(syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0),
	      "landlock_add_rule");
	return ruleset;
}

static void op_landlock_rule(unsigned long n)
{
	close(ruleset_of_root());
}

static int restrict_itself(void)
{
	int ruleset = ruleset_of_root();

	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
	check(syscall(SYS_landlock_restrict_self, ruleset, 0), "landlock_restrict_self");
	return 0;
}

static void op_landlock_restrict(unsigned long n)
{
	in_child(restrict_itself);
}

/* Refuses a call that a container may do otherwise, with what that would not say. */
static struct sock_filter instructions[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgrp, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

static void install_filter(void)
{
	struct sock_fprog filter = {
		.len = sizeof(instructions) / sizeof(*instructions),
		.filter = instructions,
	};

	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
	check(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter), "seccomp");
}

static int filter_itself(void)
{
	install_filter();
	return 0;
}

static void op_seccomp(unsigned long n)
{
	in_child(filter_itself);
}

static void prepare_filter(const struct run *run)
{
	install_filter();
}

static void op_seccomp_refused(unsigned long n)
{
	check(syscall(SYS_getpgrp) != -1 || errno != ENOTTY, "getpgrp");
}

static void op_seccomp_actions(unsigned long n)
{
	unsigned int action = SECCOMP_RET_ERRNO;

	check(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action), "seccomp");
}

static int no_new_privileges(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static void op_no_new_privileges(unsigned long n)
{
	in_child(no_new_privileges);
}

static void op_capget(unsigned long n)
{
	check(syscall(SYS_capget, &cap_header, caps), "capget");
}

static void prepare_caps(const struct run *run)
{
	op_capget(0);
}

static void op_capset(unsigned long n)
{
	check(syscall(SYS_capset, &cap_header, caps), "capset");
}

/* Down by one that is in no way needed, and up again. */
static void op_capset_toggle(unsigned long n)
{
	caps[0].effective ^= 1U << CAP_NET_BIND_SERVICE;
	op_capset(n);
}

static int drop_from_bounds(void)
{
	return prctl(PR_CAPBSET_DROP, CAP_NET_BIND_SERVICE, 0, 0, 0);
}

static void op_capbset_drop(unsigned long n)
{
	in_child(drop_from_bounds);
}

static void op_capbset_read(unsigned long n)
{
	check(prctl(PR_CAPBSET_READ, CAP_CHOWN, 0, 0, 0) < 0, "PR_CAPBSET_READ");
}

static void op_securebits(unsigned long n)
{
	check(prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) < 0, "PR_GET_SECUREBITS");
}

static void op_keepcaps(unsigned long n)
{
	check(prctl(PR_SET_KEEPCAPS, n % 2, 0, 0, 0), "PR_SET_KEEPCAPS");
}

static void op_dumpable(unsigned long n)
{
	check(prctl(PR_SET_DUMPABLE, n % 2, 0, 0, 0), "PR_SET_DUMPABLE");
}

static const gid_t groups[GROUPS] = { 0, 1, 2, 3 };

static void op_setgroups(unsigned long n)
{
	check(setgroups(GROUPS - n % 2, groups), "setgroups");
}

static void op_getgroups(unsigned long n)
{
	gid_t found[64];

	check(getgroups(64, found) < 0, "getgroups");
}

static void op_personality(unsigned long n)
{
	check(personality(0xffffffff) < 0, "personality");
}

static void op_personality_set(unsigned long n)
{
	check(personality(PER_LINUX) < 0, "personality");
}

static void op_uname(unsigned long n)
{
	struct utsname names;

	check(uname(&names), "uname");
}

static void op_sysinfo(unsigned long n)
{
	struct sysinfo info;

	check(sysinfo(&info), "sysinfo");
}

static void op_chroot(unsigned long n)
{
	check(chroot("/"), "chroot");
}

static void op_faccessat(unsigned long n)
{
	check(faccessat(AT_FDCWD, "/", R_OK, 0), "faccessat");
}

static void prepare_attr(const struct run *run)
{
	fd = open("/proc/self/attr/current", O_RDONLY);
	check(fd < 0, "opening the process's label");
}

static void op_label(unsigned long n)
{
	char label[128];

	check(pread(fd, label, sizeof(label), 0) < 0, "reading the process's label");
}

FAMILY({ "capbset-drop", op_capbset_drop, NULL },
       { "capbset-read", op_capbset_read, NULL },
       { "capget", op_capget, NULL },
       { "capset", op_capset, prepare_caps },
       { "capset-toggle", op_capset_toggle, prepare_caps },
       { "chroot", op_chroot, NULL },
       { "dumpable", op_dumpable, NULL },
       { "faccessat", op_faccessat, NULL },
       { "getgroups", op_getgroups, NULL },
       { "getrandom", op_getrandom, NULL },
       { "getrandom-page", op_getrandom_page, NULL },
       { "keepcaps", op_keepcaps, NULL },
       { "label", op_label, prepare_attr },
       { "landlock", op_landlock, NULL },
       { "landlock-restrict", op_landlock_restrict, prepare_root },
       { "landlock-rule", op_landlock_rule, prepare_root },
       { "no-new-privileges", op_no_new_privileges, NULL },
       { "personality", op_personality, NULL },
       { "personality-set", op_personality_set, NULL },
       { "seccomp", op_seccomp, NULL },
       { "seccomp-actions", op_seccomp_actions, NULL },
       { "seccomp-refused", op_seccomp_refused, prepare_filter },
       { "securebits", op_securebits, NULL },
       { "setgroups", op_setgroups, NULL },
       { "sysinfo", op_sysinfo, NULL },
       { "uname", op_uname, NULL });
