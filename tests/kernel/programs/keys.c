// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fills a keyring with keys, drops it with them, and says what stays charged: as it is,
 * cleared before, and given to another user before.
 *
 *	keys COUNT
 *
 * Prints a line for each way to drop it: what root has of its quota of bytes more than
 * before. A keyring goes a while after its last user.
 */
#include <linux/keyctl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include "common.h"

static void charged(long *keys, long *bytes)
{
	FILE *users = fopen("/proc/key-users", "r");
	char line[256];
	int found = 0;

	must(users != NULL, "/proc/key-users");
	while (fgets(line, sizeof(line), users))
		if (sscanf(line, " 0: %*d %*d/%*d %ld/%*d %ld/%*d", keys, bytes) == 2)
			found = 1;
	fclose(users);
	must(found, "root in /proc/key-users");
}

static void fill(long ring, int count)
{
	char name[32];
	int n;

	for (n = 0; n < count; n++) {
		snprintf(name, sizeof(name), "%d", n);
		must(syscall(SYS_add_key, "user", name, "", 1, ring) >= 0, "add_key");
	}
}

enum way { DROPPED, CLEARED, GIVEN };

static void drop(int count, enum way way)
{
	long ring = syscall(SYS_add_key, "keyring", "many", NULL, 0,
			    KEY_SPEC_PROCESS_KEYRING);

	must(ring >= 0, "a keyring");
	fill(ring, count);
	if (way == CLEARED)
		must(!syscall(SYS_keyctl, KEYCTL_CLEAR, ring), "clear");
	/* A user who may have 20,000 bytes. */
	if (way == GIVEN)
		must(!syscall(SYS_keyctl, KEYCTL_CHOWN, ring, 1, -1) || errno == EDQUOT,
		     "another owner");
	_exit(0);
}

static void left(const char *name, int count, enum way way)
{
	long before_keys, before_bytes, keys, bytes;
	int tries;

	charged(&before_keys, &before_bytes);
	fflush(stdout);
	if (!fork())
		drop(count, way);
	must(all_ended(), "filling a keyring");
	charged(&keys, &bytes);
	for (tries = 0; keys > before_keys && tries < 6000; tries++) {
		usleep(10000);
		charged(&keys, &bytes);
	}
	must(keys == before_keys, "the keys to go");
	/* The two numbers were not read at one time. */
	charged(&keys, &bytes);
	printf("%s: %ld bytes\n", name, bytes - before_bytes);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 0;

	must(count > 0, "COUNT");
	left("dropped", count, DROPPED);
	left("cleared", count, CLEARED);
	left("given", count, GIVEN);
	return 0;
}
