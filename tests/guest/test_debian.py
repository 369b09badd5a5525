# SPDX-License-Identifier: GPL-2.0-or-later
"""What the instrument finds in Debian's kernel, which is known."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import called
import jsonschema
import pytest
from checks import Checked, differences, partywall, walls

from partywall.kernels import Kernel
from partywall.results import document
from partywall.results.lines import Line
from partywall.results.result import Result

Check = Callable[..., Checked]


def counts_references(wall: Line) -> bool:
    """Tell whether a wall is the line of the user's count of references.

    That is moved by the first of a user's pending signals alone, and by the last: from
    never to twice, by who runs when.
    """
    paths = {use.path for use in wall.fields}
    return wall.object.name == "init_ucounts" and "rlimit[UCOUNT_RLIMIT_SIGPENDING]" not in paths


def test_a_signal_hits_the_walls_of_ucounts_and_of_apparmors_label(check: Check) -> None:
    signal = check().of("signal")
    assert sorted(wall.object.name for wall in signal.walls) == [
        "init_ucounts",
        "init_ucounts",
        "kmalloc-512: struct aa_profile",
    ]
    ucounts = walls(signal, "init_ucounts")
    limit, count = sorted(ucounts, key=counts_references)
    assert limit.transfers == pytest.approx(2, rel=0.01)
    assert count.transfers <= 2.02
    fields = {use.path for wall in ucounts for use in wall.fields}
    assert {"ns", "count", "rlimit[UCOUNT_RLIMIT_SIGPENDING]"} <= fields
    (label,) = walls(signal, "aa_profile")
    assert label.transfers == pytest.approx(2, rel=0.01)
    assert {site.function for site in label.code} == {"apparmor_task_kill"}
    assert label.writers == list(range(8))


def test_a_signal_takes_one_object_from_the_slab(check: Check) -> None:
    calls = {call.function: call.per_op for call in check().of("signal").calls}
    assert calls == {"kmem_cache_alloc_noprof": 1.0, "kmem_cache_free": 1.0}


@pytest.mark.slow
def test_eight_and_thirty_two_containers_cost_a_signal_the_same(check: Check) -> None:
    eight = check().of("signal")
    more = check("--workload", "signal", "--containers", "32").of("signal", 32)
    assert len(more.walls) == len(eight.walls)
    for one, other in zip(
        sorted(eight.walls, key=lambda wall: (wall.object.name, wall.object.line)),
        sorted(more.walls, key=lambda wall: (wall.object.name, wall.object.line)),
        strict=True,
    ):
        assert other.object.name == one.object.name
        if counts_references(one):
            assert max(one.transfers, other.transfers) <= 2.02
        else:
            assert other.transfers == pytest.approx(one.transfers, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "shapes"),
    [
        ("signal", ((2, 1), (8, 1), (32, 1))),
        ("overlay/access", ((2, 1), (8, 1), (32, 1))),
        ("negative/unique", ((2, 1), (8, 1), (32, 1))),
        # For each CPU that there is the kernel has a counter to set up: as many CPUs each time.
        ("fork", ((2, 16), (8, 4), (32, 1))),
    ],
)
def test_an_operation_takes_the_same_instructions_among_few_and_many(
    check: Check, workload: str, shapes: tuple[tuple[int, int], ...]
) -> None:
    """Within two in a hundred: what containers wait for each other is none of their work."""
    taken = []
    for containers, cpus in shapes:
        shape = ("--containers", str(containers), "--cpus", str(cpus))
        one = check("--workload", workload, *shape).of(workload, containers)
        # Thousands of pages at a time go back to their zone, once in a thousand operations: in
        # which window is chance.
        bulk = sum(lock.instructions for lock in one.locks if "node_zones" in lock.field)
        taken.append(one.instructions.kernel - bulk)
    assert max(taken) <= 1.02 * min(taken)


def test_containers_do_not_meet_in_overlayfs_but_cpus_of_one_do(check: Check) -> None:
    result = check()
    # What was left before the window and runs in it, by chance much of it, is not theirs.
    assert result.of("overlay/access").isolated_itself
    inside = result.of("overlay/access", containers=1)
    (wall,) = inside.walls
    assert wall.object.name == "cred: struct cred"
    assert wall.transfers == pytest.approx(12, rel=0.01)
    assert wall.false_sharing
    uses = {use.path: use for use in wall.fields}
    assert uses["usage"].atomics == pytest.approx(8, rel=0.01)
    assert uses["fsuid"].reads == pytest.approx(4, rel=0.01)
    assert {"override_creds", "revert_creds", "generic_permission"} == {
        site.function for site in wall.code
    }


def test_failed_lookups_meet_in_the_lower_layers_directory(check: Check) -> None:
    negative = check().of("negative/unique")
    names = {wall.object.name for wall in negative.walls}
    assert "in_lookup_hashtable" in names
    assert "ext4_inode_cache: struct ext4_inode_info" in names
    fields = {use.path for wall in negative.walls for use in wall.fields}
    assert "vfs_inode.i_rwsem.count" in fields
    # Rounds in which a look-up waits for another one's number to be even are none of its visits.
    (waited,) = [
        wall
        for wall in negative.walls
        if any(use.path.endswith("i_dir_seq") for use in wall.fields)
    ]
    assert waited.transfers <= 4.04


def test_network_namespaces_meet_in_sysfs_proc_and_the_allocator(check: Check) -> None:
    netns = check().of("netns")
    for name in (
        "struct kernfs_root",
        "kernfs_idr_lock",
        "sysctl_lock",
        "proc_subdir_lock",
        "proc_inum_ida",
        "struct aa_profile",
        "pcpu_lock",
        "pcpu_alloc_mutex",
    ):
        # Small globals share lines as the linker of each build lays them: then it is a
        # field of the wall that another one gave its name.
        beside = [use for wall in netns.walls for use in wall.fields if use.path == name]
        assert walls(netns, name) or beside, name
    fields = {use.path for wall in walls(netns, "kernfs_root") for use in wall.fields}
    assert "kernfs_rwsem.count" in fields


def test_what_is_done_under_rtnl_moves_once_in_each_hold_of_it(check: Check) -> None:
    """However often a lock in it is taken: sysfs' hundreds of times for each namespace."""
    netns = check().of("netns")
    # Its wait_lock is another one.
    (rtnl,) = (one for one in netns.locks if (one.object, one.field) == ("rtnl_mutex", "owner"))
    for name in ("kernfs_rwsem", "kernfs_idr_lock"):
        # Cgroups have a hierarchy of their own.
        named = [one for one in netns.locks if name in f"{one.object} {one.field}"]
        lock = max(named, key=lambda one: one.exclusive)
        assert lock.exclusive > 100
        (line,) = (line for line in netns.walls if line.address == at_line(lock.address))
        assert line.transfers < 3 * rtnl.exclusive
        assert line.write_visits < 3 * rtnl.exclusive


def at_line(address: str) -> str:
    """The line that an address lies in."""
    return f"{int(address, 16) & ~63:#x}"


def test_a_namespaces_death_is_part_of_its_cost(check: Check) -> None:
    contexts = {site.context for wall in check().of("netns").walls for site in wall.code}
    assert {"syscall unshare", "cleanup_net"} <= contexts


def test_forks_meet_in_counts_of_processes(check: Check) -> None:
    fork = check().of("fork")
    for name in ("nr_threads", "tasklist_lock", "pidmap_lock", "init_ucounts"):
        assert walls(fork, name), name
    fields = {use.path for wall in walls(fork, "init_ucounts") for use in wall.fields}
    assert "rlimit[UCOUNT_RLIMIT_NPROC]" in fields


def test_callbacks_that_wait_leaves_are_counted_whether_they_ran_or_not(check: Check) -> None:
    """The last reference of a child's task is dropped by wait4(), a grace period later."""
    left = {(one.context, one.by): one for one in check().of("fork").left or []}
    task = left["RCU callback of wait4", "put_task_struct_rcu_user"]
    assert task.times == pytest.approx(1, rel=0.05)
    assert task.done < task.times


def test_nearly_all_transfers_have_a_name(check: Check) -> None:
    for one in check().result.workloads:
        assert one.named >= 0.97, one.title
        # Of what a namespace leaves much is freed by then: 97.2 % here, and less on some boots.
        assert one.typed >= (0.96 if one.workload == "netns" else 0.97), one.title


def test_who_is_said_to_have_called_a_function_calls_it(check: Check, kernel: Kernel) -> None:
    """In the kernel's own code: of locks, lists and copies it is told who called them."""
    told = called.places(check().result)
    assert len(told) > 100
    found, wrong = called.count(called.Calls(kernel.vmlinux), told)
    assert not wrong
    # What is called by a pointer, and code that has no symbol of its own, tell nothing.
    assert found["calls it"] >= 0.95 * len(told), found


def test_five_workloads_are_told_in_120_lines_and_a_page_of_a_megabyte_and_a_half(
    check: Check, tmp_path: Path
) -> None:
    (saved,) = check().folder.glob("*.json.gz")
    page = tmp_path / "page.html"
    done = partywall("report", saved, "--html", page)
    assert done.returncode == 0, done.stderr
    # check says in two more where it is saved.
    assert len(done.stdout.splitlines()) <= 118
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert page.stat().st_size <= 1_500_000


def test_every_wall_names_fields_and_code(check: Check) -> None:
    for one in check().result.workloads:
        for wall in one.walls:
            assert wall.fields and wall.code, wall.object.name
            assert sum(use.share for use in wall.fields) == pytest.approx(1)
            assert all(0 <= use.offset < 64 for use in wall.fields)


def test_what_the_scheduler_reads_of_a_task_is_no_wall(check: Check) -> None:
    for title in ("signal", "overlay/access", "negative/unique"):
        names = {wall.object.name for wall in check().of(title).walls}
        assert not any("task_struct" in name or "runqueues" in name for name in names)


def test_two_runs_are_equal_but_for_the_time(check: Check) -> None:
    titles = ("signal", "overlay/access")
    again = check(*(word for title in titles for word in ("-w", title)), again=1)
    for title in titles:
        pair = (run.of(title).model_dump(mode="json") for run in (check(), again))
        differ = list(differences(*pair))
        assert not differ, "\n".join(differ[:40])


@pytest.mark.slow
def test_two_runs_of_all_workloads_are_equal_but_for_the_time(check: Check) -> None:
    first, second = json.loads(check().text), json.loads(check(again=1).text)
    first.pop("created")
    second.pop("created")
    differ = list(differences(first, second))
    assert not differ, "\n".join(differ[:40])


def test_the_saved_result_is_what_was_printed_and_fits_the_schema(check: Check) -> None:
    run = check()
    (saved,) = run.folder.iterdir()
    assert gzip.decompress(saved.read_bytes()).decode() == run.text
    jsonschema.validate(json.loads(run.text), document.schema(Result))


def test_locks_are_held_as_often_as_the_code_says(check: Check) -> None:
    """copy_process, release_task and exit_notify take tasklist_lock; a pid has one lock."""
    fork = check().of("fork")
    held = {lock.object: lock for lock in fork.locks}
    assert held["tasklist_lock"].exclusive == pytest.approx(3, rel=0.01)
    assert held["pidmap_lock"].exclusive == pytest.approx(4, rel=0.01)
    for lock in fork.locks:
        assert 0 <= lock.own <= lock.instructions <= fork.instructions.kernel
        assert lock.slept <= lock.exclusive
    # wait4 looks for children under it, which shares it with others that only look.
    assert held["tasklist_lock"].shared > 1
    assert held["tasklist_lock"].own < held["tasklist_lock"].instructions


def test_where_no_lock_is_shared_none_is_listed(check: Check) -> None:
    result = check()
    assert result.of("signal").locks == result.of("overlay/access").locks == []
    assert result.of("signal").waits == []


def test_making_network_namespaces_waits_for_rcu(check: Check) -> None:
    netns = check().of("netns")
    assert {call.function for call in netns.waits} & {"synchronize_rcu_expedited", "rcu_barrier"}
    worst = netns.locks[0]
    assert worst.instructions / netns.instructions.kernel > 0.1
    assert {"rtnl_mutex", "sysctl_lock"} <= {lock.object for lock in netns.locks[:4]}


def test_what_is_not_per_cpu_memory_is_not_called_that(check: Check) -> None:
    # The table of netlink's sockets lies behind the per-CPU memory of boot, in what is left
    # of a CPU's unit and was given to the slab.
    for wall in check().of("netns").walls:
        if wall.object.kind == "percpu":
            functions = {site.function for site in wall.code}
            assert not functions & {"netlink_insert", "kobject_get"}, wall.object.address
