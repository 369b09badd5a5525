// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>
#include <string.h>

#include "count.h"

#define BUCKETS 1024

static struct word *buckets[BUCKETS];

static unsigned int bucket_of(const char *text)
{
	unsigned int sum = 5381;

	while (*text)
		sum = sum * 33 + (unsigned char)*text++;
	return sum % BUCKETS;
}

int table_add(const char *text)
{
	struct word **at = &buckets[bucket_of(text)], *word;

	for (word = *at; word; word = word->next) {
		if (!strcmp(word->text, text)) {
			word->times++;
			return 1;
		}
	}
	word = calloc(1, sizeof(*word));
	if (!word)
		return 0;
	strncpy(word->text, text, LONGEST - 1);
	word->times = 1;
	word->next = *at;
	*at = word;
	return 1;
}

void table_each(void (*call)(const struct word *word))
{
	for (unsigned int n = 0; n < BUCKETS; n++)
		for (const struct word *word = buckets[n]; word; word = word->next)
			call(word);
}
