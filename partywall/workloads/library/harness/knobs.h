/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits that can be raised, and are as they were afterwards. */
#ifndef KNOBS_H
#define KNOBS_H

/* Finds all below /proc/sys that are whole numbers and by their name may be limits. */
void knobs_find(void);

/* And limits of a container's processes, all of which have the same. */
void knobs_find_limits(unsigned int container);

unsigned int knobs_count(void);

/* Its name, such as fs.file-max, and what it was. */
const char *knobs_name(unsigned int knob);
const char *knobs_value(unsigned int knob);

/* Those from `from` to `to` - 1: to twice as much. What can't be is left as it is. */
void knobs_raise(unsigned int from, unsigned int to);

/* Sets them as they were; returns the name of one that is not, or NULL. */
const char *knobs_restore(unsigned int from, unsigned int to);

#endif
