# SPDX-License-Identifier: GPL-2.0-or-later
"""What a soak's loads say is counted, and its table and exit status say what was found."""

from __future__ import annotations

import json
import subprocess

import loads
import pytest
import soaked
from loads import LOADS, OTHERS, TOPICS
from reports import Report
from soaked import Soaked, Told

SAID = {
    "limits": """\
      3 ok 1 - nproc: 16 tasks in 0 namespaces, room for 40, 4 of 4 rounds exact
      2 60 namespaces, 0 failed
""",
    "signals": "      1 sent 1000, taken 900, 20 exits\n      1 sent 5, taken 5, 1 exits\n",
    "netns": "      1 storm 3 made, 20 links, 5 moves, 7 refused\n"
    "      2 churn 20 namespaces, 2 tasks, 0.50 s\n",
    "overlay": "      1 210 operations, 3 mounts, 40 asynchronous, 2 kills, 1 execs\n",
    "names": """\
      1 again 300 names, 3 rounds
      1 files 50
      1 flood 4000 names, 2 tasks, 1.234 s
      1 storm 10 changes, 100 looks, 90 sure
""",
    "confined": "      2 replaced 7\n      1 sent 100, taken 9, 2 exits\n      3 users 16\n",
    "readers": "      2 found 20\n      1 read 1500\n",
    "fails": "      4 did 80\n      1 sent 10, taken 1, 1 exits\n      1 BROKEN: no memory\n",
    "setups": "      1 fail 60 allocations, 50 of them needed\n",
}
OPERATIONS = {
    "limits, user namespaces": 3 * 40 * 4 + 120,
    "signals, exits": 1026,
    "network namespaces": 28 + 40,
    "overlays": 253,
    "names that are not there": 300 + 50 + 4000 + 110,
    "AppArmor, credentials": 14 + 102 + 48,
    "readers of /proc and /sys": 1540,
    "failing allocations": 320 + 11 + 60,
}


def output(said: dict[str, str]) -> str:
    parts = [f"LOAD {name} begins\n{text}LOAD {name} ends\n" for name, text in said.items()]
    return "".join(parts) + "left 1\nLEAKS begin\nunreferenced object\nLEAKS end\n"


def test_operations_are_counted_by_topic() -> None:
    done = loads.done(output(SAID))
    assert done.operations == OPERATIONS
    assert done.wrong == []
    assert done.leaks == "unreferenced object\n"


def test_what_a_load_complains_of_is_told_once_and_one_that_did_nothing_is() -> None:
    said = SAID | {
        "signals": "",
        "limits": SAID["limits"] + "      9 not ok 1 - nproc: 16 tasks, 3 of 4 rounds exact\n",
        "netns": SAID["netns"] + "      1 BROKEN setns: Invalid argument\n",
    }
    text = output(said).replace("left 1", "BROKEN overlay does not end\nleft 3")
    assert loads.done(text).wrong == [
        "BROKEN overlay does not end",
        "limits: not ok 1 - nproc: 16 tasks, 3 of 4 rounds exact",
        "signals: did nothing",
        "netns: BROKEN setns: Invalid argument",
        "netns: 3 network namespaces are left",
    ]


def test_what_was_cut_off_counts_as_far_as_it_is_whole() -> None:
    text = output(SAID)
    done = loads.done(text[: text.index("LOAD overlay ends")])
    assert sorted(done.operations) == sorted(list(OPERATIONS)[:3])
    assert loads.done("").operations == {}


def test_scripts_are_shell_and_the_same_for_the_same_seed() -> None:
    assert loads.files(1) == loads.files(1)
    assert loads.files(1) != loads.files(2)
    scripts = [loads.script(60), *(text.decode() for text in loads.files(3).values())]
    for text in scripts:
        done = subprocess.run(["busybox", "sh", "-n"], input=text, text=True, check=False)
        assert done.returncode == 0, text
    assert set(loads.files(1)) == {"/soak/lib", *(f"/soak/{load.name}" for load in LOADS)}


@pytest.mark.parametrize(
    ("comm", "topic"),
    [
        ("netns", "network namespaces"),
        ("netns-fails", "failing allocations"),
        ("exits", "signals, exits"),
        ("exits-fails", "failing allocations"),
        ("confined", "AppArmor, credentials"),
        ("iou-wrk-75", "overlays"),
        ("kworker/u8:3", OTHERS),
        (None, OTHERS),
    ],
)
def test_a_report_is_of_the_topic_whose_task_it_names(comm: str | None, topic: str) -> None:
    assert loads.topic(comm) == topic
    assert topic in TOPICS


def ran(kernel: str, *told: Told, sanitizer: str = "KCSAN", **more: object) -> Soaked:
    fields = {"ended": True, "operations": OPERATIONS, "wrong": []} | more
    return Soaked(sanitizer, kernel, "6.12", "ab", 60.0, reports=list(told), **fields)  # type: ignore[arg-type]


THEIRS = Told("KCSAN", "BUG: KCSAN: data-race in a / b", "overlays", None, "text")
OURS = Told("KCSAN", "BUG: KCSAN: data-race in c / d", OTHERS, "fs/new.c:3 is the series'", "text")


def test_the_table_has_both_kernels_side_by_side() -> None:
    table = soaked.rows([ran("stock", THEIRS), ran("partywall", THEIRS, THEIRS, OURS)])
    assert table[0][:4] == ("KCSAN", "limits, user namespaces", "600", "600")
    (overlays,) = (row for row in table if row[1] == "overlays")
    assert overlays == ("", "overlays", "253", "253", "1", "2", "0")
    assert table[-1] == ("", OTHERS, "", "", "0", "1", "1")
    lines = soaked.markdown([ran("stock", THEIRS)]).splitlines()
    assert all(line.count(" | ") == len(soaked.HEAD) - 1 for line in lines)
    assert lines[2].endswith("| 600 |  | 0 |  |  |")


def test_a_topic_that_did_not_run_has_none() -> None:
    fewer = {name: count for name, count in OPERATIONS.items() if "failing" not in name}
    table = soaked.rows([ran("partywall", operations=fewer)])
    assert table[-1] == ("", "failing allocations", "", "none", "", "0", "0")


def test_only_what_is_ours_alone_fails_a_soak() -> None:
    assert not ran("stock", OURS, wrong=["limits: not ok"], ended=False).failed
    assert not ran("partywall", THEIRS).failed
    assert ran("partywall", THEIRS, OURS).failed
    assert ran("partywall", wrong=["limits: not ok"]).failed
    assert ran("partywall", ended=False).failed


def test_findings_name_the_run_and_the_reason() -> None:
    runs = [ran("stock", wrong=["limits: not ok"]), ran("partywall", OURS, OURS)]
    found = soaked.findings(runs)
    assert found == [
        "KCSAN, stock: limits: not ok",
        f"KCSAN, partywall: {OURS.title}\n  {OURS.why} ({OTHERS}), 2 times",
    ]


def test_all_of_it_can_be_kept() -> None:
    kept = json.loads(json.dumps(soaked.as_json([ran("partywall", OURS)], seed=1)))
    assert kept["seed"] == 1
    assert kept["runs"][0]["reports"][0]["why"] == OURS.why
    report = Report("KASAN", "BUG: KASAN", "BUG: KASAN\nmore", "missing")
    assert Told.of(report, None).topic == "names that are not there"
