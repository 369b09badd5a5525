// SPDX-License-Identifier: GPL-2.0-only
/*
 * Things of which there are so many, because this module says so.
 *
 * An ioctl() of /proc/partywall-capped takes one of a kind, until the file is closed.
 */
#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/slab.h>
#include <linux/sysctl.h>

enum {
	KNOB,	/* so many of all, as a sysctl says */
	HARD,	/* so many of all */
	TWO,	/* so many of all as the smaller of two sysctls says */
	STAYS,	/* so many of all, which are not given back */
	OWN,	/* so many of each open file */
	FREE,	/* as many as anybody wants */
	KINDS
};

static unsigned int capped_max = 1000, capped_first_max = 200, capped_second_max = 200;
static atomic_t taken[KINDS];

struct capped_own {
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
		return 10;
	}
	return INT_MAX;
}

static int capped_open(struct inode *inode, struct file *file)
{
	file->private_data = kzalloc(sizeof(struct capped_own), GFP_KERNEL);
	return file->private_data ? 0 : -ENOMEM;
}

static long capped_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct capped_own *own = file->private_data;
	unsigned int kind = _IOC_NR(command);
	atomic_t *count;

	if (kind >= KINDS)
		return -EINVAL;
	count = kind == OWN ? &own->taken[OWN] : &taken[kind];
	if (atomic_inc_return(count) > limit_of(kind)) {
		atomic_dec(count);
		return kind == HARD ? -EUSERS : -ENOSPC;
	}
	if (kind != OWN)
		atomic_inc(&own->taken[kind]);
	return 0;
}

static int capped_release(struct inode *inode, struct file *file)
{
	struct capped_own *own = file->private_data;
	int kind;

	for (kind = 0; kind < KINDS; kind++)
		if (kind != STAYS && kind != OWN)
			atomic_sub(atomic_read(&own->taken[kind]), &taken[kind]);
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
