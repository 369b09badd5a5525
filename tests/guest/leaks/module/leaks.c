// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory that stays, or does not, because this module makes it so.
 *
 * One operation is an ioctl() of /proc/partywall-leaks, with its number. It goes
 * through all cases, each with a slab cache or a kind of memory of its own.
 */
#include <linux/fs.h>
#include <linux/fs_struct.h>
#include <linux/gfp.h>
#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/mutex.h>
#include <linux/nsproxy.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

/* What warms up makes so many, and no more. */
#define WARM 100
/* Each of a ring takes the place of an older one. */
#define RING 64
/* The same of so many that most of a step's are still there after the next one. */
#define POOL 600
/* One operation in so many leaves as many objects behind as its number says, or none. */
#define SELDOM 7

struct leak {
	struct list_head list;
	struct rcu_head rcu;
	u64 data[10];
};

/* Of an open file. */
struct leaks_own {
	struct mutex lock;
	struct list_head until_exit;
	struct list_head charged;
	struct leak *ring[RING];
	struct leak *pool[POOL];
	unsigned int warm;
	unsigned int next;
};

enum {
	FOREVER, HALF, EXIT, CHARGED, RECLAIMED, RINGED, WARMED, FREED, LATER, DRAINED, MIXED,
	UNEVEN, OTHERS, MOUNTED, ENDED, PAID, CACHES
};

static const char *const names[CACHES] = {
	[FOREVER] = "leak_forever",	/* one an operation, which nothing takes back */
	[HALF] = "leak_half",		/* one in two operations */
	[EXIT] = "leak_exit",		/* until the file is closed */
	[CHARGED] = "leak_charged",	/* the same, charged to who made it */
	[RECLAIMED] = "leak_reclaimed",	/* until memory is short */
	[RINGED] = "leak_ring",		/* the last RING of each file */
	[WARMED] = "leak_warm",		/* the first WARM of each file */
	[FREED] = "leak_freed",		/* none is left */
	[LATER] = "leak_later",		/* nor of these, once RCU has come to it */
	[DRAINED] = "leak_drained",	/* nor of these, which kfree_rcu() has for a while */
	[MIXED] = "leak_mixed",		/* a pool of POOL for each file; one in two stays */
	[UNEVEN] = "leak_uneven",	/* 0 to 31 in one of SELDOM operations, as if by chance */
	[OTHERS] = "leak_others",	/* one an operation, charged to who has the next CPU */
	[MOUNTED] = "leak_mounted",	/* until the file system of its maker's root is unmounted */
	[ENDED] = "leak_ended",		/* until its maker's network namespace ends */
	[PAID] = "leak_paid",		/* until memory is short, charged to who made it */
};

static struct kmem_cache *caches[CACHES];
static LIST_HEAD(leaks_forever);
static LIST_HEAD(leaks_reclaimed);
static LIST_HEAD(leaks_mounted);
static LIST_HEAD(leaks_ended);
static LIST_HEAD(leaks_paid);
static unsigned long leaks_count;
static DEFINE_SPINLOCK(leaks_lock);
/* A counter of the machine, in a module: how many are there until files are closed. */
static atomic_t leaks_until_exit;

static struct leak *leaks_make(int which, gfp_t more)
{
	struct leak *one = kmem_cache_alloc(caches[which], GFP_KERNEL | more);

	if (one)
		INIT_LIST_HEAD(&one->list);
	return one;
}

static void leaks_keep(struct leak *one, struct list_head *list)
{
	spin_lock(&leaks_lock);
	list_add(&one->list, list);
	leaks_count += list == &leaks_reclaimed || list == &leaks_paid;
	spin_unlock(&leaks_lock);
}

/* Who made an object is told by the stack: each has one of its own. */
static noinline bool leaks_pool(struct leaks_own *own)
{
	struct leak **place = &own->pool[own->next % POOL];

	if (*place)
		kmem_cache_free(caches[MIXED], *place);
	*place = leaks_make(MIXED, 0);
	return *place;
}

static noinline bool leaks_one_in_two(unsigned long number)
{
	struct leak *one = number % 2 ? NULL : leaks_make(MIXED, 0);

	if (one)
		leaks_keep(one, &leaks_forever);
	return one || number % 2;
}

static noinline bool leaks_unevenly(unsigned long number)
{
	unsigned int count = number % SELDOM ? 0 : (u32)(number / SELDOM * 374761393UL) >> 27;
	struct leak *one;

	while (count--) {
		one = leaks_make(UNEVEN, 0);
		if (!one)
			return false;
		leaks_keep(one, &leaks_forever);
	}
	return true;
}

static void leaks_free_later(struct rcu_head *rcu)
{
	kmem_cache_free(caches[LATER], container_of(rcu, struct leak, rcu));
}

/* Of who runs on each CPU, once he was here. */
static struct mem_cgroup *leaks_memcgs[NR_CPUS];

static noinline bool leaks_for_another(void)
{
	unsigned int cpu = raw_smp_processor_id();
	struct mem_cgroup *payer, *before;
	struct leak *one;

	if (!leaks_memcgs[cpu])
		leaks_memcgs[cpu] = get_mem_cgroup_from_mm(current->mm);
	payer = leaks_memcgs[(cpu + 1) % num_online_cpus()];
	before = set_active_memcg(payer ?: leaks_memcgs[cpu]);
	one = leaks_make(OTHERS, __GFP_ACCOUNT);
	set_active_memcg(before);
	if (one)
		leaks_keep(one, &leaks_forever);
	return one;
}

static bool leaks_operation(struct leaks_own *own, unsigned long number)
{
	struct leak *made[CACHES] = { };
	struct page *page = alloc_page(GFP_KERNEL);
	struct page *charged = alloc_page(GFP_KERNEL_ACCOUNT);
	struct page *together = alloc_pages(GFP_KERNEL | __GFP_COMP, 2);
	void __percpu *everywhere = __alloc_percpu(48, 16);
	void __percpu *paid = __alloc_percpu_gfp(80, 16, GFP_KERNEL_ACCOUNT);
	int n;

	for (n = 0; n < CACHES; n++) {
		if ((n == HALF && number % 2) || (n == WARMED && own->warm >= WARM) ||
		    n == MIXED || n == UNEVEN || n == OTHERS)
			continue;
		made[n] = leaks_make(n, n == CHARGED || n == PAID ? __GFP_ACCOUNT : 0);
		if (!made[n])
			return false;
	}
	if (!page || !charged || !together || !everywhere || !paid)
		return false;
	leaks_keep(made[FOREVER], &leaks_forever);
	if (made[HALF])
		leaks_keep(made[HALF], &leaks_forever);
	leaks_keep(made[RECLAIMED], &leaks_reclaimed);
	made[MOUNTED]->data[0] = (u64)current->fs->root.mnt->mnt_sb;
	leaks_keep(made[MOUNTED], &leaks_mounted);
	made[ENDED]->data[0] = (u64)current->nsproxy->net_ns;
	leaks_keep(made[ENDED], &leaks_ended);
	leaks_keep(made[PAID], &leaks_paid);
	list_add(&made[EXIT]->list, &own->until_exit);
	atomic_inc(&leaks_until_exit);
	list_add(&made[CHARGED]->list, &own->charged);
	if (!leaks_pool(own) || !leaks_one_in_two(number) || !leaks_unevenly(number) ||
	    !leaks_for_another())
		return false;
	if (own->ring[own->next % RING])
		kmem_cache_free(caches[RINGED], own->ring[own->next % RING]);
	own->ring[own->next++ % RING] = made[RINGED];
	own->warm += !!made[WARMED];
	kmem_cache_free(caches[FREED], made[FREED]);
	call_rcu(&made[LATER]->rcu, leaks_free_later);
	kfree_rcu(made[DRAINED], rcu);
	return true;
}

static long leaks_ioctl(struct file *file, unsigned int command, unsigned long number)
{
	struct leaks_own *own = file->private_data;
	bool made;

	mutex_lock(&own->lock);
	made = leaks_operation(own, number);
	mutex_unlock(&own->lock);
	return made ? 0 : -ENOMEM;
}

static int leaks_open(struct inode *inode, struct file *file)
{
	struct leaks_own *own = kvzalloc(sizeof(*own), GFP_KERNEL);

	if (!own)
		return -ENOMEM;
	mutex_init(&own->lock);
	INIT_LIST_HEAD(&own->until_exit);
	INIT_LIST_HEAD(&own->charged);
	file->private_data = own;
	return 0;
}

static void leaks_drop(int which, struct list_head *list)
{
	struct leak *one, *next;

	list_for_each_entry_safe(one, next, list, list) {
		kmem_cache_free(caches[which], one);
		if (which == EXIT)
			atomic_dec(&leaks_until_exit);
	}
}

static int leaks_release(struct inode *inode, struct file *file)
{
	struct leaks_own *own = file->private_data;
	int n;

	leaks_drop(EXIT, &own->until_exit);
	leaks_drop(CHARGED, &own->charged);
	for (n = 0; n < RING; n++)
		if (own->ring[n])
			kmem_cache_free(caches[RINGED], own->ring[n]);
	for (n = 0; n < POOL; n++)
		if (own->pool[n])
			kmem_cache_free(caches[MIXED], own->pool[n]);
	kvfree(own);
	return 0;
}

static unsigned long leaks_shrinkable(struct shrinker *shrinker, struct shrink_control *control)
{
	return READ_ONCE(leaks_count);
}

static unsigned long leaks_shrink(struct shrinker *shrinker, struct shrink_control *control)
{
	LIST_HEAD(gone);
	LIST_HEAD(paid);
	unsigned long count;

	spin_lock(&leaks_lock);
	list_splice_init(&leaks_reclaimed, &gone);
	list_splice_init(&leaks_paid, &paid);
	count = leaks_count;
	leaks_count = 0;
	spin_unlock(&leaks_lock);
	leaks_drop(RECLAIMED, &gone);
	leaks_drop(PAID, &paid);
	return count;
}

/* What is there as long as another thing is goes. */
static void leaks_go_with(int which, struct list_head *list, u64 owner)
{
	struct leak *one, *next;

	spin_lock(&leaks_lock);
	list_for_each_entry_safe(one, next, list, list) {
		if (one->data[0] != owner)
			continue;
		list_del(&one->list);
		kmem_cache_free(caches[which], one);
	}
	spin_unlock(&leaks_lock);
}

/* Nobody is told when a file system goes. */
static int leaks_unmounted(struct kprobe *probe, struct pt_regs *regs)
{
	leaks_go_with(MOUNTED, &leaks_mounted, regs->di);
	return 0;
}

static void leaks_net_ended(struct net *net)
{
	leaks_go_with(ENDED, &leaks_ended, (u64)net);
}

static struct pernet_operations leaks_net = {
	.exit = leaks_net_ended,
};

static struct kprobe leaks_unmounts = {
	.symbol_name = "generic_shutdown_super",
	.pre_handler = leaks_unmounted,
};

static const struct proc_ops leaks_ops = {
	.proc_open = leaks_open,
	.proc_release = leaks_release,
	.proc_ioctl = leaks_ioctl,
	.proc_lseek = noop_llseek,
};

static int __init leaks_init(void)
{
	struct shrinker *shrinker = shrinker_alloc(0, "leaks");
	int n;

	if (!shrinker)
		return -ENOMEM;
	for (n = 0; n < CACHES; n++) {
		caches[n] = kmem_cache_create(names[n], sizeof(struct leak), 0, 0, NULL);
		if (!caches[n])
			return -ENOMEM;
	}
	shrinker->count_objects = leaks_shrinkable;
	shrinker->scan_objects = leaks_shrink;
	shrinker_register(shrinker);
	n = register_kprobe(&leaks_unmounts);
	if (n)
		return n;
	n = register_pernet_subsys(&leaks_net);
	if (n)
		return n;
	if (!proc_create("partywall-leaks", 0444, NULL, &leaks_ops))
		return -ENOMEM;
	return 0;
}
module_init(leaks_init);

MODULE_DESCRIPTION("Memory of which is known what becomes of it");
MODULE_LICENSE("GPL");
