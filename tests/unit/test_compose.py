# SPDX-License-Identifier: GPL-2.0-or-later
"""Compose files are read for what a guest can, and what it can't is told; none is a traceback."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partywall.core.errors import PartywallError, UsageProblem
from partywall.workloads import Service, compose
from partywall.workloads.compose import documents, images
from partywall.workloads.compose.variables import Variables
from partywall.workloads.service import Limit, Tmpfs

Read = Callable[..., compose.Composed]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read a file of this text, whose images are all there."""

    def of(text: str, name: str | None = None, **environment: str) -> compose.Composed:
        file = tmp_path / "compose.yaml"
        file.write_text(text)
        (tmp_path / "one.tar").touch()
        return compose.read(file, name, (), environment)

    return of


@pytest.fixture
def service(read: Read) -> Callable[..., Service]:
    """Read a service of these lines."""

    def of(*lines: str, **environment: str) -> Service:
        text = "services:\n  one:\n    image: one\n" + "".join(f"    {line}\n" for line in lines)
        return read(text, **environment).service

    return of


def told(read: Read, *lines: str, **environment: str) -> list[str]:
    """What is told of a service of these lines, beside its image."""
    text = "services:\n  one:\n    image: one\n" + "".join(f"    {line}\n" for line in lines)
    return [line.removeprefix("compose.yaml: ") for line in read(text, **environment).told[1:]]


CONFINED = ("seccomp", "apparmor", "systempaths")


def tmpfs(place: str, *options: str) -> dict[str, Any]:
    return {"tmpfs": (Tmpfs(place=place, options=options),)}


def limit(name: str, soft: int, hard: int) -> dict[str, Any]:
    return {"limits": (Limit(kind=f"RLIMIT_{name}", soft=soft, hard=hard),)}


FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("command: a 'b c' $$d", {"command": ("a", "b c", "$d")}),
    ("command: [a, 'b c']", {"command": ("a", "b c")}),
    ("command: ''", {"command": ()}),
    ("command:", {"command": None}),
    ("entrypoint: []", {"entrypoint": ()}),
    ("entrypoint: [sh, -c, 'a b', 8080]", {"entrypoint": ("sh", "-c", "a b", "8080")}),
    ("environment: {N: 1.10, E: ''}", {"environment": (("N", "1.10"), ("E", ""))}),
    ("environment: {Z: no, T: 1:30}", {"environment": (("Z", "no"), ("T", "1:30"))}),
    ("environment: [A=b=c, E=]", {"environment": (("A", "b=c"), ("E", ""))}),
    ("environment: [HERE, GONE]", {"environment": (("HERE", "yes"), ("GONE", None))}),
    ("environment: {HERE: , A: $HERE}", {"environment": (("HERE", "yes"), ("A", "yes"))}),
    ("user: '1000:7'", {"user": "1000:7"}),
    ("user: 1000", {"user": "1000"}),
    ("group_add: [mail, 8]", {"groups": ("mail", "8")}),
    ("working_dir: /srv", {"cwd": "/srv"}),
    ("cpus: 0.5", {"cpus": 0.5}),
    ("cpus: '${MANY:-2}'", {"cpus": 2.0}),
    ("cpus: 0", {"cpus": None}),
    ("mem_limit: 64m", {"memory": 64 << 20}),
    ("mem_limit: 1.5GB", {"memory": 3 << 29}),
    ("mem_limit: 1073741824", {"memory": 1 << 30}),
    ("pids_limit: 100", {"pids": 100}),
    ("pids_limit: -1", {"pids": None}),
    ("deploy: {resources: {limits: {cpus: '1.5'}}}", {"cpus": 1.5}),
    ("deploy: {resources: {limits: {memory: 1g, pids: 9}}}", {"memory": 1 << 30, "pids": 9}),
    ("deploy: {replicas: 3}", {"replicas": 3}),
    ("scale: 2", {"replicas": 2}),
    ("cap_add: [net_admin, CAP_SYS_TIME]", {"added": ("CAP_NET_ADMIN", "CAP_SYS_TIME")}),
    ("cap_drop: [ALL]", {"dropped": ("ALL",)}),
    ("security_opt: ['no-new-privileges:true']", {"no_new_privileges": True}),
    ("security_opt: [no-new-privileges]", {"no_new_privileges": True}),
    ("security_opt: ['no-new-privileges:false']", {"no_new_privileges": False}),
    ("security_opt: ['seccomp:unconfined']", {"seccomp": "unconfined"}),
    ("security_opt: [apparmor=unconfined]", {"apparmor": "unconfined"}),
    ("security_opt: ['systempaths=unconfined']", {"systempaths": "unconfined"}),
    ("privileged: true", {"added": ("ALL",), **dict.fromkeys(CONFINED, "unconfined")}),
    ("read_only: true", {"read_only": True}),
    ("read_only: '${RO:-false}'", {"read_only": False}),
    ("tmpfs: /run/", tmpfs("/run", "noexec", "nosuid", "nodev")),
    ("tmpfs: ['/a:size=1m,exec']", tmpfs("/a", "nosuid", "nodev", "size=1m", "exec")),
    (
        "volumes: [{type: tmpfs, target: /a, tmpfs: {size: 1k, mode: 0700}}]",
        tmpfs("/a", "noexec", "nosuid", "nodev", "size=1024", "mode=700"),
    ),
    (
        "volumes: [{type: tmpfs, target: /dev/shm, tmpfs: {mode: 448}}]",
        tmpfs("/dev/shm", "noexec", "nosuid", "nodev", "mode=700"),
    ),
    ("ulimits: {nofile: {soft: 10, hard: 20}}", limit("NOFILE", 10, 20)),
    ("ulimits: {nproc: -1}", limit("NPROC", -1, -1)),
    ("sysctls: {net.core.somaxconn: 1024}", {"sysctls": (("net.core.somaxconn", "1024"),)}),
    ("sysctls: [net.core.somaxconn=1024]", {"sysctls": (("net.core.somaxconn", "1024"),)}),
    ("shm_size: 2m", {"shm": 2 << 20}),
]  # fmt: skip


@pytest.mark.parametrize(("line", "fields"), FIELDS, ids=[line for line, _ in FIELDS])
def test_a_field_is_read_in_each_of_its_forms(
    service: Callable[..., Service], line: str, fields: dict[str, Any]
) -> None:
    found = service(line, HERE="yes")
    usual = Service(name="one", image="one")
    assert found == usual.model_copy(update=fields)


def test_all_that_a_service_can_have_is_read_from_some_line() -> None:
    read_ = {name for _, fields in FIELDS for name in fields}
    assert set(Service.model_fields) - read_ == {"name", "image", "left_out"}


def test_variables_of_files_are_below_those_of_the_service(
    service: Callable[..., Service], tmp_path: Path
) -> None:
    (tmp_path / "a.env").write_text(
        "# told\nexport A='1 $2'\nB=2\nC=$B-${OF_DOT}\nF=\"$B \\$B\" # and\nHERE=file\nG=$HERE\n"
    )
    (tmp_path / ".env").write_text("OF_DOT=${HERE}dot\nHERE=dot\n")
    found = service(
        "env_file: [a.env, {path: none.env, required: false}]",
        "environment: {B: 3, D: '${OF_DOT}', E: '${HERE}'}",
        HERE="here",
    )
    assert dict(found.environment) == {
        "A": "1 $2",
        "B": "3",
        "C": "2-heredot",
        "F": "2 $B",
        "HERE": "file",
        # What is set outside of the file comes first.
        "G": "here",
        "D": "heredot",
        "E": "here",
    }


def test_what_is_no_variable_of_a_file_is_told_and_what_is_no_file_refused(
    read: Read, tmp_path: Path
) -> None:
    (tmp_path / "a.env").write_text('A=1\n=2\nB="open\nC=$GONE\n')
    assert told(read, "env_file: a.env") == [
        "a.env:2 is left out: it is no variable",
        "a.env:3 is left out: it is no variable",
        "a.env:4: GONE is not set, and so is empty",
    ]
    for text, why in ((b"A=${B:?set it}\n", "a.env:1: B is not set: set it"), (b"\xff", "utf-8")):
        (tmp_path / "a.env").write_bytes(text)
        with pytest.raises(UsageProblem, match=why):
            told(read, "env_file: a.env")
    (tmp_path / "a.env").write_bytes(b"A=1\0")
    with pytest.raises(UsageProblem, match="is no file of variables"):
        told(read, "env_file: a.env")


@pytest.mark.parametrize(
    ("text", "became"),
    [
        ("$A-${A}", "a-a"),
        ("${E:-x}${E-x}${N:-x}${N-y}", "xxy"),
        ("${A:+x}${E:+x}${E+y}${N+z}", "xy"),
        ("${N:-${A}${N:-}}b", "ab"),
        ("${N:-$${A}}", "${A}"),
        ("${A:?no}${E?no}", "a"),
        ("$$A $${A}", "$A ${A}"),
        ("$N!", "!"),
    ],
)
def test_variables_are_replaced_as_the_specification_has_it(text: str, became: str) -> None:
    assert Variables({"A": "a", "E": ""}).expand(text) == became


@pytest.mark.parametrize("text", ["${N:?set $A}", "${N?set $A}", "${E:?set $A}"])
def test_a_variable_that_has_to_be_set_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"[NE] is not set: set a"):
        Variables({"A": "a", "E": ""}).expand(text)


@pytest.mark.parametrize("text", ["$", "${", "${}", "${A", "$ A", "${A:x}", "${A:-${B}", "$1"])
def test_what_is_no_variable_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no variable|is not closed"):
        Variables({}).expand(text)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("volumes: [/data]", ["one.volumes is left out", "its own root"]),
        ("volumes: [{type: tmpfs, target: /a}, /data]", ["one.volumes is left out"]),
        (
            "volumes: [{type: tmpfs, target: /a, read_only: true}]",
            ["one.volumes.read_only is left"],
        ),
        (
            "volumes: [{type: tmpfs, target: /a, tmpfs: {uid: 7}}]",
            ["one.volumes.tmpfs.uid is left"],
        ),
        ("env_file: [{path: a, required: false, format: raw}]", ["one.env_file.format is left"]),
        ("ports: ['22:22']", ["one.ports is left out", "--client"]),
        ("depends_on: [db]", ["one.depends_on is left out"]),
        ("networks: [back]", ["one.networks is left out"]),
        ("network_mode: host", ["one.network_mode is left out"]),
        ("secrets: [key]", ["one.secrets is left out"]),
        ("healthcheck: {test: true}", ["one.healthcheck is left out"]),
        ("platform: linux/arm64", ["one.platform is left out", "amd64"]),
        ("misspelt: 1", ["one.misspelt is left out", "not known"]),
        ("deploy: {placement: {}}", ["one.deploy.placement is left out"]),
        ("deploy: {resources: {reservations: {}}}", ["one.deploy.resources.reservations is left"]),
        ("deploy: {resources: {limits: {devices: 1}}}", ["one.deploy.resources.limits.devices"]),
        ("security_opt: ['label:disable']", ["one.security_opt label:disable", "SELinux"]),
        ("security_opt: ['seccomp:a.json']", ["one.security_opt seccomp:a.json", "Docker's"]),
        ("security_opt: ['strange']", ["one.security_opt strange", "not known"]),
        ("privileged: true", ["no devices"]),
        ("sysctls: {kernel.panic: 1}", ["one.sysctls kernel.panic is left out", "whole machine"]),
        ("command: $GONE", ["GONE is not set"]),
    ],
)
def test_what_a_guest_can_not_is_told_in_one_line(read: Read, line: str, words: list[str]) -> None:
    (said,) = told(read, line)
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    "line",
    [
        "labels: {a: b}",
        "x-mine: 1",
        "container_name: c",
        "network_mode: none",
        "build: .",
        "platform: linux/amd64",
        "volumes: [{type: tmpfs, target: /a}]",
        "ports:",
    ],
)
def test_what_makes_no_difference_is_not_told(read: Read, line: str) -> None:
    assert told(read, line) == []


def test_what_a_guest_can_not_goes_with_the_service_without_paths(
    read: Read, tmp_path: Path
) -> None:
    found = read("services:\n  one:\n    image: one\n    ports: ['80:80']\n    runtime: x\n")
    assert len(found.left_out) == 2
    assert all("left out" in line and str(tmp_path) not in line for line in found.left_out)


def test_aliases_and_merges_are_read(read: Read) -> None:
    text = """
    x-one: &usual {image: one, environment: &env {A: b}, user: mail}
    services:
      one: {<<: *usual, user: root, environment: {<<: *env, C: d}}
    """
    found = read(text).service
    assert (found.image, found.user) == ("one", "root")
    assert dict(found.environment) == {"A": "b", "C": "d"}


def bomb(width: int, depth: int) -> str:
    lines = [f"x0: &a0 [{', '.join(['x'] * width)}]"]
    for number in range(1, depth):
        lines.append(f"x{number}: &a{number} [{', '.join([f'*a{number - 1}'] * width)}]")
    return "\n".join([*lines, "services: {one: {image: one}}"])


def merges(width: int, depth: int) -> str:
    lines = ["x0: &a0 {a: b}"]
    for number in range(1, depth):
        lines.append(f"x{number}: &a{number} {{<<: [{', '.join([f'*a{number - 1}'] * width)}]}}")
    return "\n".join([*lines, "services: {one: {image: one}}"])


def of(line: str) -> str:
    return f"services:\n  one:\n    image: one\n    {line}\n"


BROKEN: dict[str, tuple[str, str]] = {
    "nothing": ("", "nothing in it"),
    "a text": ("hello", "has no services"),
    "a list": ("[1, 2]", "has no services"),
    "two documents": ("services: {}\n---\nservices: {}\n", "has no services"),
    "no table": ("services: [one]", "no table of services"),
    "a service that is none": ("services: {one: 3}", "services.one: it is no table"),
    "no image": ("services: {one: {user: a}}", "it has no image"),
    "no such image": ("services: {one: {image: other}}", "no archive of other"),
    "built alone": ("services: {two: {build: .}}", "what two is built from"),
    "no YAML": ("services: {one: [", "compose.yaml:1: expected the node content"),
    "a tab": ("services:\n\tone: 1", "cannot start any token"),
    "bytes": ("\x01\x02", "is no YAML"),
    "a name twice": ("services: {one: {image: a, image: b}}", "'image' stands there twice"),
    "a name that is a list": ("services: {one: {? [a] : b}}", "a name is no text"),
    "a name that is nothing": ("services: {one: {~: b}}", "a name is no text"),
    "a tag of Python's": (of("user: !!python/object/apply:os.system [true]"), "is not read"),
    "a tag of numbers": (of("user: !!int x"), "!!int is not read"),
    "a tag of times": (of("user: !!timestamp x"), "!!timestamp is not read"),
    "a tag of Compose's": (of("ports: !reset []"), "!reset is not read"),
    "a boolean that is none": (of("read_only: !!bool x"), "neither true nor false"),
    "an anchor that is none": (of("user: *gone"), "undefined alias"),
    "an alias in itself": ("services: &a {one: *a}", "within what it stands for"),
    "a merge of nothing": (of("<<: 3"), "expected a mapping"),
    "a bomb of aliases": (bomb(10, 12), "values, with what aliases stand for"),
    "a bomb of merges": (merges(10, 12), "values, with what aliases stand for"),
    "depth": ("[" * 5000, "within each other"),
    "some depth": (of(f"x-a: {'[' * 150}{']' * 150}"), "within each other"),
    "depth of aliases": (bomb(1, 150), "within each other"),
    "a zero": (of(r'user: "a\0b"'), "a character that no text has"),
    "half of a character": (of(r'user: "a\ud800b"'), "a character that no text has"),
    "a command that is a number": (of("command: {a: b}"), "one.command: "),
    "quotes": (of("command: a 'b"), "No closing quotation"),
    "CPUs that are a list": (of("cpus: [1]"), "one.cpus: Value error, it is no number"),
    "CPUs without end": (of("cpus: inf"), "is no number of CPUs"),
    "less than no CPUs": (of("cpus: -1"), "is no number of CPUs"),
    "hardly any CPU": (of("cpus: 0.001"), "less than a hundredth"),
    "memory that is a word": (of("mem_limit: much"), "'much' is no size"),
    "memory that is a list": (of("mem_limit: [1]"), "is no size"),
    "a capability that is none": (of("cap_add: [FLY]"), "no capability 'FLY'"),
    "capabilities that are a text": (of("cap_add: FLY"), "one.cap_add: "),
    "a place that is not whole": (of("working_dir: srv"), "one.working_dir: "),
    "a tmpfs of all": (of("tmpfs: /"), "'/' is no place"),
    "a tmpfs that leads out": (of("tmpfs: /../a"), "is no place"),
    "a volume that is a number": (of("volumes: [[1]]"), "volumes: "),
    "a volume of nothing": (of("volumes: [{type: tmpfs}]"), "has no target"),
    "a mode that is none": (of("volumes: [{type: tmpfs, target: /a, tmpfs: {mode: 09}}]"), "'09'"),
    "a mode of nobody's": (
        of("volumes: [{type: tmpfs, target: /a, tmpfs: {mode: 4096}}]"),
        "'4096' is no mode",
    ),
    "a bomb in a boolean": (
        "x: !!bool [&a0 [x], " + ", ".join(f"&a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 12))
        + "]",
        "!!bool has values in it",
    ),
    "a text of values": (of("user: !!str {a: b}"), "!!str has values in it"),
    "a long boolean": (of(f"read_only: !!bool {'x' * 999}"), "neither true nor false"),
    "a long tag": (of(f"user: !{'x' * 999} y"), "is not read"),
    "a long alias": (of(f"user: *{'x' * 999}"), "undefined alias"),
    "a name of lines twice": (of(r'labels: {"a\nb": c, "a\nb": d}'), "'a?b' stands there twice"),
    "no character": (of(r'user: "\UFFFFFFFF"'), "is no YAML"),
    "a version of many digits": (f"%YAML 1.{'1' * 5000}\n---\n{of('user: a')}", "is no YAML"),
    "memory of many digits": (of(f"mem_limit: {'9' * 400}"), "more than any machine has"),
    "shared memory of many digits": (of(f"shm_size: {'9' * 5000}"), "more than any machine has"),
    "memory of 2^63": (of("mem_limit: 8192p"), "more than any machine has"),
    "tasks of 2^63": (of(f"pids_limit: {2**63}"), "one.pids_limit: "),
    "less than no tasks": (of("pids_limit: -2"), "one.pids_limit: "),
    "many replicas": (of("scale: 1000000"), "one.scale: "),
    "many CPUs": (of("cpus: 1e300"), "is no number of CPUs"),
    "a limit below none": (of("ulimits: {nofile: -5}"), "can't be -5"),
    "a kind that is a list": ("apiVersion: v1\nkind: [a]\n", "kind is no text"),
    "a kind that is a table": ("apiVersion: v1\nkind: {a: b}\n", "kind is no text"),
    "a file of a long name": (of(f"env_file: {'a' * 256}"), "there is no such file"),
    "many files": (of(f"env_file: [{', '.join(['a'] * 33)}]"), "one.env_file: "),
    "variables without end": (
        f'x: &a "{"y" * 100_000}$$"\n' + of(f"x-l: [{', '.join(['*a'] * 200)}]"),
        "variables make more than 16,777,216 characters",
    ),
    "documents without end": (f"a: [{'b,' * 60_000}]\n---\n" * 2, "more than 100,000 values"),
    **{
        f"a tmpfs over {place}": (of(f"tmpfs: {place}"), "hides what a container needs")
        for place in ("/proc", "/proc/a", "/sys/", "/run/./partywall", "/run/partywall-launch",
                      "/dev", "/etc/hosts")
    },
    "a limit that is none": (of("ulimits: {wings: 2}"), "no limit 'wings'"),
    "a limit above itself": (of("ulimits: {nofile: {soft: 3, hard: 2}}"), "can't be 3"),
    "a limit of words": (of("ulimits: {nofile: many}"), "one.ulimits.nofile"),
    "replicas of words": (of("deploy: {replicas: many}"), "one.deploy.replicas"),
    "a list of variables": (of("environment: [[A]]"), "texts such as NAME=VALUE"),
    "a variable that is true": (of("environment: {A: true}"), "one.environment.A"),
    "a variable without a name": (of("environment: ['=a']"), "no name of a variable"),
    "a file that is not there": (of("env_file: gone.env"), "gone.env: there is no such file"),
    "a variable that must be set": (of("user: ${GONE:?who}"), "GONE is not set: who"),
    "a variable that is none": (of("user: $ "), "is no variable"),
    "variables in each other": (of(f"user: {'${A:-' * 60}{'}' * 60}"), "within each other"),
    "extends": (of("extends: {service: two}"), "one.extends takes from another place"),
    "include": ("include: [a.yaml]\nservices: {one: {image: one}}", "include takes from another"),
}  # fmt: skip


@pytest.mark.parametrize("why", BROKEN)
def test_what_is_wrong_is_said_in_two_lines(read: Read, why: str) -> None:
    text, said = BROKEN[why]
    with pytest.raises(UsageProblem) as refused:
        read(text)
    assert said in refused.value.message
    assert "compose.yaml" in refused.value.message or "there is no" in refused.value.message
    for line in (refused.value.message, refused.value.hint or ""):
        assert "\n" not in line
        assert len(line) < 400


def test_a_file_that_is_too_long_or_not_there_is_refused(tmp_path: Path) -> None:
    long = tmp_path / "long.yaml"
    long.write_bytes(b"#" * (documents.LONGEST + 1))
    with pytest.raises(UsageProblem, match="more than 1 MiB"):
        compose.read(long)
    for place in (tmp_path, tmp_path / "gone.yaml"):
        with pytest.raises(UsageProblem, match="directory"):
            compose.read(place)


_TEXTS = st.text(max_size=6) | st.sampled_from(["1", "-1", "1m", "/a", "$A", "ALL", "a:b", "[a"])
_PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | _TEXTS
)
_VALUES = st.recursive(
    _PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from("soft hard path type target tmpfs limits resources A".split()), inner
        )
    ),
    max_leaves=6,
)
_NAMES = sorted(
    "command entrypoint environment env_file user group_add working_dir scale deploy cpus "
    "mem_limit pids_limit cap_add cap_drop security_opt privileged read_only tmpfs volumes "
    "ulimits sysctls "
    "shm_size network_mode platform build".split()
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=3))
def test_no_value_of_any_field_is_a_traceback(read: Read, fields: dict[str, Any]) -> None:
    yaml = pytest.importorskip("yaml")
    text = yaml.safe_dump({"services": {"one": {"image": "one", **fields}}}, allow_unicode=True)
    try:
        found = read(text)
    except PartywallError as refused:
        assert "\n" not in refused.message
    else:
        assert found.service.name == "one"


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from('\\"!&*<[]{}:,-%?|> \n0aFUxu~9'), max_size=24))
def test_no_bytes_of_a_file_are_a_traceback(read: Read, text: str) -> None:
    for whole in (text, of(f"user: {text}"), of(f'user: "{text}"')):
        try:
            read(whole)
        except PartywallError as refused:
            assert "\n" not in refused.message


def test_a_folder_that_nobody_may_enter_is_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pgdata").mkdir()
    (tmp_path / "one.tar").touch()
    stat = os.stat

    def denied(path: Any, *more: Any, **options: Any) -> os.stat_result:
        if "pgdata/" in str(path):
            raise PermissionError(13, "Permission denied")
        return stat(path, *more, **options)

    monkeypatch.setattr(os, "stat", denied)
    assert images.place("one", "x", (), tmp_path) == str(tmp_path / "one.tar")


def test_a_file_of_variables_is_bounded(read: Read, tmp_path: Path) -> None:
    for text, why in [
        ("#" * (1 << 16) + "\n", "more than 64 KiB"),
        (f"A=x{' ' * 1000}x", "is no file of variables"),
        ("A=x\n" + "A=$A$A\n" * 40, "variables make more than 1,048,576 characters"),
    ]:
        (tmp_path / "a.env").write_text(text)
        with pytest.raises(UsageProblem, match=why):
            told(read, "env_file: a.env")


def test_one_of_several_services_is_chosen(read: Read) -> None:
    text = "services: {one: {image: one}, two: {image: one, user: b, command: '${GONE:?}'}}"
    assert read(text, "one").service.user is None
    with pytest.raises(UsageProblem, match="has 2 services") as refused:
        read(text)
    assert refused.value.hint == "choose one with --service: one, two"
    with pytest.raises(UsageProblem, match="has no service 'three'"):
        read(text, "three")


@pytest.mark.parametrize(
    ("image", "there", "found"),
    [
        ("redis", ["redis.tar"], "redis.tar"),
        ("docker.io/library/redis:7", ["redis.tar", "redis_7.tar.gz"], "redis_7.tar.gz"),
        ("reg.example:5000/team/app", ["app.oci.tar"], "app.oci.tar"),
        ("reg.example/team/app:2", ["app.tar", "team-app.tar", "team_app-2.tgz"], "app.tar"),
        ("app@sha256:00", ["app.tar.zst"], "app.tar.zst"),
        ("app", ["app.yaml", "app.tar"], "app.tar"),
    ],
)
def test_an_image_is_the_archive_that_is_called_like_it(
    tmp_path: Path, image: str, there: list[str], found: str
) -> None:
    for name in there:
        (tmp_path / name).touch()
    assert images.place(image, "one", (), tmp_path) == str(tmp_path / found)


def test_an_image_is_where_it_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "a-b.tar").touch()
    (tmp_path / "a_b.tar").touch()
    usual, nowhere = tmp_path, tmp_path / "no"
    for name in ("redis", "redis:7", "docker.io/library/redis:7", "server"):
        place = images.place("docker.io/library/redis:7", "server", [f"{name}=x.tar:7"], usual)
        assert place == "x.tar:7"
    assert images.place("", "server", ["server=x.tar"], usual) == "x.tar"
    for given_, image, why in [
        (["redis:6=x.tar", str(tmp_path)], "redis:7", "no archive of redis:7"),
        (["x.tar"], "redis", "neither a folder nor NAME=ARCHIVE"),
        (["=x.tar"], "redis", "neither a folder nor NAME=ARCHIVE"),
        ([str(tmp_path)], "a/b", "may be any of a-b.tar, a_b.tar"),
        ([], "a", "No such file"),
    ]:
        with pytest.raises(UsageProblem, match=why):
            images.place(image, "server", given_, nowhere)


def test_a_layout_is_found_and_another_folder_is_not(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "oci-layout").touch()
    assert images.place("one", "x", (), tmp_path) == str(tmp_path / "one")
    with pytest.raises(UsageProblem, match="no archive of two"):
        images.place("two", "x", (), tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--compose", "a", "--image", "b"], "exclude each other"),
        (["--compose", "a", "--", "b"], "COMMAND and --compose exclude each other"),
        (["--service", "a"], "--service belongs to --compose"),
        (["--images", "a"], "--images belongs to --compose"),
        (["--compose", "/no-such-file"], "No such file"),
    ],
)
def test_options_that_do_not_go_together_are_told(arguments: list[str], said: str) -> None:
    status, _, complaint = run("check", *arguments)
    assert status == 2
    assert said in complaint
    assert len(complaint.splitlines()) == 2


def test_what_is_left_out_is_told_before_anything_is_made(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text("services: {one: {image: one, ports: ['1:1'], deploy: {replicas: 100}}}")
    (tmp_path / "one.tar").touch()
    status, out, complaint = run("check", "--kernel", "/no-such-kernel", "--compose", str(file))
    assert (status, out) == (2, "")
    first, second, third, *error = complaint.splitlines()
    assert first.startswith("partywall: compose.yaml: one is one, taken from ")
    assert second.startswith("partywall: compose.yaml: one.ports is left out: ")
    assert (
        third
        == "partywall: of 100 replicas 8 run: --containers has more run, --at 100 tells of all"
    )
    assert "one.tar is no archive" in error[0]
    assert len(error) == 2
