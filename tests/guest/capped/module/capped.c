// SPDX-License-Identifier: GPL-2.0-only
/*
 * Things of which there are so many, because this module says so.
 *
 * An ioctl() of /proc/partywall-capped takes one of a kind, until the file is closed.
 */
#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/nsproxy.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sysctl.h>

enum {
	KNOB,	/* so many of all, as a sysctl says */
	HARD,	/* so many of all */
	TWO,	/* so many of all as the smaller of two sysctls says */
	STAYS,	/* so many of all, which are not given back */
	OWN,	/* so many of each container */
	FREE,	/* as many as anybody wants */
	PROCESS,/* so many of each open file */
	PASSES,	/* so many of all, but for a while alone */
	KINDS
};

static unsigned int capped_max = 1000, capped_first_max = 200, capped_second_max = 200;
static atomic_t taken[KINDS];

/* Of a container, by a namespace of its own. */
#define CONTAINERS 8
static struct {
	const void *who;
	atomic_t taken;
} containers[CONTAINERS];
static DEFINE_MUTEX(containers_lock);
static unsigned long short_since;

struct capped_own {
	/* Who closes it may have no namespaces any more. */
	atomic_t *of_container;
	atomic_t taken[KINDS];
};

static unsigned int limit_of(unsigned int kind)
{
	switch (kind) {
	case KNOB:
		return READ_ONCE(capped_max);
	case HARD:
		return 500;
	case TWO:
		return min(READ_ONCE(capped_first_max), READ_ONCE(capped_second_max));
	case STAYS:
		return 300;
	case OWN:
		return 400;
	case PROCESS:
		return 10;
	case PASSES:
		if (!short_since || time_before(jiffies, short_since + 5 * HZ))
			return 600;
	}
	return INT_MAX;
}

static atomic_t *count_of_container(void)
{
	const void *who = current->nsproxy->uts_ns;
	atomic_t *count = NULL;
	int n;

	mutex_lock(&containers_lock);
	for (n = 0; n < CONTAINERS && !count; n++) {
		if (!containers[n].who)
			containers[n].who = who;
		if (containers[n].who == who)
			count = &containers[n].taken;
	}
	mutex_unlock(&containers_lock);
	return count;
}

static atomic_t *count_of(unsigned int kind, struct capped_own *own)
{
	switch (kind) {
	case OWN:
		return own->of_container;
	case PROCESS:
		return &own->taken[kind];
	}
	return &taken[kind];
}

static int capped_open(struct inode *inode, struct file *file)
{
	struct capped_own *own = kzalloc(sizeof(*own), GFP_KERNEL);

	if (!own)
		return -ENOMEM;
	own->of_container = count_of_container();
	if (!own->of_container) {
		kfree(own);
		return -EUSERS;
	}
	file->private_data = own;
	return 0;
}

static long capped_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct capped_own *own = file->private_data;
	unsigned int kind = _IOC_NR(command);
	atomic_t *count;

	if (kind >= KINDS)
		return -EINVAL;
	count = count_of(kind, own);
	if (atomic_inc_return(count) > limit_of(kind)) {
		atomic_dec(count);
		if (kind == PASSES && !short_since)
			short_since = jiffies;
		return kind == HARD ? -EUSERS : -ENOSPC;
	}
	if (kind != PROCESS)
		atomic_inc(&own->taken[kind]);
	return 0;
}

static int capped_release(struct inode *inode, struct file *file)
{
	struct capped_own *own = file->private_data;
	int kind;

	for (kind = 0; kind < KINDS; kind++)
		if (kind != STAYS && kind != PROCESS)
			atomic_sub(atomic_read(&own->taken[kind]), count_of(kind, own));
	kfree(own);
	return 0;
}

static const struct proc_ops capped_ops = {
	.proc_open = capped_open,
	.proc_release = capped_release,
	.proc_ioctl = capped_ioctl,
	.proc_lseek = noop_llseek,
};

#define NUMBER(text, variable)				\
	{						\
		.procname = text,			\
		.data = &variable,			\
		.maxlen = sizeof(variable),		\
		.mode = 0644,				\
		.proc_handler = proc_douintvec,		\
	}

static struct ctl_table capped_table[] = {
	NUMBER("capped_max", capped_max),
	NUMBER("capped_first_max", capped_first_max),
	NUMBER("capped_second_max", capped_second_max),
};

static int __init capped_init(void)
{
	if (!register_sysctl("kernel", capped_table))
		return -ENOMEM;
	if (!proc_create("partywall-capped", 0444, NULL, &capped_ops))
		return -ENOMEM;
	return 0;
}
module_init(capped_init);

MODULE_DESCRIPTION("Things of which it is known how many there are");
MODULE_LICENSE("GPL");
