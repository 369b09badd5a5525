# SPDX-License-Identifier: GPL-2.0-or-later
"""Results made by hand, close to what Debian's 6.12 kernel gives."""

from __future__ import annotations

from typing import Any

from partywall.core.topology import Topology
from partywall.results.counts import CallCount, Instructions, Sums
from partywall.results.failures import Failure
from partywall.results.fields import FieldUse
from partywall.results.held import Held, HeldLock, Holder, Spell, Wait
from partywall.results.lines import Deferred, Line, LineObject
from partywall.results.locks import Lock
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import Environment, KernelId
from partywall.results.sites import Site, Uses
from partywall.results.touches import Beside, Touch, Touched

ALL = list(range(8))


def field(path: str, offset: int, **more: Any) -> FieldUse:
    """A field of eight bytes with half of its line's accesses, unless told otherwise."""
    given: dict[str, Any] = {"size": 8, "reads": 0.0, "writes": 0.0, "atomics": 0.0, "share": 0.5}
    return FieldUse(path=path, offset=offset, **(given | more))


def site(function: str, offset: int, field: str, **more: Any) -> Site:
    """A place in the code, reached from tgkill() unless told otherwise."""
    given: dict[str, Any] = {
        "context": "syscall tgkill",
        "reads": 0.0,
        "writes": 0.0,
        "atomics": 0.0,
    }
    return Site(function=function, offset=offset, field=field, **(given | more))


def line(what: LineObject, transfers: float, **more: Any) -> Line:
    """A line that all eight containers write."""
    given: dict[str, Any] = {
        "address": f"{int(what.address, 16) + what.line:#x}",
        "between": transfers,
        "within": 0.0,
        "write_visits": transfers,
        "read_visits": 0.0,
        "false_sharing": False,
        "fields": [],
        "code": [],
        "writers": ALL,
        "readers": [],
    }
    return Line(object=what, transfers=transfers, **(given | more))


def workload(name: str, walls: list[Line], **more: Any) -> WorkloadResult:
    """A workload in eight containers with a CPU each."""
    moved = sum(wall.transfers for wall in walls)
    given: dict[str, Any] = {
        "variant": "default",
        "operation": "one operation",
        "topology": Topology(containers=8, cpus=1),
        "confinement": "docker",
        "initramfs_sha256": "b" * 64,
        "warmup": 200,
        "window": 400,
        "operations": 3200,
        "threshold": 0.01,
        "instructions": Instructions(kernel=4811.2, user=212.0, background=38.5),
        "accesses": 2430.4,
        "calls": [],
        "between": moved,
        "within": 0.0,
        "named": 1.0,
        "scope": "between",
        "background": [],
        "background_transfers": 0.0,
        "deferred": NOTHING_DEFERRED,
    }
    return WorkloadResult(workload=name, walls=walls, **(given | more))


NOTHING_DEFERRED = Deferred(
    transfers=0.0,
    sums=Sums(walls=0.0, handed_over=0.0, rest=0.0),
    objects=[],
    walls=[],
    passing=[],
    left=[],
)


def put_off(walls: list[Line], **more: float) -> Deferred:
    """Deferred work with these lines of walls. ``more``: other sums."""
    moved = sum(wall.judged for wall in walls)
    sums = Sums(**({"walls": moved, "handed_over": 0.0, "rest": 0.0} | more))
    objects = workload("w", walls).found
    return Deferred(
        transfers=sums.all, sums=sums, objects=objects, walls=walls, passing=[], left=[]
    )


def moved_in(context: str) -> Line:
    """A line of the background that is moved in this context."""
    what = LineObject(kind="global", name="late", address="0xffffffff82a00000", size=8, line=0)
    others = site("tick", 0, "late", context="interrupt", reads=0.5)
    return line(what, 1.5, code=[others, site("do_late", 0, "late", context=context, writes=1)])


def both_kinds() -> Line:
    """A lock that a softirq takes, and the system call that ran it, too."""
    what = LineObject(kind="global", name="both", address="0xffffffff82a00000", size=8, line=0)
    return line(
        what,
        1.0,
        fields=[field("late", 0, atomics=1.0)],
        code=[site("tasklet", 0x10, "late", context="softirq in ioctl", atomics=1.0)],
        in_calls=Uses(
            fields=[field("soon", 8, atomics=2.0)],
            code=[site("ioctl", 0x20, "soon", context="syscall ioctl", atomics=2.0)],
        ),
    )


def lock(name: str, instructions: float, **more: Any) -> Lock:
    """A lock that is taken once in each operation."""
    given: dict[str, Any] = {
        "address": "0xffffffff82a5d1c0",
        "field": "lock",
        "exclusive": 1.0,
        "shared": 0.0,
        "own": instructions,
        "slept": 0.0,
        "waited": 0.0,
    }
    return Lock(object=name, instructions=instructions, **(given | more))


def held(longest: float = 13.2e6, asleep: float = 2e6, tried: float = 9e6) -> Held:
    """A lock that is held asleep, one that hardly is, and a function that waits."""
    spells = [
        Spell(
            kind="rcu",
            function="synchronize_rcu_expedited",
            at="unregister",
            times=1,
            ns=asleep * 0.7,
        ),
        Spell(kind="lock", function="mutex_lock", at="exp_mutex", times=1, ns=asleep * 0.29),
        Spell(kind="preempted", function="preempted", at="", times=1, ns=asleep * 0.01),
    ]
    holder = Holder(
        by="cleanup_net",
        shared=False,
        times=0.2,
        slept=0.2,
        ns=asleep * 1.5,
        asleep_ns=asleep,
        longest_ns=longest,
        sleeps=spells,
        tried=0.1,
        tried_ns=7e6,
        longest_tried_ns=tried,
    )
    lock = HeldLock(address="0xffffffff82c00040", object="rtnl_mutex", field="", holders=[holder])
    short = {"asleep_ns": 10.0, "longest_ns": 20.0, "tried_ns": 5.0, "longest_tried_ns": 30.0}
    quick = holder.model_copy(update={**short, "by": "quick"})
    more = {"object": "quick_mutex", "address": "0xffffffff82c00080", "holders": [quick]}
    other = lock.model_copy(update=more)
    wait = Wait(
        kind="rcu",
        function="rcu_barrier",
        by="netdev_run_todo",
        times=0.2,
        slept=0.2,
        ns=3e6,
        longest_ns=24e6,
        under=["rtnl_mutex"],
    )
    return Held(locks=[lock, other], waits=[wait])


def result(*workloads: WorkloadResult) -> Result:
    """One run on Debian's kernel."""
    return Result(
        created="2026-03-01T12:00:00Z",
        kernel=KernelId(
            source="debian",
            release="6.12.117+deb12-cloud-amd64",
            version="Linux version 6.12.117+deb12-cloud-amd64 (gcc-12) #1 SMP PREEMPT_DYNAMIC",
            build_id="9d3c1fa0b7e64852aa10c39f5e27d8416bb0c2e9",
            image_sha256="a" * 64,
            config_sha256=None,
        ),
        environment=Environment(
            partywall="0.1.0",
            qemu="7.2.22",
            plugin_abi=1,
            cpu_model="max",
            icount_shift=1,
            command_line="console=ttyS0 nokaslr norandmaps",
            tools={"crun": "1.8.1"},
            visit_distance=8,
        ),
        workloads=list(workloads),
    )


def met(victim: str, neighbour: str, **objects: float) -> Touch:
    """A touch at these objects."""
    told = [Touched(object=name, transfers=rate) for name, rate in objects.items()]
    moved = sum(objects.values())
    return Touch(victim=victim, neighbour=neighbour, transfers=moved, objects=told)


def pairs(victims: list[str], neighbours: list[str], *touches: Touch) -> Beside:
    """Pairs of one kernel; those without a touch failed."""
    base = result(isolated())
    there = {(one.victim, one.neighbour) for one in touches}
    lacking = [(v, n) for v in victims for n in neighbours if (v, n) not in there]
    return Beside(
        created=base.created,
        kernel=base.kernel,
        environment=base.environment,
        at=64,
        threshold=0.01,
        operations=dict.fromkeys([*victims, *neighbours], "one operation"),
        victims=victims,
        neighbours=neighbours,
        touches=list(touches),
        failed=[
            Failure(title=f"{victim} beside {other}", operation="one operation", why="it broke")
            for victim, other in lacking
        ],
    )


def _ucounts_lines() -> list[Line]:
    where: dict[str, Any] = {
        "kind": "global",
        "name": "init_ucounts",
        "type": "struct ucounts",
        "size": 192,
    }
    address = "0xffffffff82a5d1c0"
    counts = LineObject(**where, address=address, line=0, state="static")
    limits = LineObject(**where, address=address, line=0x80, state="static")
    pending = "rlimit[UCOUNT_RLIMIT_SIGPENDING]"
    return [
        line(
            limits,
            2.0,
            fields=[field(pending, 0x18, atomics=2.0, share=1.0)],
            code=[
                site(
                    "inc_rlimit_get_ucounts",
                    0x35,
                    pending,
                    atomics=1.0,
                    source="kernel/ucount.c:328",
                    inlined=["arch_atomic64_add_return", "atomic_long_add_return"],
                ),
                site(
                    "dec_rlimit_put_ucounts",
                    0x41,
                    pending,
                    atomics=1.0,
                    source="kernel/ucount.c:294",
                    context="syscall rt_sigreturn",
                ),
            ],
        ),
        line(
            counts,
            2.031,
            fields=[
                field("count", 0x28, size=4, atomics=2.0, share=0.985),
                field("ns", 0x10, reads=0.031, share=0.015),
            ],
            code=[
                site(
                    "_atomic_dec_and_lock_irqsave",
                    0x1C,
                    "count",
                    atomics=1.0,
                    source="lib/dec_and_lock.c:43",
                ),
                site("inc_rlimit_get_ucounts", 0x72, "count", atomics=1.0),
                site("get_ucounts", 0x9, "ns", reads=0.031, context="exception"),
            ],
        ),
    ]


def signal() -> WorkloadResult:
    """signal: two lines of init_ucounts, AppArmor's label, the clock in the background."""
    label = LineObject(
        kind="slab",
        name="kmalloc-256: struct aa_label",
        type="struct aa_label",
        address="0xff11000003b2c400",
        size=256,
        line=0,
        detail="label of the profile docker-default",
    )
    clock = LineObject(
        kind="global",
        name="jiffies_64",
        address="0xffffffff82a07980",
        size=8,
        line=0,
        state="static",
    )
    return workload(
        "signal",
        [
            line(
                label,
                2.0,
                fields=[field("count.refcount.refs", 0, size=4, atomics=2.0, share=1.0)],
                code=[site("apparmor_task_kill", 0x6E, "count.refcount.refs", atomics=2.0)],
            ),
            *_ucounts_lines(),
        ],
        operation="raise(SIGUSR1) with a handler: one signal sent, delivered and returned from",
        calls=[
            CallCount(function="kmem_cache_alloc_noprof", per_op=1.0),
            CallCount(function="kmem_cache_free", per_op=1.0),
        ],
        between=6.05,
        named=0.997,
        background=[
            line(
                clock,
                0.031,
                writers=[0],
                readers=list(range(1, 8)),
                code=[site("tick_do_update_jiffies64", 0xA3, "", writes=0.01, context="irq")],
            )
        ],
        background_transfers=0.031,
    )


def isolated() -> WorkloadResult:
    """overlay/access with a mount per container: no wall."""
    return workload("overlay", [], variant="access", operation="one access() of a file")


def false_sharing() -> WorkloadResult:
    """overlay in one container on eight CPUs: the mounter's struct cred."""
    cred = LineObject(
        kind="slab",
        name="cred: struct cred",
        type="struct cred",
        address="0xff11000004a71e40",
        size=176,
        line=0,
        detail="creator_cred of the overlay mounted on /",
    )
    context = "syscall access"
    sites = [
        ("override_creds", 0x14, "usage", {"atomics": 4.0, "source": "kernel/cred.c:517"}),
        ("revert_creds", 0x2B, "usage", {"atomics": 4.0, "source": "kernel/cred.c:541"}),
        ("generic_permission", 0x33, "fsuid", {"reads": 4.0, "source": "fs/namei.c:412"}),
    ]
    return workload(
        "overlay",
        [
            line(
                cred,
                12.0,
                between=0.0,
                within=12.0,
                false_sharing=True,
                fields=[
                    field("usage", 0, atomics=8.0, share=2 / 3),
                    field("fsuid", 0x20, size=4, reads=4.0, share=1 / 3),
                ],
                code=[site(f, at, what, context=context, **n) for f, at, what, n in sites],
                writers=[0],
            )
        ],
        variant="access-shared",
        operation="one access() of a file of the shared lower layer",
        topology=Topology(containers=1, cpus=8),
        scope="within",
        between=0.0,
        within=12.02,
    )


def many_walls(number: int = 120) -> WorkloadResult:
    """Network namespaces made and dropped: more walls than anyone reads in detail."""
    walls = []
    for index in range(number):
        what = LineObject(
            kind="slab" if index % 3 else "global",
            name=f"kmalloc-{64 << index % 4}: struct kernfs_root_{index // 5}",
            address=f"{0xFF11000005000000 + 0x1000 * index:#x}",
            size=512,
            line=-0x10 if index % 7 == 0 else 0x40,
        )
        path = f"entries[{index}].{'very_long_member_name.' * (index % 3)}lock.rlock.raw_lock"
        code = [
            site(f"__kernfs_function_number_{index}_{n}", n, path, atomics=number / (n + 1))
            for n in range(index % 9)
        ]
        walls.append(
            line(
                what,
                786.0 / (index + 1),
                fields=[field(path, 0x20, atomics=1.0, share=1.0)],
                code=code,
                false_sharing=index % 10 == 0,
                writers=[0, 1, 2, 5],
                readers=[7],
            )
        )
    return workload(
        "netns",
        walls,
        operation="unshare(CLONE_NEWNET): one network namespace made, the one before it dropped",
        instructions=Instructions(kernel=1_404_811.2, user=212.0, background=38_111.5),
    )


def named_wall(name: str) -> Line:
    """A wall whose object, one field and one function have this name."""
    what = LineObject(kind="global", name=name, address="0xffffffff82a00000", size=8, line=0)
    code = [site(name, 0, "")]
    return line(what, 3.0, fields=[field(name, 0, writes=3.0)], code=code)
