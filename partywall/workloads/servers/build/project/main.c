// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>

#include "count.h"

static void show(const struct word *word)
{
	printf("%lu %s\n", word->times, word->text);
}

int main(void)
{
	char text[LONGEST];

	while (words_next(text)) {
		if (!table_add(text)) {
			perror("count");
			return 1;
		}
	}
	table_each(show);
	return 0;
}
