# SPDX-License-Identifier: GPL-2.0-or-later
"""Operations that change their container leave it as it was to those after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from partywall import workloads
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import qemu
from partywall.guest.sitting import Round
from partywall.kernels import Kernel
from partywall.measure import sitting
from partywall.measure.plan import Plan
from partywall.measure.sitting import Sitting
from partywall.record.plugin import recorder
from partywall.results.result import WorkloadResult
from partywall.workloads import Workload

ROOM = 1024

# Ends its round if the container is not as a new one is.
LOOKS = r"""
// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "harness.h"

static void same(const char *path, const char *text)
{
	char found[512] = "";
	FILE *file = fopen(path, "r");

	if (!file)
		fail(path);
	(void)!fread(found, 1, sizeof(found) - 1, file);
	fclose(file);
	errno = EEXIST;
	if (strcmp(found, text))
		fail(path);
}

static void prepare(const struct run *run)
{
	struct stat st;

	(void)run;
	same("/proc/1/cgroup", "0::/\n");
	same("/proc/self/cgroup", "0::/\n");
	same("/sys/fs/cgroup/cgroup.subtree_control", "");
	errno = EEXIST;
	if (stat("/sys/fs/cgroup", &st) || st.st_nlink != 2)
		fail("cgroups");
	/* The first is loopback. */
	if (if_nametoindex("docker0") || if_nametoindex("eth0"))
		fail("network devices");
}

static void operation(const struct run *run, unsigned long n)
{
	(void)run;
	(void)n;
	getppid();
}

const struct workload workload = { .prepare = prepare, .operation = operation };
"""

# One of each kind that changes what others could see.
CHANGING = {
    "cgroup": ["cgroup/make", "cgroup/cpu-max", "cgroup/freeze"],
    "container": ["container/run", "container/exec"],
    "traffic": ["traffic/udp-own"],
}


@pytest.fixture
def looks(tmp_path: Path) -> Workload:
    """What looks."""
    folder = tmp_path / "looks"
    folder.mkdir()
    (folder / "looks.c").write_text(LOOKS)
    return Workload(
        name="looks", source=folder, summary="looks", operation="none", warmup=1, window=2
    )


@pytest.mark.parametrize("family", list(CHANGING))
def test_a_container_is_as_before(kernel: Kernel, looks: Workload, family: str) -> None:
    wanted = workloads.select(CHANGING[family])
    order = [Round(looks)]
    for one in wanted:
        order += [Round(one.model_copy(update={"warmup": 1, "window": 2})), Round(looks)]
    # All in one guest, confined as the first of them says.
    order[0] = Round(looks.model_copy(update=alike(wanted[0])))
    plan = Plan(
        kernel=kernel,
        qemu=qemu.find(),
        workload=order[0].workload,
        topology=Topology(2, 2),
        timeout=300,
    )
    found = sitting.measure(
        Sitting(plan, tuple(order)), recorder(qemu.find(), Quiet()), ROOM, Quiet()
    )
    became = list(found.results())
    wrong = {
        f"{number} {each.title}": str(one)
        for number, (each, one) in enumerate(zip(order, became, strict=True))
        if not isinstance(one, WorkloadResult)
    }
    assert not wrong


def alike(one: Workload) -> dict[str, object]:
    """How it is confined."""
    names = ("capabilities", "apparmor", "seccomp", "systempaths")
    return {name: getattr(one, name) for name in names}
