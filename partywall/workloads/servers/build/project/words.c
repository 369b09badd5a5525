// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <stdio.h>

#include "count.h"

int words_next(char *text)
{
	int length = 0, letter;

	while ((letter = getchar()) != EOF) {
		if (isalnum(letter)) {
			if (length < LONGEST - 1)
				text[length++] = (char)tolower(letter);
		} else if (length) {
			break;
		}
	}
	text[length] = '\0';
	return length;
}
