// SPDX-License-Identifier: GPL-2.0-only
/*
 * Credits the guest's random number generator with a fixed seed. A machine
 * that has run for a minute has a seeded one; a guest without a source of
 * randomness would otherwise mix its input pool at every use, which no real
 * machine does. The guest keeps no secrets, and must be the same every time.
 */
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <sys/ioctl.h>

int main(void)
{
	struct {
		struct rand_pool_info info;
		char seed[64];
	} pool = { .info = { .entropy_count = 512, .buf_size = 64 } };
	int fd = open("/dev/urandom", O_WRONLY);

	if (fd < 0 || ioctl(fd, RNDADDENTROPY, &pool)) {
		perror("seeding /dev/urandom");
		return 1;
	}
	return 0;
}
