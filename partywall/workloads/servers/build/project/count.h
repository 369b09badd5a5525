/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts how often each word is in a text. */
#ifndef COUNT_H
#define COUNT_H

#define LONGEST 64

struct word {
	char text[LONGEST];
	unsigned long times;
	struct word *next;
};

/* Takes one more of a word down. 0 if there is no memory left. */
int table_add(const char *text);

/* Calls a function for each word that was taken down. */
void table_each(void (*call)(const struct word *word));

/* Reads the next word of the input. 0 at its end. */
int words_next(char *text);

#endif
