// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory whose sharing is known because this module makes it so.
 *
 * One operation is an ioctl() of /proc/partywall-truth, with the number of the
 * container, how many there are and the number of the operation.  It goes
 * through all cases in turn, each on memory of its own.  docs/truth.md says
 * what each must show.
 */
#include <linux/bottom_half.h>
#include <linux/cache.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/list_bl.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu-rwsem.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/rcupdate.h>
#include <linux/rwsem.h>
#include <linux/semaphore.h>
#include <linux/seqlock.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/stop_machine.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>

#define CONTAINERS 64
#define OPERATIONS 1024
#define FEW 64
#define MANY 256
/* The operation amid a window of 512. */
#define PASSED_ON 256
/* So far may one processor be before another one. */
#define AHEAD 128
/* Once in so many operations of all containers together. */
#define SELDOM 1024
/* More than the lines after which the recorder takes a return for a new visit. */
#define LINES_BETWEEN 16

struct truth_line {
	u64 value;
} ____cacheline_aligned;

struct truth_lock {
	spinlock_t lock;
	u32 guarded;
} ____cacheline_aligned;

struct truth_operation {
	unsigned int container;
	unsigned int containers;
	unsigned int number;
	bool turns;
	bool pairs;
};

/* What a container has for itself. */
struct truth_own {
	struct truth_line lines[LINES_BETWEEN];
	struct truth_line counter;
	struct tasklet_struct tasklet;
	struct work_struct work;
	struct delayed_work delayed;
	struct truth_callback *callbacks;
	struct truth_line worked, called_back_for;
	unsigned long called_back;
	unsigned long queued;
};

struct truth_callback {
	struct rcu_head rcu;
	struct truth_own *own;
};

static struct truth_own *truth_own[CONTAINERS];

/*
 * So many other lines that what comes next is another visit; all of them are
 * the container's own.
 */
static noinline void truth_apart(const struct truth_own *own)
{
	unsigned int n;

	for (n = 0; n < LINES_BETWEEN; n++)
		READ_ONCE(own->lines[n].value);
}

static __always_inline void read_line(const struct truth_own *own, const u64 *value)
{
	READ_ONCE(*value);
	truth_apart(own);
}

static __always_inline void write_line(const struct truth_own *own, u64 *value)
{
	WRITE_ONCE(*value, (unsigned long)own);
	truth_apart(own);
}

/* The emulator runs one CPU at a time, and turns to the next one at a PAUSE. */
static __always_inline void other_cpus_turn(void)
{
	cpu_relax();
}

/* All containers: so many visits that read, so many that write. */
static struct truth_line truth_w1, truth_r1_w1, truth_r4_w1, truth_r1_w3, truth_three_lines[3];
static struct {
	atomic_t count;
} ____cacheline_aligned truth_atomic;

static noinline void truth_all(const struct truth_own *own)
{
	unsigned int n;

	write_line(own, &truth_w1.value);

	write_line(own, &truth_r1_w1.value);
	read_line(own, &truth_r1_w1.value);

	write_line(own, &truth_r4_w1.value);
	for (n = 0; n < 4; n++)
		read_line(own, &truth_r4_w1.value);

	for (n = 0; n < 3; n++)
		write_line(own, &truth_r1_w3.value);
	read_line(own, &truth_r1_w3.value);

	for (n = 0; n < 3; n++)
		write_line(own, &truth_three_lines[n].value);

	atomic_inc(&truth_atomic.count);
	truth_apart(own);
}

/* Memory that a pointer leads to, of which the code alone tells the type. */
struct truth_object {
	u64 never[8];
	u64 first;
	u64 count;
	u64 rest[14];
};

static struct truth_object *truth_object;

static noinline void truth_allocated(const struct truth_own *own)
{
	struct truth_object *object = READ_ONCE(truth_object);

	object->count++;
	truth_apart(own);
}

/* A line is written by two containers; three of eight write one. */
static struct truth_line truth_pairs[CONTAINERS / 2], truth_threes[CONTAINERS / 8];

static noinline void truth_some(const struct truth_own *own, const struct truth_operation *op)
{
	write_line(own, &truth_pairs[op->container / 2].value);
	if (op->container % 8 < 3)
		write_line(own, &truth_threes[op->container / 8].value);
}

/* Three of four containers take a lock; all try another; a third one is held for ever. */
static struct truth_lock truth_most, truth_tried, truth_busy;

static noinline void truth_locks(const struct truth_own *own, const struct truth_operation *op)
{
	if (op->container % 4 < 3) {
		spin_lock(&truth_most.lock);
		truth_most.guarded++;
		spin_unlock(&truth_most.lock);
		truth_apart(own);
	}
	if (spin_trylock(&truth_tried.lock)) {
		truth_tried.guarded++;
		spin_unlock(&truth_tried.lock);
	}
	truth_apart(own);
	/* Who sees it taken only reads. */
	if (spin_trylock(&truth_busy.lock))
		spin_unlock(&truth_busy.lock);
	truth_apart(own);
}

/*
 * Reads again as long as somebody writes, as d_alloc_parallel() does: a round
 * leaves the line for others.  The emulator may stop the writer amid its
 * writing, and runs every reader for a long time then.
 */
static struct truth_lock truth_writers;
static struct truth_line truth_sequence;

static noinline void truth_retry(const struct truth_own *own, const struct truth_operation *op)
{
	u64 sequence;

	for (;;) {
		sequence = smp_load_acquire(&truth_sequence.value);
		truth_apart(own);
		if (!(sequence & 1))
			break;
	}

	spin_lock(&truth_writers.lock);
	sequence = truth_sequence.value;
	smp_store_release(&truth_sequence.value, sequence + 1);
	truth_apart(own);
	if (op->turns && !op->container && op->number % 256 == 200)
		other_cpus_turn();
	smp_store_release(&truth_sequence.value, sequence + 2);
	truth_apart(own);
	spin_unlock(&truth_writers.lock);
	truth_apart(own);
}

/*
 * What is done with a line in one hold of a lock that lies elsewhere nobody comes
 * between, but for who looks at it without the lock.
 */
static struct truth_lock truth_guard;
static struct truth_line truth_guarded, truth_peeked;

static noinline void truth_one_hold(const struct truth_own *own)
{
	unsigned int n;

	read_line(own, &truth_peeked.value);
	spin_lock(&truth_guard.lock);
	for (n = 0; n < 3; n++) {
		write_line(own, &truth_guarded.value);
		write_line(own, &truth_peeked.value);
	}
	read_line(own, &truth_guarded.value);
	spin_unlock(&truth_guard.lock);
	truth_apart(own);
}

/*
 * Handed over: each parcel is written by one container, later by the next, and
 * never again; the lines of the ring go round for ever.
 */
struct truth_parcel {
	u64 sent;
	u64 received;
	u64 rest[6];
};

static struct truth_parcel *truth_parcels[OPERATIONS / 16][CONTAINERS];
static struct truth_line truth_ring[CONTAINERS];

static noinline void truth_handed_over(const struct truth_own *own,
				       const struct truth_operation *op)
{
	unsigned int before = (op->container ? : op->containers) - 1;
	struct truth_parcel *parcel;

	if (op->number % 16 == 0) {
		parcel = truth_parcels[op->number / 16][op->container];
		write_line(own, &parcel->sent);
		if (op->number >= 128) {
			parcel = truth_parcels[op->number / 16 - 8][before];
			write_line(own, &parcel->received);
		}
	}
	write_line(own, &truth_ring[(op->container + op->number) % op->containers].value);
}

/*
 * Where two that follow each other are CPUs of one container: what its two have
 * early in the window, and late in it those of the next one.
 */
struct truth_passed {
	u64 count;
	u64 rest[7];
};

static struct truth_passed *truth_passed[CONTAINERS / 2];

static noinline void truth_passed_on(const struct truth_own *own,
				     const struct truth_operation *op)
{
	unsigned int later = op->number >= PASSED_ON;
	struct truth_passed *passed;

	/* Nobody has it while some have come to what is later and others have not. */
	if (op->number >= PASSED_ON - AHEAD && op->number < PASSED_ON + AHEAD)
		return;
	passed = truth_passed[(op->container / 2 + later) % (op->containers / 2)];
	passed->count++;
	truth_apart(own);
}

/* Nobody else's. */
static DEFINE_PER_CPU_ALIGNED(struct truth_line, truth_percpu);
static struct truth_line truth_by_container[CONTAINERS];

static noinline void truth_alone(struct truth_own *own, const struct truth_operation *op)
{
	this_cpu_inc(truth_percpu.value);
	truth_apart(own);
	write_line(own, &truth_by_container[op->container].value);
	own->counter.value++;
	truth_apart(own);
}

/* A lock for each bucket: all containers go through all buckets. */
static struct truth_lock truth_few[FEW], truth_many[MANY];

static __always_inline void hashed(const struct truth_own *own, struct truth_lock *bucket)
{
	spin_lock(&bucket->lock);
	bucket->guarded++;
	spin_unlock(&bucket->lock);
	truth_apart(own);
}

static noinline void truth_hashed(const struct truth_own *own, const struct truth_operation *op)
{
	/* Odd, so that in so many operations each bucket has its turn. */
	hashed(own, &truth_few[(op->number * 29 + op->container * 7) % FEW]);
	hashed(own, &truth_many[(op->number * 109 + op->container * 7) % MANY]);
}

/* Read by all, written hardly ever or never. */
static struct truth_line truth_seldom, truth_constant, truth_set_before;

static noinline void truth_read_mostly(const struct truth_own *own,
				       const struct truth_operation *op)
{
	unsigned int before = op->number * op->containers;

	read_line(own, &truth_seldom.value);
	read_line(own, &truth_seldom.value);
	/* Each time by the next one. */
	if (before % SELDOM == 0 && before / SELDOM % op->containers == op->container)
		write_line(own, &truth_seldom.value);
	read_line(own, &truth_constant.value);
	if (op->number == 0)
		write_line(own, &truth_set_before.value);
	read_line(own, &truth_set_before.value);
}

/*
 * False sharing.  Of the first, a setting is read apart from the count: in a
 * line of its own it would stay.  Of the second, too, nobody writes the
 * setting, but who reads it alone is nobody: all visits use the count.
 */
struct truth_fields {
	u64 count;
	u64 setting;
} ____cacheline_aligned;

static struct truth_fields truth_mended, truth_unmended;

static noinline void truth_false_sharing(const struct truth_own *own)
{
	write_line(own, &truth_mended.count);
	read_line(own, &truth_mended.setting);

	READ_ONCE(truth_unmended.setting);
	write_line(own, &truth_unmended.count);
	read_line(own, &truth_unmended.count);
}

/* Lines next to each other: all write the second; one the third; all read the first. */
struct truth_neighbours {
	struct truth_line before;
	struct truth_line middle;
	struct truth_line after;
};

static struct truth_neighbours truth_neighbours;

static noinline void truth_beside(const struct truth_own *own, const struct truth_operation *op)
{
	read_line(own, &truth_neighbours.before.value);
	write_line(own, &truth_neighbours.middle.value);
	if (!op->container)
		write_line(own, &truth_neighbours.after.value);
}

/* What an operation leaves to a softirq, to a worker and to RCU. */
static struct truth_line truth_softirq, truth_worked, truth_delayed, truth_called_back;
static struct workqueue_struct *truth_workqueue;

/* A lock of both: taken in the system call, and again in its softirq. */
static struct truth_lock truth_put_off;

static __always_inline void truth_in_both(const struct truth_own *own)
{
	spin_lock(&truth_put_off.lock);
	truth_put_off.guarded++;
	spin_unlock(&truth_put_off.lock);
	truth_apart(own);
}

static void truth_tasklet(struct tasklet_struct *tasklet)
{
	struct truth_own *own = from_tasklet(own, tasklet, tasklet);

	write_line(own, &truth_softirq.value);
	truth_in_both(own);
}

static void truth_work(struct work_struct *work)
{
	struct truth_own *own = container_of(work, struct truth_own, work);

	write_line(own, &truth_worked.value);
	write_line(own, &truth_worked.value);
	write_line(own, &own->worked.value);
}

static void truth_delayed_work(struct work_struct *work)
{
	struct truth_own *own = container_of(to_delayed_work(work), struct truth_own, delayed);

	write_line(own, &truth_delayed.value);
	write_line(own, &own->worked.value);
}

static void truth_grace_period_over(struct rcu_head *rcu)
{
	struct truth_callback *callback = container_of(rcu, struct truth_callback, rcu);
	struct truth_own *own = callback->own;

	write_line(own, &truth_called_back.value);
	write_line(own, &own->called_back_for.value);
	WRITE_ONCE(own->called_back, own->called_back + 1);
}

static noinline void truth_deferred(struct truth_own *own, const struct truth_operation *op)
{
	local_bh_disable();
	truth_in_both(own);
	tasklet_schedule(&own->tasklet);
	local_bh_enable();

	/* Whoever sleeps and wakes has the scheduler look at other CPUs. */
	if (op->number % 16 == 0) {
		queue_work_on(raw_smp_processor_id(), truth_workqueue, &own->work);
		flush_work(&own->work);
		mod_delayed_work_on(raw_smp_processor_id(), truth_workqueue, &own->delayed, HZ);
		flush_delayed_work(&own->delayed);
	}

	own->queued++;
	call_rcu(&own->callbacks[op->number].rcu, truth_grace_period_over);
}

/*
 * Locks that are held for a time that is known.  Who sleeps does so on a timer
 * without slack; who is awake runs two instructions in each round.
 */
#define HELD_SHORT 5000 /* microseconds */
#define HELD_LONG 20000
#define HELD_ROUNDS 25000

struct truth_mutex {
	struct mutex lock;
} ____cacheline_aligned;

static struct truth_mutex truth_held_mutex, truth_held_rcu, truth_held_awake;
static struct truth_mutex truth_held_outer, truth_held_inner;
static struct {
	struct rw_semaphore lock;
} ____cacheline_aligned truth_held_rwsem;
static struct {
	struct percpu_rw_semaphore lock;
} ____cacheline_aligned truth_held_percpu;

static void awake(unsigned long rounds)
{
	asm volatile("1: dec %0\n\tjnz 1b" : "+r" (rounds) : : "cc");
}

static noinline void truth_hold_mutex(void)
{
	mutex_lock(&truth_held_mutex.lock);
	usleep_range(HELD_SHORT, HELD_SHORT);
	mutex_unlock(&truth_held_mutex.lock);
}

static noinline void truth_hold_rwsem(void)
{
	down_write(&truth_held_rwsem.lock);
	usleep_range(HELD_LONG, HELD_LONG);
	up_write(&truth_held_rwsem.lock);
}

static noinline void truth_hold_percpu(void)
{
	percpu_down_write(&truth_held_percpu.lock);
	usleep_range(HELD_LONG, HELD_LONG);
	percpu_up_write(&truth_held_percpu.lock);
}

static noinline void truth_hold_rcu(void)
{
	mutex_lock(&truth_held_rcu.lock);
	synchronize_rcu();
	mutex_unlock(&truth_held_rcu.lock);
}

static noinline void truth_hold_awake(void)
{
	mutex_lock(&truth_held_awake.lock);
	awake(HELD_ROUNDS);
	mutex_unlock(&truth_held_awake.lock);
}

/* A worker sleeps with a lock, which who holds another one wants meanwhile. */
static DECLARE_COMPLETION(truth_inner_held);

static void truth_hold_inner(struct work_struct *work)
{
	mutex_lock(&truth_held_inner.lock);
	complete(&truth_inner_held);
	usleep_range(HELD_SHORT, HELD_SHORT);
	mutex_unlock(&truth_held_inner.lock);
}

static DECLARE_WORK(truth_inner_work, truth_hold_inner);

static noinline void truth_hold_both(void)
{
	mutex_lock(&truth_held_outer.lock);
	flush_work(&truth_inner_work);
	reinit_completion(&truth_inner_held);
	queue_work(truth_workqueue, &truth_inner_work);
	wait_for_completion(&truth_inner_held);
	mutex_lock(&truth_held_inner.lock);
	mutex_unlock(&truth_held_inner.lock);
	mutex_unlock(&truth_held_outer.lock);
}

/*
 * Who has this one is asleep and then awake for long, so that all others are asleep
 * for it by then, and have it one after the other.
 */
#define QUEUE_SLEEP 1000 /* microseconds */
#define QUEUE_ROUNDS 500000

static struct truth_mutex truth_held_queue;

static noinline void truth_hold_queue(void)
{
	mutex_lock(&truth_held_queue.lock);
	usleep_range(QUEUE_SLEEP, QUEUE_SLEEP);
	awake(QUEUE_ROUNDS);
	mutex_unlock(&truth_held_queue.lock);
}

/* Half of the containers sleep with this one, in turn; the others run until all have had it. */
static struct truth_mutex truth_held_beside;
static atomic_t truth_had_beside, truth_had_queue;
static DECLARE_WAIT_QUEUE_HEAD(truth_queued);

static noinline void truth_hold_beside(const struct truth_operation *op)
{
	int half = op->containers / 2, all = op->containers * (op->number + 1);

	/* All are done with the lock before, so that the others do run. */
	atomic_inc(&truth_had_queue);
	wake_up_all(&truth_queued);
	if (wait_event_killable(truth_queued, atomic_read(&truth_had_queue) >= all))
		return;
	if (op->container >= half) {
		while (atomic_read(&truth_had_beside) < half * (op->number + 1) &&
		       !fatal_signal_pending(current))
			awake(1000);
		return;
	}
	mutex_lock(&truth_held_beside.lock);
	usleep_range(HELD_SHORT, HELD_SHORT);
	mutex_unlock(&truth_held_beside.lock);
	atomic_inc(&truth_had_beside);
}

/* Each container has two CPUs.  Who has this one goes from one to the other with it. */
static struct truth_mutex truth_held_moved;

static noinline int truth_hold_moved(void)
{
	cpumask_var_t before;
	int other, error;

	if (!zalloc_cpumask_var(&before, GFP_KERNEL))
		return -ENOMEM;
	cpumask_copy(before, current->cpus_ptr);
	mutex_lock(&truth_held_moved.lock);
	usleep_range(HELD_SHORT, HELD_SHORT);
	other = raw_smp_processor_id() ^ 1;
	error = set_cpus_allowed_ptr(current, cpumask_of(other));
	awake(QUEUE_ROUNDS);
	usleep_range(HELD_SHORT, HELD_SHORT);
	if (!error && raw_smp_processor_id() != other)
		error = -EXDEV;
	mutex_unlock(&truth_held_moved.lock);
	set_cpus_allowed_ptr(current, before);
	free_cpumask_var(before);
	return error;
}

/*
 * Locks that are no word of their own: a semaphore's count, and bits beside others, which
 * are set and cleared meanwhile.
 */
struct truth_bits {
	unsigned long bits;
} ____cacheline_aligned;

/* An instruction that lies on two pages is not seen for what it is by QEMU 7.2's plugins. */
#define __within_page __aligned(256)

#define LOCK_BIT 5
#define OTHER_BIT 9

static struct {
	struct semaphore lock;
} ____cacheline_aligned truth_held_semaphore;
static struct truth_bits truth_held_bit, truth_held_spun, truth_held_stored;
static struct truth_bits truth_held_flag, truth_held_tried;
static struct {
	struct hlist_bl_head head;
} ____cacheline_aligned truth_held_bucket;
static struct {
	seqlock_t lock;
} ____cacheline_aligned truth_held_written;

static noinline void truth_hold_semaphore(void)
{
	down(&truth_held_semaphore.lock);
	usleep_range(HELD_SHORT, HELD_SHORT);
	up(&truth_held_semaphore.lock);
}

static __always_inline void other_bit(unsigned long *bits)
{
	set_bit(OTHER_BIT, bits);
	clear_bit(OTHER_BIT, bits);
}

static noinline __within_page void truth_hold_bit(void)
{
	wait_on_bit_lock(&truth_held_bit.bits, LOCK_BIT, TASK_UNINTERRUPTIBLE);
	other_bit(&truth_held_bit.bits);
	usleep_range(HELD_LONG, HELD_LONG);
	clear_bit_unlock(LOCK_BIT, &truth_held_bit.bits);
	smp_mb__after_atomic();
	wake_up_bit(&truth_held_bit.bits, LOCK_BIT);
}

static noinline __within_page void truth_hold_spun(void)
{
	bit_spin_lock(LOCK_BIT, &truth_held_spun.bits);
	other_bit(&truth_held_spun.bits);
	awake(HELD_ROUNDS);
	bit_spin_unlock(LOCK_BIT, &truth_held_spun.bits);
}

/* Given back by what is written to the word, as rht_assign_unlock() does. */
static noinline __within_page void truth_hold_stored(void)
{
	bit_spin_lock(LOCK_BIT, &truth_held_stored.bits);
	WRITE_ONCE(truth_held_stored.bits, BIT(LOCK_BIT) | BIT(OTHER_BIT));
	awake(HELD_ROUNDS);
	WRITE_ONCE(truth_held_stored.bits, 0);
	preempt_enable();
}

static noinline __within_page void truth_hold_bucket(void)
{
	struct hlist_bl_node node;

	INIT_HLIST_BL_NODE(&node);
	hlist_bl_lock(&truth_held_bucket.head);
	hlist_bl_add_head(&node, &truth_held_bucket.head);
	awake(HELD_ROUNDS);
	hlist_bl_del(&node);
	hlist_bl_unlock(&truth_held_bucket.head);
}

/* The spinlock in it is had for as long. */
static noinline void truth_hold_written(void)
{
	write_seqlock(&truth_held_written.lock);
	awake(HELD_ROUNDS);
	write_sequnlock(&truth_held_written.lock);
}

/* No lock: a flag that nobody waits for, and a bit that nobody gets. */
static noinline __within_page void truth_no_lock(void)
{
	if (!test_and_set_bit(LOCK_BIT, &truth_held_flag.bits)) {
		awake(HELD_ROUNDS);
		clear_bit(LOCK_BIT, &truth_held_flag.bits);
	}
	if (!test_and_set_bit_lock(LOCK_BIT, &truth_held_tried.bits))
		clear_bit_unlock(LOCK_BIT, &truth_held_tried.bits);
	awake(HELD_ROUNDS);
	other_bit(&truth_held_tried.bits);
}

/*
 * Mutexes that are held while their holder waits for what is no timer's, and a rwsem that those
 * who sleep with it share.
 */
static struct truth_mutex truth_held_barrier, truth_held_flushed, truth_held_device;
static struct truth_mutex truth_held_stopped;
static struct {
	struct rw_semaphore lock;
} ____cacheline_aligned truth_held_shared;

static void truth_nothing(struct rcu_head *head)
{
}

/* Where there is no callback it waits for none. */
static noinline void truth_hold_barrier(void)
{
	static struct rcu_head head;

	mutex_lock(&truth_held_barrier.lock);
	call_rcu(&head, truth_nothing);
	rcu_barrier();
	mutex_unlock(&truth_held_barrier.lock);
}

static void truth_sleep(struct work_struct *work)
{
	usleep_range(HELD_SHORT, HELD_SHORT);
}

static DECLARE_WORK(truth_sleeps, truth_sleep);

static noinline void truth_hold_flushed(void)
{
	mutex_lock(&truth_held_flushed.lock);
	queue_work(truth_workqueue, &truth_sleeps);
	flush_workqueue(truth_workqueue);
	mutex_unlock(&truth_held_flushed.lock);
}

/* As who waits for a disk does: until a tick, the last one of so many. */
static noinline void truth_hold_device(void)
{
	mutex_lock(&truth_held_device.lock);
	set_current_state(TASK_UNINTERRUPTIBLE);
	io_schedule_timeout(usecs_to_jiffies(HELD_LONG));
	mutex_unlock(&truth_held_device.lock);
}

static int truth_no_more(void *unused)
{
	return 0;
}

static noinline void truth_hold_stopped(void)
{
	mutex_lock(&truth_held_stopped.lock);
	stop_machine(truth_no_more, NULL, NULL);
	mutex_unlock(&truth_held_stopped.lock);
}

static noinline void truth_hold_shared(void)
{
	down_read(&truth_held_shared.lock);
	usleep_range(HELD_LONG, HELD_LONG);
	up_read(&truth_held_shared.lock);
}

#define TRUTH_OPERATION _IO(0xb7, 1)
#define TRUTH_SETTLE _IO(0xb7, 2)
/* As the emulator has it: a container's window may be over before the next one's. */
#define TRUTH_WITHOUT_TURNS _IO(0xb7, 3)
/* Of two CPUs a container. */
#define TRUTH_IN_PAIRS _IO(0xb7, 4)
/* Nothing but locks that are held for long. */
#define TRUTH_HELD _IO(0xb7, 5)
/* The same beside others that run, or want them as well. */
#define TRUTH_HELD_BUSILY _IO(0xb7, 6)
/* The same by who changes the CPU meanwhile. */
#define TRUTH_HELD_MOVED _IO(0xb7, 7)
/* Locks that are a bit, or a count. */
#define TRUTH_HELD_OTHERWISE _IO(0xb7, 8)
/* By who waits for something else than time. */
#define TRUTH_HELD_WAITING _IO(0xb7, 9)

static long truth_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct truth_operation op = {
		.container = argument & 0xff,
		.containers = argument >> 8 & 0xff,
		.number = argument >> 16,
		.turns = command != TRUTH_WITHOUT_TURNS,
		.pairs = command == TRUTH_IN_PAIRS,
	};
	struct truth_own *own;

	if (op.container >= op.containers || op.containers > CONTAINERS ||
	    op.number >= OPERATIONS)
		return -EINVAL;
	own = truth_own[op.container];
	if (command == TRUTH_SETTLE) {
		while (READ_ONCE(own->called_back) != own->queued)
			schedule_timeout_uninterruptible(1);
		return 0;
	}
	if (command == TRUTH_HELD) {
		truth_hold_mutex();
		truth_hold_rwsem();
		truth_hold_percpu();
		truth_hold_rcu();
		truth_hold_awake();
		truth_hold_both();
		return 0;
	}
	if (command == TRUTH_HELD_BUSILY) {
		truth_hold_queue();
		truth_hold_beside(&op);
		return 0;
	}
	if (command == TRUTH_HELD_OTHERWISE) {
		truth_hold_semaphore();
		truth_hold_bit();
		truth_hold_spun();
		truth_hold_stored();
		truth_hold_bucket();
		truth_hold_written();
		truth_no_lock();
		return 0;
	}
	if (command == TRUTH_HELD_WAITING) {
		truth_hold_barrier();
		truth_hold_flushed();
		truth_hold_device();
		truth_hold_stopped();
		truth_hold_shared();
		return 0;
	}
	if (command == TRUTH_HELD_MOVED)
		return truth_hold_moved();
	if (command != TRUTH_OPERATION && command != TRUTH_WITHOUT_TURNS && !op.pairs)
		return -ENOTTY;
	truth_all(own);
	truth_allocated(own);
	truth_some(own, &op);
	truth_locks(own, &op);
	truth_retry(own, &op);
	truth_handed_over(own, &op);
	if (op.pairs)
		truth_passed_on(own, &op);
	truth_alone(own, &op);
	truth_hashed(own, &op);
	truth_read_mostly(own, &op);
	truth_false_sharing(own);
	truth_one_hold(own);
	truth_beside(own, &op);
	truth_deferred(own, &op);
	if (op.turns && op.number % 8 == 0)
		other_cpus_turn();
	return 0;
}

/*
 * The kernel counts the users of a file in a word that all share, unless the
 * file stays for ever.  So does this one, but the flag's name is 0 in a module.
 */
#define PERMANENT BIT(0)

static const struct proc_ops truth_ops = {
	.proc_flags = PERMANENT,
	.proc_ioctl = truth_ioctl,
	.proc_lseek = noop_llseek,
};

static int __init truth_init(void)
{
	unsigned int n, m;

	for (n = 0; n < FEW; n++)
		spin_lock_init(&truth_few[n].lock);
	for (n = 0; n < MANY; n++)
		spin_lock_init(&truth_many[n].lock);
	spin_lock_init(&truth_most.lock);
	spin_lock_init(&truth_tried.lock);
	spin_lock_init(&truth_writers.lock);
	spin_lock_init(&truth_guard.lock);
	spin_lock_init(&truth_busy.lock);
	spin_lock_init(&truth_put_off.lock);
	spin_lock(&truth_busy.lock);
	preempt_enable();

	mutex_init(&truth_held_mutex.lock);
	mutex_init(&truth_held_rcu.lock);
	mutex_init(&truth_held_awake.lock);
	mutex_init(&truth_held_outer.lock);
	mutex_init(&truth_held_inner.lock);
	mutex_init(&truth_held_queue.lock);
	mutex_init(&truth_held_beside.lock);
	mutex_init(&truth_held_moved.lock);
	mutex_init(&truth_held_barrier.lock);
	mutex_init(&truth_held_flushed.lock);
	mutex_init(&truth_held_device.lock);
	mutex_init(&truth_held_stopped.lock);
	init_rwsem(&truth_held_rwsem.lock);
	init_rwsem(&truth_held_shared.lock);
	sema_init(&truth_held_semaphore.lock, 1);
	seqlock_init(&truth_held_written.lock);
	set_bit(LOCK_BIT, &truth_held_tried.bits);
	if (percpu_init_rwsem(&truth_held_percpu.lock))
		return -ENOMEM;

	truth_workqueue = alloc_workqueue("truth", 0, 0);
	truth_object = kzalloc(sizeof(*truth_object), GFP_KERNEL);
	if (!truth_workqueue || !truth_object)
		return -ENOMEM;
	for (n = 0; n < CONTAINERS; n++) {
		struct truth_own *own = kzalloc(sizeof(*own), GFP_KERNEL);

		if (!own)
			return -ENOMEM;
		own->callbacks = kvcalloc(OPERATIONS, sizeof(*own->callbacks), GFP_KERNEL);
		if (!own->callbacks)
			return -ENOMEM;
		for (m = 0; m < OPERATIONS; m++)
			own->callbacks[m].own = own;
		for (m = 0; m < OPERATIONS / 16; m++) {
			truth_parcels[m][n] = kzalloc(sizeof(struct truth_parcel), GFP_KERNEL);
			if (!truth_parcels[m][n])
				return -ENOMEM;
		}
		truth_passed[n / 2] = kzalloc(sizeof(struct truth_passed), GFP_KERNEL);
		if (!truth_passed[n / 2])
			return -ENOMEM;
		tasklet_setup(&own->tasklet, truth_tasklet);
		INIT_WORK(&own->work, truth_work);
		INIT_DELAYED_WORK(&own->delayed, truth_delayed_work);
		truth_own[n] = own;
	}
	if (!proc_create("partywall-truth", 0444, NULL, &truth_ops))
		return -ENOMEM;
	return 0;
}
module_init(truth_init);

MODULE_DESCRIPTION("Memory whose sharing is known by construction");
MODULE_LICENSE("GPL");
