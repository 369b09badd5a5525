// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "operations.h"

/* Most operations are the same each time. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Far enough that no timer expires that is not meant to. */
#define FAR 3600

/* What operations work on, made by prepare(). */
static timer_t timer;
static int fd = -1;
static sigset_t alarms;

static const struct timespec nothing, moment = { .tv_nsec = 1 };
static const struct itimerspec far = { .it_value = { .tv_sec = FAR } };
static const struct itimerspec soon = { .it_value = { .tv_nsec = 1 } };
static const struct itimerspec never;

static void sleep_on(clockid_t clock, int flags, const struct timespec *until)
{
	errno = clock_nanosleep(clock, flags, until, NULL);
	check(errno, "clock_nanosleep");
}

static void op_sleep_zero(unsigned long n)
{
	sleep_on(CLOCK_MONOTONIC, 0, &nothing);
}

static void op_sleep(unsigned long n)
{
	sleep_on(CLOCK_MONOTONIC, 0, &moment);
}

static void op_sleep_realtime(unsigned long n)
{
	sleep_on(CLOCK_REALTIME, 0, &moment);
}

static void op_sleep_boottime(unsigned long n)
{
	sleep_on(CLOCK_BOOTTIME, 0, &moment);
}

static void op_sleep_past(unsigned long n)
{
	sleep_on(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment);
}

static void make_timer(clockid_t clock)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };

	check(timer_create(clock, &event, &timer), "timer_create");
}

static void arm(const struct itimerspec *when)
{
	check(timer_settime(timer, 0, when, NULL), "timer_settime");
}

static void op_timer(unsigned long n)
{
	make_timer(CLOCK_MONOTONIC);
	check(timer_delete(timer), "timer_delete");
}

static void op_timer_armed(unsigned long n)
{
	make_timer(CLOCK_MONOTONIC);
	arm(&far);
	check(timer_delete(timer), "timer_delete");
}

static void op_timer_cpu(unsigned long n)
{
	make_timer(CLOCK_PROCESS_CPUTIME_ID);
	arm(&far);
	check(timer_delete(timer), "timer_delete");
}

static void prepare_timer(const struct run *run)
{
	make_timer(CLOCK_MONOTONIC);
}

static void prepare_timer_realtime(const struct run *run)
{
	make_timer(CLOCK_REALTIME);
}

static void prepare_timer_process(const struct run *run)
{
	make_timer(CLOCK_PROCESS_CPUTIME_ID);
}

static void prepare_timer_thread(const struct run *run)
{
	make_timer(CLOCK_THREAD_CPUTIME_ID);
}

static void op_timer_settime(unsigned long n)
{
	arm(&far);
	arm(&never);
}

static void op_timer_gettime(unsigned long n)
{
	struct itimerspec left;

	check(timer_gettime(timer, &left), "timer_gettime");
}

static void op_timer_overrun(unsigned long n)
{
	check(timer_getoverrun(timer) < 0, "timer_getoverrun");
}

static void block_alarms(void)
{
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigaddset(&alarms, SIGVTALRM);
	check(sigprocmask(SIG_BLOCK, &alarms, NULL), "sigprocmask");
}

static void take_alarm(void)
{
	check(sigwaitinfo(&alarms, NULL) < 0, "sigwaitinfo");
}

static void prepare_expiry(const struct run *run)
{
	block_alarms();
	make_timer(CLOCK_MONOTONIC);
}

static void op_timer_expiry(unsigned long n)
{
	arm(&soon);
	take_alarm();
}

static void set_itimer(int which, time_t seconds, suseconds_t microseconds)
{
	struct itimerval value = { .it_value = { seconds, microseconds } };

	check(setitimer(which, &value, NULL), "setitimer");
}

static void op_itimer(unsigned long n)
{
	set_itimer(ITIMER_REAL, FAR, 0);
	set_itimer(ITIMER_REAL, 0, 0);
}

static void op_itimer_virtual(unsigned long n)
{
	set_itimer(ITIMER_VIRTUAL, FAR, 0);
	set_itimer(ITIMER_VIRTUAL, 0, 0);
}

static void op_itimer_prof(unsigned long n)
{
	set_itimer(ITIMER_PROF, FAR, 0);
	set_itimer(ITIMER_PROF, 0, 0);
}

static void op_getitimer(unsigned long n)
{
	struct itimerval value;

	check(getitimer(ITIMER_REAL, &value), "getitimer");
}

static void prepare_alarms(const struct run *run)
{
	block_alarms();
}

static void op_itimer_expiry(unsigned long n)
{
	set_itimer(ITIMER_REAL, 0, 1);
	take_alarm();
}

static void op_alarm(unsigned long n)
{
	alarm(FAR);
	check(!alarm(0), "alarm");
}

static int make_timerfd(clockid_t clock)
{
	int made = timerfd_create(clock, TFD_CLOEXEC);

	check(made < 0, "timerfd_create");
	return made;
}

static void arm_fd(int of, int flags, const struct itimerspec *when)
{
	check(timerfd_settime(of, flags, when, NULL), "timerfd_settime");
}

static void op_timerfd(unsigned long n)
{
	close(make_timerfd(CLOCK_MONOTONIC));
}

static void op_timerfd_armed(unsigned long n)
{
	int made = make_timerfd(CLOCK_MONOTONIC);

	arm_fd(made, 0, &far);
	close(made);
}

static void prepare_timerfd(const struct run *run)
{
	fd = make_timerfd(CLOCK_MONOTONIC);
}

static void prepare_timerfd_realtime(const struct run *run)
{
	fd = make_timerfd(CLOCK_REALTIME);
}

static void op_timerfd_settime(unsigned long n)
{
	arm_fd(fd, 0, &far);
	arm_fd(fd, 0, &never);
}

static void op_timerfd_gettime(unsigned long n)
{
	struct itimerspec left;

	check(timerfd_gettime(fd, &left), "timerfd_gettime");
}

static void op_timerfd_read(unsigned long n)
{
	uint64_t expired;

	arm_fd(fd, 0, &soon);
	check(read(fd, &expired, sizeof(expired)) != sizeof(expired), "read");
}

/* The kernel keeps a list of those that end if the clock is set. */
static void op_timerfd_cancel(unsigned long n)
{
	static const struct itimerspec end_of_time = { .it_value = { .tv_sec = INT32_MAX } };

	arm_fd(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &end_of_time);
	arm_fd(fd, 0, &never);
}

/* By system call, which libc spares where it can. */
static void read_clock(clockid_t clock)
{
	struct timespec t;

	check(syscall(SYS_clock_gettime, clock, &t), "clock_gettime");
}

static void op_clock_monotonic(unsigned long n)
{
	read_clock(CLOCK_MONOTONIC);
}

static void op_clock_realtime(unsigned long n)
{
	read_clock(CLOCK_REALTIME);
}

static void op_clock_boottime(unsigned long n)
{
	read_clock(CLOCK_BOOTTIME);
}

static void op_clock_tai(unsigned long n)
{
	read_clock(CLOCK_TAI);
}

static void op_clock_coarse(unsigned long n)
{
	read_clock(CLOCK_MONOTONIC_COARSE);
}

static void op_clock_process(unsigned long n)
{
	read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static void op_clock_thread(unsigned long n)
{
	read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static void op_clock_getres(unsigned long n)
{
	struct timespec t;

	check(syscall(SYS_clock_getres, CLOCK_MONOTONIC, &t), "clock_getres");
}

static void op_clock_vdso(unsigned long n)
{
	struct timespec t;

	check(clock_gettime(CLOCK_MONOTONIC, &t), "clock_gettime");
}

static void op_gettimeofday(unsigned long n)
{
	struct timeval t;

	check(syscall(SYS_gettimeofday, &t, NULL), "gettimeofday");
}

static void op_time(unsigned long n)
{
	check(syscall(SYS_time, NULL) < 0, "time");
}

/* Reads alone.  libc would call clock_adjtime(), which is another operation. */
static void op_adjtimex(unsigned long n)
{
	struct timex state = { .modes = 0 };

	check(syscall(SYS_adjtimex, &state) < 0, "adjtimex");
}

static void op_timerslack(unsigned long n)
{
	check(prctl(PR_SET_TIMERSLACK, n % 2 ? 50000 : 60000), "prctl");
}

static void op_poll_zero(unsigned long n)
{
	check(poll(NULL, 0, 0), "poll");
}

static void op_ppoll(unsigned long n)
{
	check(ppoll(NULL, 0, &moment, NULL), "ppoll");
}

static void op_pselect(unsigned long n)
{
	check(pselect(0, NULL, NULL, NULL, &moment, NULL), "pselect");
}

FAMILY({ "adjtimex", op_adjtimex, NULL },
       { "alarm", op_alarm, NULL },
       { "clock-boottime", op_clock_boottime, NULL },
       { "clock-coarse", op_clock_coarse, NULL },
       { "clock-getres", op_clock_getres, NULL },
       { "clock-monotonic", op_clock_monotonic, NULL },
       { "clock-process", op_clock_process, NULL },
       { "clock-realtime", op_clock_realtime, NULL },
       { "clock-tai", op_clock_tai, NULL },
       { "clock-thread", op_clock_thread, NULL },
       { "clock-vdso", op_clock_vdso, NULL },
       { "getitimer", op_getitimer, NULL },
       { "gettimeofday", op_gettimeofday, NULL },
       { "itimer", op_itimer, NULL },
       { "itimer-expiry", op_itimer_expiry, prepare_alarms },
       { "itimer-prof", op_itimer_prof, NULL },
       { "itimer-virtual", op_itimer_virtual, NULL },
       { "poll-zero", op_poll_zero, NULL },
       { "ppoll", op_ppoll, NULL },
       { "pselect", op_pselect, NULL },
       { "sleep", op_sleep, NULL },
       { "sleep-boottime", op_sleep_boottime, NULL },
       { "sleep-past", op_sleep_past, NULL },
       { "sleep-realtime", op_sleep_realtime, NULL },
       { "sleep-zero", op_sleep_zero, NULL },
       { "time", op_time, NULL },
       { "timer", op_timer, NULL },
       { "timer-armed", op_timer_armed, NULL },
       { "timer-cpu", op_timer_cpu, NULL },
       { "timer-expiry", op_timer_expiry, prepare_expiry },
       { "timer-gettime", op_timer_gettime, prepare_timer },
       { "timer-overrun", op_timer_overrun, prepare_timer },
       { "timer-settime", op_timer_settime, prepare_timer },
       { "timer-settime-process", op_timer_settime, prepare_timer_process },
       { "timer-settime-realtime", op_timer_settime, prepare_timer_realtime },
       { "timer-settime-thread", op_timer_settime, prepare_timer_thread },
       { "timerfd", op_timerfd, NULL },
       { "timerfd-armed", op_timerfd_armed, NULL },
       { "timerfd-cancel", op_timerfd_cancel, prepare_timerfd_realtime },
       { "timerfd-gettime", op_timerfd_gettime, prepare_timerfd },
       { "timerfd-read", op_timerfd_read, prepare_timerfd },
       { "timerfd-settime", op_timerfd_settime, prepare_timerfd },
       { "timerslack", op_timerslack, NULL });
