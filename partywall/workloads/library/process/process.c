// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <unistd.h>

#include "operations.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ITSELF "/proc/self/exe"
#define LARGE (16UL << 20)
#define PAGE 4096
#define THREADS 4
#define SECOND ((struct timespec){ .tv_sec = 1 })

/* Where this is set, the program leaves at once: it is what an operation executed. */
#define LEAVE "PW_LEAVE"

static char *const leave_argv[] = { "leave", NULL };
static char *const leave_envp[] = { LEAVE "=1", NULL };

__attribute__((constructor)) static void leave(void)
{
	if (getenv(LEAVE))
		_exit(0);
}

static volatile sig_atomic_t handled;
static sigset_t one_signal;
static char *large;
static int executable = -1;

static void reap(pid_t pid)
{
	int status;

	check(pid < 0, "making a process");
	check(waitpid(pid, &status, 0) != pid || status, "waitpid");
}

static void op_fork(unsigned long n)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	reap(pid);
}

static void prepare_large(const struct run *run)
{
	large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(large == MAP_FAILED, "mmap");
	check(madvise(large, LARGE, MADV_NOHUGEPAGE) && errno != EINVAL, "madvise");
	for (size_t at = 0; at < LARGE; at += PAGE)
		large[at] = 1;
}

static void op_fork_write(unsigned long n)
{
	pid_t pid = fork();

	if (!pid) {
		for (size_t at = 0; at < 16 * PAGE; at += PAGE)
			((volatile char *)large)[at] = 2;
		_exit(0);
	}
	reap(pid);
}

static void op_fork_two(unsigned long n)
{
	pid_t pid = fork();

	if (!pid) {
		op_fork(n);
		_exit(0);
	}
	reap(pid);
}

static void op_vfork(unsigned long n)
{
	pid_t pid = vfork();

	if (!pid)
		_exit(0);
	reap(pid);
}

static void op_vfork_exec(unsigned long n)
{
	pid_t pid = vfork();

	if (!pid) {
		execve(ITSELF, leave_argv, leave_envp);
		_exit(1);
	}
	reap(pid);
}

static void op_fork_exec(unsigned long n)
{
	pid_t pid = fork();

	if (!pid) {
		execve(ITSELF, leave_argv, leave_envp);
		_exit(1);
	}
	reap(pid);
}

static void prepare_execveat(const struct run *run)
{
	executable = open(ITSELF, O_RDONLY | O_CLOEXEC);
	check(executable < 0, "opening the program");
}

static void op_execveat(unsigned long n)
{
	pid_t pid = vfork();

	if (!pid) {
		syscall(SYS_execveat, executable, "", leave_argv, leave_envp, AT_EMPTY_PATH);
		_exit(1);
	}
	reap(pid);
}

static void op_spawn(unsigned long n)
{
	pid_t pid;

	errno = posix_spawn(&pid, ITSELF, NULL, NULL, leave_argv, leave_envp);
	check(errno, "posix_spawn");
	reap(pid);
}

static void op_exec_missing(unsigned long n)
{
	check(execve("/missing", leave_argv, leave_envp) != -1 || errno != ENOENT, "execve");
}

/* A child on a copy of this stack, as fork() makes it. */
static pid_t clone_with(unsigned long flags, int *pidfd)
{
	return syscall(SYS_clone, flags | SIGCHLD, NULL, pidfd, NULL, 0UL);
}

static void op_clone_files(unsigned long n)
{
	pid_t pid = clone_with(CLONE_FILES | CLONE_FS, NULL);

	if (!pid)
		_exit(0);
	reap(pid);
}

static void op_clone_pidfd(unsigned long n)
{
	siginfo_t info;
	int pidfd = -1;
	pid_t pid = clone_with(CLONE_PIDFD, &pidfd);
	struct pollfd ready;

	if (!pid)
		_exit(0);
	check(pid < 0, "clone");
	ready = (struct pollfd){ .fd = pidfd, .events = POLLIN };
	check(poll(&ready, 1, -1) != 1, "poll");
	check(waitid((idtype_t)P_PIDFD, pidfd, &info, WEXITED), "waitid");
	close(pidfd);
}

static void op_clone3(unsigned long n)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	pid_t pid = syscall(SYS_clone3, &args, sizeof(args));

	if (!pid)
		_exit(0);
	reap(pid);
}

static void *nothing(void *argument)
{
	return argument;
}

static void make_threads(int count)
{
	pthread_t threads[THREADS];

	for (int k = 0; k < count; k++) {
		errno = pthread_create(&threads[k], NULL, nothing, NULL);
		check(errno, "pthread_create");
	}
	for (int k = 0; k < count; k++) {
		errno = pthread_join(threads[k], NULL);
		check(errno, "pthread_join");
	}
}

static void op_thread(unsigned long n)
{
	make_threads(1);
}

static void op_threads(unsigned long n)
{
	make_threads(THREADS);
}

static void op_fork_setsid(unsigned long n)
{
	pid_t pid = fork();

	if (!pid)
		_exit(setsid() != getpid());
	reap(pid);
}

static void op_fork_setpgid(unsigned long n)
{
	pid_t pid = fork();

	if (!pid)
		_exit(!!setpgid(0, 0));
	reap(pid);
}

static void op_fork_killed(unsigned long n)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		for (;;)
			pause();
	check(pid < 0, "fork");
	check(kill(pid, SIGKILL), "kill");
	check(waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status), "waitpid");
}

static void op_fork_stopped(unsigned long n)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		raise(SIGSTOP);
		_exit(0);
	}
	check(pid < 0, "fork");
	check(waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status), "waitpid");
	check(kill(pid, SIGCONT), "kill");
	reap(pid);
}

static void op_ptrace(unsigned long n)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		check(ptrace(PTRACE_TRACEME, 0, NULL, NULL), "PTRACE_TRACEME");
		raise(SIGSTOP);
		_exit(0);
	}
	check(pid < 0, "fork");
	check(waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status), "waitpid");
	check(ptrace(PTRACE_CONT, pid, NULL, NULL), "PTRACE_CONT");
	reap(pid);
}

static void op_waitid(unsigned long n)
{
	siginfo_t info;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	check(pid < 0, "fork");
	check(waitid(P_PID, pid, &info, WEXITED | WNOWAIT), "waitid");
	reap(pid);
}

static void op_wait_nobody(unsigned long n)
{
	check(waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD, "waitpid");
}

static void handle(int signal)
{
	(void)signal;
	handled++;
}

static void set_action(void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };

	check(sigaction(SIGUSR1, &action, NULL), "sigaction");
}

static void prepare_handler(const struct run *run)
{
	set_action(handle);
}

static void op_kill(unsigned long n)
{
	sig_atomic_t before = handled;

	check(kill(getpid(), SIGUSR1) || handled == before, "kill");
}

static void op_tgkill(unsigned long n)
{
	sig_atomic_t before = handled;

	check(tgkill(getpid(), gettid(), SIGUSR1) || handled == before, "tgkill");
}

static void prepare_ignored(const struct run *run)
{
	set_action(SIG_IGN);
}

static void op_kill_ignored(unsigned long n)
{
	check(kill(getpid(), SIGUSR1), "kill");
}

static void op_kill_nothing(unsigned long n)
{
	check(kill(getpid(), 0), "kill");
}

static void op_sigaction(unsigned long n)
{
	set_action(n % 2 ? SIG_IGN : handle);
}

static void prepare_signal_set(const struct run *run)
{
	sigemptyset(&one_signal);
	sigaddset(&one_signal, SIGUSR1);
}

static void op_sigprocmask(unsigned long n)
{
	check(sigprocmask(SIG_BLOCK, &one_signal, NULL), "sigprocmask");
	check(sigprocmask(SIG_UNBLOCK, &one_signal, NULL), "sigprocmask");
}

static void prepare_blocked(const struct run *run)
{
	prepare_signal_set(run);
	check(sigprocmask(SIG_BLOCK, &one_signal, NULL), "sigprocmask");
}

static void op_sigqueue(unsigned long n)
{
	union sigval value = { .sival_int = 1 };

	check(sigqueue(getpid(), SIGUSR1, value), "sigqueue");
	check(sigtimedwait(&one_signal, NULL, &SECOND) != SIGUSR1, "sigtimedwait");
}

static void op_sigpending(unsigned long n)
{
	sigset_t pending;

	check(sigpending(&pending), "sigpending");
}

static void op_prctl_name(unsigned long n)
{
	check(prctl(PR_SET_NAME, n % 2 ? "odd" : "even"), "prctl");
}

static uid_t user;
static gid_t group;

static void prepare_ids(const struct run *run)
{
	user = getuid();
	group = getgid();
}

static void op_setuid(unsigned long n)
{
	check(setuid(user), "setuid");
}

static void op_setresuid(unsigned long n)
{
	check(setresuid(user, user, user), "setresuid");
}

static void op_seteuid(unsigned long n)
{
	check(seteuid(1), "seteuid");
	check(seteuid(0), "seteuid");
}

static void op_setfsuid(unsigned long n)
{
	setfsuid(1);
	check(setfsuid(0) != 1, "setfsuid");
}

static void op_setresgid(unsigned long n)
{
	check(setresgid(group, group, group), "setresgid");
}

static void prepare_setpgid(const struct run *run)
{
	check(setpgid(0, 0), "setpgid");
}

static void op_setpgid(unsigned long n)
{
	check(setpgid(0, 0), "setpgid");
}

static void op_getpid(unsigned long n)
{
	check(syscall(SYS_getpid) <= 0, "getpid");
}

/* 0 if the parent is in another PID namespace. */
static void op_getppid(unsigned long n)
{
	check(getppid() < 0, "getppid");
}

static void op_getpgid(unsigned long n)
{
	check(getpgid(0) < 0, "getpgid");
}

static void op_getsid(unsigned long n)
{
	check(getsid(0) < 0, "getsid");
}

static void op_getuid(unsigned long n)
{
	check(syscall(SYS_getuid) < 0, "getuid");
}

static void op_sched_yield(unsigned long n)
{
	check(sched_yield(), "sched_yield");
}

static cpu_set_t cpus;

static void prepare_affinity(const struct run *run)
{
	check(sched_getaffinity(0, sizeof(cpus), &cpus), "sched_getaffinity");
}

static void op_sched_getaffinity(unsigned long n)
{
	cpu_set_t set;

	check(sched_getaffinity(0, sizeof(set), &set), "sched_getaffinity");
}

static void op_sched_setaffinity(unsigned long n)
{
	check(sched_setaffinity(0, sizeof(cpus), &cpus), "sched_setaffinity");
}

/* The first version of struct sched_attr, which not all C libraries have. */
struct attributes {
	unsigned int size, policy;
	unsigned long long flags;
	int nice;
	unsigned int priority;
	unsigned long long runtime, deadline, period;
};

static void op_sched_getattr(unsigned long n)
{
	struct attributes attributes;

	check(syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0), "sched_getattr");
}

static void op_sched_setscheduler(unsigned long n)
{
	struct sched_param none = { 0 };

	check(sched_setscheduler(0, n % 2 ? SCHED_OTHER : SCHED_BATCH, &none),
	      "sched_setscheduler");
}

static void op_getpriority(unsigned long n)
{
	errno = 0;
	getpriority(PRIO_PROCESS, 0);
	check(errno, "getpriority");
}

static int nice_value;

static void prepare_priority(const struct run *run)
{
	nice_value = getpriority(PRIO_PROCESS, 0);
}

static void op_setpriority(unsigned long n)
{
	check(setpriority(PRIO_PROCESS, 0, nice_value), "setpriority");
}

static void op_getrlimit(unsigned long n)
{
	struct rlimit limit;

	check(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
}

static struct rlimit limit_before;

static void prepare_rlimit(const struct run *run)
{
	check(getrlimit(RLIMIT_NOFILE, &limit_before), "getrlimit");
}

static void op_setrlimit(unsigned long n)
{
	check(setrlimit(RLIMIT_NOFILE, &limit_before), "setrlimit");
}

static void op_times(unsigned long n)
{
	struct tms times_now;

	check(times(&times_now) == (clock_t)-1, "times");
}

static void op_getrusage(unsigned long n)
{
	struct rusage usage;

	check(getrusage(RUSAGE_SELF, &usage), "getrusage");
}

static int own_pidfd = -1;

static void prepare_pidfd(const struct run *run)
{
	own_pidfd = syscall(SYS_pidfd_open, getpid(), 0);
	check(own_pidfd < 0, "pidfd_open");
}

static void op_pidfd_send_signal(unsigned long n)
{
	check(syscall(SYS_pidfd_send_signal, own_pidfd, 0, NULL, 0), "pidfd_send_signal");
}

static void op_getcpu(unsigned long n)
{
	unsigned int cpu;

	check(syscall(SYS_getcpu, &cpu, NULL, NULL), "getcpu");
}

static void op_umask(unsigned long n)
{
	umask(n % 2 ? 022 : 077);
}

#define IOPRIO_WHO_PROCESS 1

static void op_ioprio(unsigned long n)
{
	int priority = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);

	check(priority < 0, "ioprio_get");
	check(syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority), "ioprio_set");
}

FAMILY({ "clone-files", op_clone_files, NULL },
       { "clone-pidfd", op_clone_pidfd, NULL },
       { "clone3", op_clone3, NULL },
       { "exec-missing", op_exec_missing, NULL },
       { "execveat", op_execveat, prepare_execveat },
       { "fork-exec", op_fork_exec, NULL },
       { "fork-killed", op_fork_killed, NULL },
       { "fork-large", op_fork, prepare_large },
       { "fork-setpgid", op_fork_setpgid, NULL },
       { "fork-setsid", op_fork_setsid, NULL },
       { "fork-stopped", op_fork_stopped, NULL },
       { "fork-two", op_fork_two, NULL },
       { "fork-write", op_fork_write, prepare_large },
       { "getcpu", op_getcpu, NULL },
       { "getpgid", op_getpgid, NULL },
       { "getpid", op_getpid, NULL },
       { "getppid", op_getppid, NULL },
       { "getpriority", op_getpriority, NULL },
       { "getrlimit", op_getrlimit, NULL },
       { "getrusage", op_getrusage, NULL },
       { "getsid", op_getsid, NULL },
       { "getuid", op_getuid, NULL },
       { "ioprio", op_ioprio, NULL },
       { "kill", op_kill, prepare_handler },
       { "kill-ignored", op_kill_ignored, prepare_ignored },
       { "kill-nothing", op_kill_nothing, NULL },
       { "pidfd-send-signal", op_pidfd_send_signal, prepare_pidfd },
       { "prctl-name", op_prctl_name, NULL },
       { "ptrace", op_ptrace, NULL },
       { "sched-getaffinity", op_sched_getaffinity, NULL },
       { "sched-getattr", op_sched_getattr, NULL },
       { "sched-setaffinity", op_sched_setaffinity, prepare_affinity },
       { "sched-setscheduler", op_sched_setscheduler, NULL },
       { "sched-yield", op_sched_yield, NULL },
       { "seteuid", op_seteuid, NULL },
       { "setfsuid", op_setfsuid, NULL },
       { "setpgid", op_setpgid, prepare_setpgid },
       { "setpriority", op_setpriority, prepare_priority },
       { "setresgid", op_setresgid, prepare_ids },
       { "setresuid", op_setresuid, prepare_ids },
       { "setrlimit", op_setrlimit, prepare_rlimit },
       { "setuid", op_setuid, prepare_ids },
       { "sigaction", op_sigaction, NULL },
       { "sigpending", op_sigpending, NULL },
       { "sigprocmask", op_sigprocmask, prepare_signal_set },
       { "sigqueue", op_sigqueue, prepare_blocked },
       { "spawn", op_spawn, NULL },
       { "tgkill", op_tgkill, prepare_handler },
       { "thread", op_thread, NULL },
       { "threads", op_threads, NULL },
       { "times", op_times, NULL },
       { "umask", op_umask, NULL },
       { "vfork", op_vfork, NULL },
       { "vfork-exec", op_vfork_exec, NULL },
       { "wait-nobody", op_wait_nobody, NULL },
       { "waitid", op_waitid, NULL });
