# SPDX-License-Identifier: GPL-2.0-or-later
"""Operations that change their container leave it as it was to those after them."""

from __future__ import annotations

from pathlib import Path

import pytest

from partywall import workloads
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import qemu
from partywall.guest.sitting import Round
from partywall.kernels import Kernel
from partywall.measure import sitting
from partywall.measure.plan import Plan
from partywall.measure.sitting import Became, Sitting
from partywall.record.plugin import recorder
from partywall.results.result import WorkloadResult
from partywall.workloads import Workload

ROOM = 1024

# Ends its round if the container is not as a new one is; a variant looks at one thing alone.
LOOKS = r"""
// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <dirent.h>
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

static void cgroups(void)
{
	struct stat st;

	same("/proc/1/cgroup", "0::/\n");
	same("/proc/self/cgroup", "0::/\n");
	same("/sys/fs/cgroup/cgroup.subtree_control", "");
	errno = EEXIST;
	if (stat("/sys/fs/cgroup", &st) || st.st_nlink != 2)
		fail("cgroups");
}

static void devices(void)
{
	struct if_nameindex *all = if_nameindex();

	errno = EEXIST;
	if (!all || strcmp(all[0].if_name, "lo") || all[1].if_name)
		fail("network devices");
}

static void directories(void)
{
	static const char *const places[] = { "/tmp", "/volume", "/dev/shm", "/dev/mqueue" };

	for (size_t n = 0; n < sizeof(places) / sizeof(*places); n++) {
		DIR *place = opendir(places[n]);
		struct dirent *entry;

		if (!place)
			fail(places[n]);
		errno = EEXIST;
		while ((entry = readdir(place)))
			if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
				fail("directories");
		closedir(place);
	}
}

static int below(const char *path, const char *top)
{
	size_t length = strlen(top);

	return !strncmp(path, top, length) && (!path[length] || path[length] == '/');
}

/* Each place once, and none where a workload writes. */
static void mounts(void)
{
	static char seen[64][128];
	FILE *list = fopen("/proc/1/mountinfo", "r");
	size_t count = 0;
	char path[128];

	if (!list)
		fail("/proc/1/mountinfo");
	errno = EEXIST;
	while (fscanf(list, "%*s %*s %*s %*s %127s %*[^\n]", path) == 1) {
		for (size_t n = 0; n < count; n++)
			if (!strcmp(seen[n], path))
				fail("mounts");
		if (count == 64 || below(path, "/tmp"))
			fail("mounts");
		if (strstr(path, "/volume/") || strstr(path, "/shm/") || strstr(path, "/mqueue/"))
			fail("mounts");
		strcpy(seen[count++], path);
	}
	fclose(list);
	if (!count)
		fail("no mounts");
}

static void processes(void)
{
	DIR *all = opendir("/proc");
	struct dirent *entry;

	if (!all)
		fail("/proc");
	while ((entry = readdir(all))) {
		char path[300], name[32] = "";
		FILE *file;

		if (!isdigit(entry->d_name[0]) || !strcmp(entry->d_name, "1"))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		(void)!fgets(name, sizeof(name), file);
		fclose(file);
		errno = EEXIST;
		/* Of those that are executed anew for each CPU. */
		if (strcmp(name, "looks\n") && strcmp(name, "exe\n"))
			fail("processes");
	}
	closedir(all);
}

static const struct {
	const char *name;
	void (*look)(void);
} sights[] = {
	{ "cgroups", cgroups },
	{ "devices", devices },
	{ "directories", directories },
	{ "mounts", mounts },
	{ "processes", processes },
};

static void prepare(const struct run *run)
{
	for (size_t n = 0; n < sizeof(sights) / sizeof(*sights); n++)
		if (!strcmp(run->variant, "default") || !strcmp(run->variant, sights[n].name))
			sights[n].look();
}

static void operation(const struct run *run, unsigned long n)
{
	(void)run;
	(void)n;
	getppid();
}

const struct workload workload = { .prepare = prepare, .operation = operation };
"""

# Leaves what is not cleared away between rounds, in the container's own namespaces.
LEAVES = r"""
// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include <sys/mount.h>
#include <unistd.h>
#include "links.h"
#include "operations.h"

static void leave(const char *path)
{
	make_dir(path);
	check(mount("tmpfs", path, "tmpfs", 0, NULL), path);
}

static void prepare(const struct run *run)
{
	if (run->slot)
		return;
	if (!strcmp(run->variant, "devices")) {
		netlink_open(NETLINK_ROUTE);
		make_veth("left", "right", -1);
	} else {
		leave(!strcmp(run->variant, "mounts") ? "/tmp" : "/volume/left");
	}
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


SLOW = ("container",)
"""Families of which one operation takes a minute to measure."""


def ours(folder: Path, name: str, text: str) -> Workload:
    """A workload of this test's."""
    (folder / name).mkdir()
    (folder / name / f"{name}.c").write_text(text)
    facts = {"summary": name, "operation": "none", "warmup": 1, "window": 2}
    return Workload(name=name, source=folder / name, **facts)


@pytest.fixture
def looks(tmp_path: Path) -> Workload:
    """What looks."""
    return ours(tmp_path, "looks", LOOKS)


def became(kernel: Kernel, order: list[Round]) -> list[Became]:
    """What became of rounds in one guest."""
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
    return list(found.results())


@pytest.mark.parametrize(
    "family",
    [pytest.param(one, marks=pytest.mark.slow if one in SLOW else ()) for one in CHANGING],
)
def test_a_container_is_as_before(kernel: Kernel, looks: Workload, family: str) -> None:
    wanted = workloads.select(CHANGING[family])
    order = [Round(looks)]
    for one in wanted:
        order += [Round(one.model_copy(update={"warmup": 1, "window": 2})), Round(looks)]
    # All in one guest, confined as the first of them says.
    order[0] = Round(looks.model_copy(update=alike(wanted[0])))
    found = became(kernel, order)
    wrong = {
        f"{number} {each.title}": str(one)
        for number, (each, one) in enumerate(zip(order, found, strict=True))
        if not isinstance(one, WorkloadResult)
    }
    assert not wrong


def test_what_stays_is_seen(kernel: Kernel, looks: Workload, tmp_path: Path) -> None:
    (mounting,) = workloads.select(["cgroup/make"])
    capable = alike(mounting) | {"capabilities": ("CAP_SYS_ADMIN", "CAP_NET_ADMIN")}
    leaves = ours(tmp_path, "leaves", LEAVES).model_copy(update=capable | {"modules": ("veth",)})
    sights = ("mounts", "directories", "devices")
    order = [
        Round(one.model_copy(update={"variant": sight}))
        for sight in sights
        for one in (looks, leaves, looks)
    ]
    # All in one guest, confined as the first of them says.
    order[0] = Round(order[0].workload.model_copy(update=capable))
    found = became(kernel, order)
    for number, sight in enumerate(sights):
        before, left, after = found[3 * number : 3 * number + 3]
        assert isinstance(before, WorkloadResult), before
        assert isinstance(left, WorkloadResult), left
        assert isinstance(after, EnvironmentProblem), sight
        assert {"devices": "network devices"}.get(sight, sight) in after.message


def alike(one: Workload) -> dict[str, object]:
    """How it is confined."""
    names = ("capabilities", "apparmor", "seccomp", "systempaths")
    return {name: getattr(one, name) for name in names}
