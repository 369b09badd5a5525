# SPDX-License-Identifier: GPL-2.0-or-later
"""The barrier of a round, by programs that are run here: who failed is said, whoever is killed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from partywall import workloads
from partywall.workloads.programs import COMPILER

HARNESS = workloads.DIRECTORY / "harness"

# Who fails first never gets through with its reason; the other one ends it as soon as it
# sees that the round failed, or fails itself after a while.
KILLED = r"""
// SPDX-License-Identifier: GPL-2.0-or-later
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "barrier.h"

static int slow;

char *strncpy(char *to, const char *from, size_t size)
{
	while (slow)
		pause();
	return memcpy(to, from, strlen(from) < size ? strlen(from) + 1 : size);
}

int main(int argc, char **argv)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	struct barrier *b = barrier_map(argv[argc - 1], 1);
	pid_t first = fork();

	if (!first) {
		slow = 1;
		barrier_fail(b, "the first");
		_exit(0);
	}
	for (int n = 0; n < 200 && !b->failed; n++)
		nanosleep(&moment, NULL);
	kill(first, SIGKILL);
	waitpid(first, NULL, 0);
	barrier_fail(b, "the second");
	puts(barrier_why(b));
	return gate_wait(b, &b->start, 2);
}
"""

SEVERAL = r"""
// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include "barrier.h"

int main(int argc, char **argv)
{
	struct barrier *b = barrier_map(argv[argc - 1], 1);
	char why[300] = "";

	puts(barrier_why(b));
	for (int n = 0; n < 40; n++) {
		snprintf(why, sizeof(why), "number %d %0250d", n, 0);
		barrier_fail(b, why);
	}
	puts(barrier_why(b));
	return gate_wait(b, &b->end, 2);
}
"""


def printed(folder: Path, text: str) -> str:
    """What a program prints that is linked with the barrier; it ends well."""
    source, program, file = folder / "some.c", folder / "program", folder / "barrier"
    source.write_text(text)
    file.write_bytes(bytes(2 * 4096))
    sources = [source, HARNESS / "barrier.c", HARNESS / "spread.c"]
    # What the compiler makes of strncpy() itself, nobody can stand in for.
    flags = ["-fno-builtin", f"-I{HARNESS}"]
    subprocess.run([*COMPILER, *flags, "-o", program, *sources], check=True)
    done = subprocess.run([program, file], capture_output=True, text=True, check=True, timeout=60)
    assert file.read_bytes()[:4096] == bytes(4096)
    return done.stdout


def test_a_reason_is_there_when_the_round_is_seen_to_have_failed(tmp_path: Path) -> None:
    assert printed(tmp_path, KILLED) == "the second\n"


def test_the_first_reason_is_kept_and_cut(tmp_path: Path) -> None:
    before, after = printed(tmp_path, SEVERAL).splitlines()
    assert before == "nobody could say why"
    assert after == f"number 0 {'0' * 250}"[:123]
