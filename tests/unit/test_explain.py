# SPDX-License-Identifier: GPL-2.0-or-later
"""What would help most: ranked, combined, and never more than the model says."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import builders
import jsonschema
import pytest
from rich.cells import cell_len
from rich.console import Console
from test_without import wall

from partywall.advice import checked, mends
from partywall.advice.explain import MOST, Forecast, explain
from partywall.advice.explained import Explained, Explanation, Remedy
from partywall.advice.mends import Mend, Saved
from partywall.advice.without import Taken, all_of, key
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.model import profiles
from partywall.model.queues import predict
from partywall.report import explain as view
from partywall.results import document
from partywall.results.lines import Line
from partywall.results.result import Result, WorkloadResult
from partywall.results.setting import NO_APPARMOR, OWN_PROFILES, VOLATILE

PROFILE = profiles.load(profiles.DEFAULT)

Known = Callable[..., None]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    """Make these mends all that are known."""

    def these(*found: Mend) -> None:
        monkeypatch.setattr(mends, "load", lambda: found)

    return these


def by_series(name: str, patch: str, **more: Any) -> Mend:
    return Mend(object=name, by="series", patches=[patch], source="here", **more)


def upstream(name: str, release: str, **more: Any) -> Mend:
    return Mend(object=name, by="upstream", release=release, source="here", **more)


def one(*lines: Line, at: int | None = None, **more: Any) -> Explained:
    """What would help a workload with these walls."""
    workload = builders.workload("w", list(lines), **more)
    (found,) = explained(builders.result(workload), at=at).workloads
    return found


def explained(result: Result, at: int | None = None) -> Explanation:
    return explain(result, PROFILE, result.workloads, at)


def named(found: Explained) -> list[str]:
    return [remedy.name for remedy in found.remedies]


def of(found: Explained, name: str) -> Remedy:
    (remedy,) = (remedy for remedy in found.remedies if remedy.name == name)
    return remedy


def shown(found: Explanation, width: int = 80) -> str:
    file = io.StringIO()
    view.render(found, Console(file=file, width=width))
    return file.getvalue()


def test_what_is_now_is_what_the_model_predicts() -> None:
    result = builders.result(builders.signal())
    (found,) = explained(result, at=16).workloads
    (point,) = predict(result.workloads[0], PROFILE, [16]).points
    assert (found.at, found.now.throughput) == (16, point.throughput)
    assert found.now.transfers == pytest.approx(6.031)
    assert explained(result, at=1000).workloads[0].at == PROFILE.cores


def test_two_walls_that_hide_each_other_are_told_together(known: Known) -> None:
    known(by_series("a", "one/0001"), by_series("b", "two/0001"))
    found = one(wall("a", 4.0, 1), wall("b", 4.0, 2))
    assert named(found)[0] == "the whole series"
    alone = [of(found, f"series {topic}") for topic in ("one", "two")]
    together = found.together
    assert together is not None
    for remedy in alone:
        assert remedy.gain < 1.1 < 2 < remedy.adds
        assert remedy.after.transfers == 4.0
    assert together.times(found.now) == pytest.approx(of(found, "the whole series").gain)
    assert found.enough == [["the whole series"], ["series one", "series two"]]


def test_what_a_wall_brings_is_the_same_in_whatever_order_it_is_asked() -> None:
    workload = builders.workload("w", [wall(name, 4.0, n) for n, name in enumerate("abc", 1)])
    profile = profiles.load(profiles.DEFAULT)
    one, two, all_ = (all_of(workload, map(key, workload.walls[:n])) for n in (1, 2, 3))
    asked: list[tuple[Taken, Taken | None]] = [(one, None), (two, one), (all_, one), (all_, two)]
    first = [Forecast(workload, profile, 64).gain(*pair) for pair in asked]
    assert len(set(first)) == len(asked)
    for order in itertools.permutations(range(len(asked))):
        forecast = Forecast(workload, profile, 64)
        assert [forecast.gain(*asked[n]) for n in order] == [first[n] for n in order]


def test_what_helps_most_comes_first(known: Known) -> None:
    known(by_series("a", "one/0001"), upstream("b", "6.15"))
    found = one(wall("a", 2.0, 1), wall("b", 8.0, 2))
    assert named(found) == ["Linux 6.15", "series one"]
    assert found.remedies[0].gain > found.remedies[1].gain
    assert found.remedies[0].objects == ["b"]


def test_a_release_brings_what_earlier_ones_have(known: Known) -> None:
    known(upstream("a", "6.15"), upstream("b", "7.0"), upstream("c", "6.1"))
    found = one(wall("a", 8.0, 1), wall("b", 4.0, 2), wall("c", 2.0, 3))
    # Debian's 6.12 has what came with 6.1.
    assert named(found) == ["Linux 7.0", "Linux 6.15"]
    assert of(found, "Linux 7.0").objects == ["a", "b"]
    assert of(found, "Linux 7.0").after.transfers == 2.0
    assert [left.object for left in found.left] == ["c"]


def test_what_brings_no_more_than_a_part_of_it_is_left_out(known: Known) -> None:
    known(upstream("a", "6.15"), upstream("b", "7.0"), by_series("a", "one/0001"))
    found = one(wall("a", 8.0, 1), wall("b", 0.02, 2))
    assert named(found) == ["series one", "Linux 6.15"]


def test_what_a_wall_hides_is_told_as_a_part_of_what_mends_both(known: Known) -> None:
    lines = (wall("a", 2.0, 1), wall("b", 8.0, 2))
    known(upstream("a", "6.15"), upstream("b", "7.0"))
    assert named(one(*lines)) == ["Linux 7.0"]
    # By itself where nothing contains it: it brings much once the other one is gone.
    known(upstream("a", "6.15"), by_series("b", "one/0001"))
    found = one(*lines)
    assert named(found) == ["series one", "Linux 6.15"]
    hidden = of(found, "Linux 6.15")
    assert hidden.gain < 1.005 < 1.5 < hidden.adds
    assert f"({hidden.adds:.2f} times with all mends that are known)" in " ".join(
        shown(_document(found)).split()
    )


def test_what_adds_to_all_others_is_told_however_little_a_part_of_it_brings_alone(
    known: Known,
) -> None:
    # One topic brings a little by itself, the series no more while nobody mends the worst wall;
    # with that one gone, it brings far more than its topic.
    known(by_series("a", "one/0001"), by_series("b", "two/0001"), upstream("c", "6.15"))
    found = one(wall("a", 2.0, 1), wall("b", 1.0, 2), wall("c", 4.0, 3), at=16)
    whole, topic = of(found, "the whole series"), of(found, "series one")
    assert whole.gain < topic.gain * 1.005
    assert whole.adds > topic.adds * 1.02
    assert found.enough == [["Linux 6.15", "the whole series"]]


SAVED = Saved(workloads=["w"], kernel=0.2, under=0.25, command="partywall compare")


def _long_held() -> WorkloadResult:
    """A lock that is held for most of an operation and hardly moves, and a line that moves."""
    lines = [wall("lock", 1.0, 1), wall("a", 0.5, 2)]
    held = builders.lock("lock", 4000.0, address=lines[0].address, field="owner")
    ran = builders.isolated().instructions.model_copy(update={"kernel": 5000.0})
    return builders.workload("w", lines, locks=[held], instructions=ran)


def test_instructions_that_are_known_to_be_saved_are_in_what_the_series_brings(
    known: Known,
) -> None:
    both = Mend(
        object="lock", by="series", patches=["one/0001", "two/0001"], saved=SAVED, source="here"
    )
    known(by_series("a", "one/0001"), both)
    result = builders.result(_long_held())
    (found,) = explained(result).workloads
    whole = of(found, "the whole series")
    # A quarter less is run under what bounds all of them.
    assert whole.gain == pytest.approx(1 / 0.75, rel=0.03)
    assert "lock: instructions 20% fewer an operation, 25% fewer while it is held" in whole.says
    # Of one topic it is not known, and by itself it brings nothing.
    assert named(found) == ["the whole series"]
    assert found.together is not None
    assert found.clean.times(found.together) > 1
    known(by_series("a", "one/0001"))
    (without,) = explained(result).workloads
    assert without.remedies == []


def test_what_was_measured_of_another_operation_or_kernel_is_not_taken_for_known(
    known: Known,
) -> None:
    def series(saved: Saved) -> None:
        known(Mend(object="lock", by="series", patches=["one/0001"], saved=saved, source="here"))

    series(SAVED)
    result = builders.result(_long_held())
    assert named(explained(result).workloads[0]) == ["series one"]
    kernel = result.kernel.model_copy(update={"release": "7.3.4+deb13-cloud"})
    newer = result.model_copy(update={"kernel": kernel})
    assert explained(newer).workloads[0].remedies == []
    series(SAVED.model_copy(update={"workloads": ["w/other"]}))
    assert explained(result).workloads[0].remedies == []


@pytest.mark.parametrize(
    ("source", "known_of"),
    [
        ("debian 6.12.117-1~deb12u1", True),
        ("stock (linux-source 6.12.117-1)", True),
        ("stock@6.12 (linux-source 6.12.117-1)", True),
        ("partywall (linux-source 6.12.117-1)", False),
        ("stock+lockdep (linux-source 6.12.117-1)", False),
        ("/boot/vmlinuz-6.12.117", False),
    ],
)
def test_what_is_saved_is_known_of_a_kernel_without_any_patch_of_ours(
    known: Known, source: str, known_of: bool
) -> None:
    patches = ["one/0001", "two/0001"]
    known(Mend(object="lock", by="series", patches=patches, saved=SAVED, source="here"))
    result = builders.result(_long_held())
    kernel = result.kernel.model_copy(update={"source": source})
    (found,) = explained(result.model_copy(update={"kernel": kernel})).workloads
    assert bool(found.remedies) == known_of
    # A package of ours, whose release says so.
    ours = kernel.model_copy(update={"release": "6.12.117+partywall1-cloud-amd64"})
    (found,) = explained(result.model_copy(update={"kernel": ours})).workloads
    assert found.remedies == []


@pytest.mark.parametrize(
    ("shape", "known_of"),
    [
        ({"topology": Topology(containers=2, cpus=1)}, True),
        ({"topology": Topology(containers=1, cpus=8), "scope": "within"}, False),
        ({"topology": Topology(containers=4, cpus=2)}, False),
        ({"confinement": "docker (+CAP_SYS_ADMIN)"}, True),
        ({"confinement": "unconfined"}, False),
        ({"confinement": f"docker (+CAP_SYS_ADMIN, {NO_APPARMOR}, all of /proc)"}, False),
        ({"confinement": f"docker ({OWN_PROFILES})"}, False),
        ({"confinement": f"docker ({VOLATILE})"}, False),
    ],
)
def test_what_is_saved_is_known_of_containers_as_they_were_measured(
    known: Known, shape: dict[str, Any], known_of: bool
) -> None:
    known(Mend(object="lock", by="series", patches=["one/0001"], saved=SAVED, source="here"))
    workload = _long_held().model_copy(update=shape)
    (found,) = explained(builders.result(workload)).workloads
    saved = [one for remedy in found.remedies for one in remedy.says]
    assert bool(saved) == known_of


def test_what_is_saved_without_a_profile_is_known_of_containers_without_one(known: Known) -> None:
    # As netns runs.
    bare = SAVED.model_copy(update={"apparmor": False})
    known(Mend(object="lock", by="series", patches=["one/0001"], saved=bare, source="here"))
    for confinement, known_of in ((f"docker ({NO_APPARMOR})", True), ("docker", False)):
        workload = _long_held().model_copy(update={"confinement": confinement})
        (found,) = explained(builders.result(workload)).workloads
        assert bool([one for remedy in found.remedies for one in remedy.says]) == known_of


def test_no_more_than_five_are_told(known: Known) -> None:
    names = [f"v{n}" for n in range(9)]
    known(*(by_series(name, f"t{name}/0001") for name in names))
    found = one(*(wall(name, 1.0 + n, n) for n, name in enumerate(names)), at=4)
    assert len(found.remedies) == MOST
    assert found.together is not None
    # The whole series is one of them.
    assert found.together.transfers == 0.0


def test_a_part_is_at_most_as_much(known: Known) -> None:
    code = [builders.site("f", 0, "", atomics=1.0), builders.site("g", 0, "", atomics=1.0)]
    known(upstream("a", "6.15", functions=["f"], part=True))
    found = one(wall("a", 8.0, 1, code=code))
    (remedy,) = found.remedies
    assert remedy.at_most
    assert remedy.after.transfers == pytest.approx(4.0)
    (left,) = found.left
    assert (left.object, left.part, left.known) == ("a", True, [])
    assert "(at most)" in shown(_document(found))
    known(upstream("a", "6.15"))
    assert not one(wall("a", 8.0, 1, code=code)).remedies[0].at_most


HIDDEN = [wall("a", 8.0, 1), wall("b", 0.5, 2), wall("c", 0.4, 3)]


def test_walls_that_nobody_can_mend_are_told_with_what_they_hide(known: Known) -> None:
    known(by_series("b", "one/0001"))
    found = one(*HIDDEN)
    # The other one hides what the mend brings, and it is told where it belongs.
    assert found.remedies == []
    a, *others = found.left
    assert (a.object, a.known) == ("a", [])
    assert a.gain > 1.5
    assert a.only < 0.5
    assert {left.object for left in others} == {"b", "c"}
    (b,) = (left for left in others if left.object == "b")
    assert b.known == ["series one/0001"]
    assert b.only < 1
    words = shown(explained(builders.result(builders.workload("w", HIDDEN))))
    assert "no mend is known" not in words.replace("what stays; no mend is known", "")
    assert "brings anything while the other walls stay" in words


def test_what_all_the_remedies_bring_is_never_more_than_without_walls() -> None:
    for workload in (builders.signal(), builders.false_sharing(), builders.many_walls()):
        (found,) = explained(builders.result(workload)).workloads
        assert found.clean.relative.usual > 0.9
        for remedy in found.remedies:
            assert 1 <= remedy.gain <= found.clean.times(found.now) + 1e-9
            assert remedy.after.times(found.now) == pytest.approx(remedy.gain)
        if found.together is not None:
            best = max(remedy.gain for remedy in found.remedies)
            assert best <= found.together.times(found.now) + 1e-9


def test_debians_kernel_is_helped_by_what_was_measured_to_help() -> None:
    result = builders.result(builders.signal(), builders.false_sharing())
    signal, overlay = explained(result).workloads
    assert named(signal)[0] == "the whole series"
    assert set(named(overlay)) == {"series overlayfs", "Linux 6.13"}
    assert (overlay.of, overlay.scope) == ("CPUs", "within")


def test_what_there_is_to_do_is_told_once() -> None:
    options = sorted(mends.OPTIONS)
    assert sorted(mends.HOW) == options
    remedy = explained(builders.result(builders.signal())).workloads[0].remedies[0]
    told = [
        remedy.model_copy(update={"kind": "option", "name": mends.OPTIONS[one], "option": one})
        for one in options
    ]
    result = builders.result(builders.signal(), builders.false_sharing())
    found = explained(result)
    each = [one.model_copy(update={"remedies": [remedy, *told]}) for one in found.workloads]
    words = " ".join(shown(found.model_copy(update={"workloads": each})).split())
    assert words.count("how series: make deb makes packages") == 1
    for one in options:
        assert words.count(f"{mends.OPTIONS[one]}: {mends.HOW[one]}") == 1


def test_where_nothing_helps_there_is_nothing_to_do() -> None:
    assert "how" not in shown(explained(builders.result(builders.isolated()))).split()


def test_a_workload_without_walls_has_nothing_to_mend() -> None:
    found = explained(builders.result(builders.isolated()))
    (only,) = found.workloads
    assert (only.remedies, only.together, only.left, only.enough) == ([], None, [], [])
    assert "no wall: nothing here would help" in shown(found)


def _document(*found: Explained) -> Explanation:
    result = builders.result()
    return Explanation(kernel=result.kernel, profile=PROFILE, workloads=list(found))


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_row_is_wider_than_the_terminal(width: int) -> None:
    result = builders.result(builders.signal(), builders.false_sharing(), builders.many_walls())
    text = shown(explained(result), width)
    assert all(cell_len(line) <= width for line in text.splitlines())
    words = " ".join(text.split())
    assert "as much as all bring: the whole series" in words
    assert re.search("as much as all bring: [^;]*; or ", words)
    assert "no mend is known that would help" in words


def test_the_json_fits_its_schema_and_is_the_same_each_time() -> None:
    result = builders.result(builders.signal(), builders.many_walls(12))
    text = document.dump(_with_check(result))
    jsonschema.validate(json.loads(text), document.schema(Explanation))
    assert text == document.dump(_with_check(result))
    assert Explanation.model_validate_json(text).checked is not None


# What is run


def _with_check(result: Result) -> Explanation:
    found = explained(result)
    came = _told(result, builders.signal())
    both = checked.Checked(checks=[came], failed=[])
    return found.model_copy(update={"checked": both})


def _told(result: Result, after: WorkloadResult) -> checked.Check:
    """What is told of a signal that was run with the series."""
    found = explained(result)
    (trial, *_) = checked.trials(result, found.workloads[0])
    before = (result.workloads[0], found.workloads[0])
    return checked.told(result, PROFILE, trial, before, builders.result(after))


def test_the_series_is_run_beside_the_same_without_it() -> None:
    result = builders.result(builders.signal())
    (trial,) = checked.trials(result, explained(result).workloads[0])
    assert (trial.kernel, trial.beside, trial.option) == ("partywall", "stock", None)
    assert {"ucounts/0001", "apparmor/0001"} <= trial.series
    stock = result.kernel.model_copy(update={"source": "stock (linux-source 6.12.117)"})
    (own,) = checked.trials(
        result.model_copy(update={"kernel": stock}), explained(result).workloads[0]
    )
    assert (own.kernel, own.beside) == ("partywall", None)
    newer = stock.model_copy(update={"source": "debian 7.3.4", "release": "7.3.4+deb13-cloud"})
    (later,) = checked.trials(
        result.model_copy(update={"kernel": newer}), explained(result).workloads[0]
    )
    assert (later.kernel, later.beside) == ("partywall@7.3", "stock@7.3")
    # Which has no patch for AppArmor.
    assert not any(name.startswith("apparmor/") for name in later.series)


def test_a_release_is_run_as_debian_has_it_and_an_option_on_the_kernel_at_hand(
    known: Known,
) -> None:
    known(
        upstream("a", "6.15"),
        upstream("b", "7.0"),
        Mend(object="c", by="option", option="layers", says="it", source="here"),
    )
    workload = builders.workload("w", [wall("a", 8.0, 1), wall("b", 8.0, 2), wall("c", 8.0, 3)])
    result = builders.result(workload)
    release, option = checked.trials(result, explained(result, at=4).workloads[0])
    assert release.kernel == checked.NEWEST
    assert "Linux 7.0" in release.name
    assert (option.kernel, option.option) == (None, "layers")


def test_a_mend_that_is_hidden_is_run_all_the_same(known: Known) -> None:
    mend = by_series("b", "one/0001")
    known(mend, upstream("c", "7.1"))
    result = builders.result(builders.workload("w", HIDDEN))
    (found,) = explained(result).workloads
    assert found.remedies == []
    series, release = checked.trials(result, found, [mend, upstream("c", "7.1")])
    assert series.kernel == "partywall"
    assert "Linux 7.1" in release.name
    assert checked.trials(result, found) == []


def test_a_mend_that_takes_nothing_is_not_among_what_a_remedy_brings(known: Known) -> None:
    nothing = upstream("b", "6.15", part=True, most=0.0, says="nothing")
    known(upstream("a", "6.15", says="all"), nothing)
    remedy = of(one(wall("a", 8.0, 1), wall("b", 0.5, 2)), "Linux 6.15")
    assert not remedy.at_most
    assert len(remedy.says) == 1
    assert remedy.says[0].endswith("all")


def test_what_came_is_told_beside_what_was_predicted() -> None:
    result = builders.result(builders.signal())
    left = builders.signal().walls[1]
    assert left.object.name == "init_ucounts"
    new = wall("new", 1.0, 9)
    came = _told(result, builders.workload("signal", [left, new]))
    assert came.predicted.transfers == 0.0
    assert came.measured.transfers == pytest.approx(3.0)
    assert (came.still, came.new) == (["init_ucounts"], ["new"])
    assert came.predicted.times(came.now) > came.measured.times(came.now) > 1
    same = _told(result, builders.workload("signal", []))
    assert (same.still, same.new) == ([], [])


def test_a_wall_of_a_type_that_grew_into_another_cache_is_the_same_wall() -> None:
    def of_cache(name: str) -> Line:
        line = builders.signal().walls[0]
        return line.model_copy(update={"object": line.object.model_copy(update={"name": name})})

    before = builders.workload("signal", [of_cache("kmalloc-256: struct kernfs_root")])
    after = builders.workload("signal", [of_cache("kmalloc-512: struct kernfs_root")])
    result = builders.result(before)
    found = explained(result)
    trial = checked.Trial("partywall", "partywall")
    both = (result.workloads[0], found.workloads[0])
    came = checked.told(result, PROFILE, trial, both, builders.result(after))
    assert (came.still, came.new) == ([], [])
    other = builders.workload("signal", [of_cache("kmalloc-512: struct other")])
    came = checked.told(result, PROFILE, trial, both, builders.result(other))
    assert came.new == ["kmalloc-512: struct other"]


def test_a_wall_of_no_structure_is_another_one_in_another_cache() -> None:
    def of_cache(size: int) -> WorkloadResult:
        line = builders.signal().walls[0]
        name = f"kmalloc-{size}: unsigned long"
        thing = line.object.model_copy(update={"name": name})
        return builders.workload("signal", [line.model_copy(update={"object": thing})])

    result = builders.result(of_cache(128))
    both = (result.workloads[0], explained(result).workloads[0])
    trial = checked.Trial("partywall", "partywall")
    came = checked.told(result, PROFILE, trial, both, builders.result(of_cache(2048)))
    assert came.new == ["kmalloc-2048: unsigned long"]
    came = checked.told(result, PROFILE, trial, both, builders.result(of_cache(128)))
    assert came.new == []


def test_what_was_run_is_shown_in_80_columns() -> None:
    result = builders.result(builders.signal())
    found = _with_check(result)
    assert found.checked is not None
    failed = checked.Failure(title="w, x", operation="one", why="the guest failed")
    came = found.checked.model_copy(update={"failed": [failed]})
    text = shown(found.model_copy(update={"checked": came}))
    assert all(cell_len(line) <= 80 for line in text.splitlines())
    words = " ".join(text.split())
    assert "still a wall: init_ucounts, kmalloc-256: struct aa_label" in words
    assert "not run: w, x: the guest failed" in words


def test_what_fails_is_told_and_stops_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    result = builders.result(builders.signal(), builders.false_sharing())
    wanted = result.workloads
    broken = EnvironmentProblem("no such package", "look for it")

    def resolve(request: Any, progress: Any) -> str:
        if request.kernel in ("stock", checked.NEWEST):
            raise broken
        return str(request.kernel)

    def measured(result: Result, kernel: str, option: Any, one: Any, progress: Any) -> Result:
        return builders.result(one.model_copy(update={"walls": [], "objects": []}))

    monkeypatch.setattr(checked, "resolve", resolve)
    monkeypatch.setattr(checked, "_measured", measured)
    came, status = checked.check(result, explained(result), wanted, Quiet())
    assert [(one.title, one.name) for one in came.checks] == [
        ("signal", "partywall"),
        ("overlay/access-shared", "partywall"),
    ]
    assert all(one.beside is None for one in came.checks)
    assert {one.title.partition(", ")[2] for one in came.failed} == {
        "stock",
        f"{checked.NEWEST}, for Linux 6.13",
    }
    assert all(one.why == "no such package; look for it" for one in came.failed)
    assert status == broken.exit_code


def test_what_was_measured_is_run_as_it_was() -> None:
    server = builders.workload("redis", [], variant="get")
    assert checked.workload_of(server).title == "redis/get"
    with pytest.raises(UsageProblem, match="a program of yours"):
        checked.workload_of(builders.workload("mine", []))
    result = builders.result(builders.signal())
    usual = checked.guest.command_line(result.kernel.release)
    older = usual.replace("randomize_kstack_offset=off ", "")
    assert older != usual
    for line, expected in (
        (usual, ""),
        (f"{usual} apparmor=0", "apparmor=0"),
        (older, ""),
        (f"{older} lsm=integrity quiet", "lsm=integrity"),
    ):
        there = result.environment.model_copy(update={"command_line": line})
        assert checked.parameters(result.model_copy(update={"environment": there})) == expected
