# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers of a root that somebody else made: dynamic programs, several at once."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from checks import PARTYWALL, Checked

from partywall import workloads
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest.image import with_libraries
from partywall.kernels import Kernel
from partywall.measure import run
from partywall.workloads import Root

# What a container has to be for its image; a pipe has processes beside each other.
LOOKS = 'test "$A" = b && test "$PWD" = /srv && cat /etc/hosts /mark | cat'


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of this machine's dynamic shell and cat."""
    top = tmp_path_factory.mktemp("root")
    for name in ("dash", "cat"):
        program = shutil.which(name)
        assert program
        for path, data in with_libraries(Path(program), f"/bin/{name}").items():
            at = top / path.lstrip("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(data)
            at.chmod(0o755)
    (top / "mark").write_text("here\n")
    return top


def test_a_directory_is_the_root_of_containers(check: Callable[..., Checked], root: Path) -> None:
    looked = check("-n", "2", "--rootfs", str(root), "--", "dash", "-c", "cat /mark | cat")
    (found,) = looked.result.workloads
    assert found.workload == "dash"
    assert "users of the machine" in found.confinement
    # The second one of two reads what the first one has in the page cache.
    assert any("mark" in one.name for one in found.passing) or found.between > 0


def test_a_kernel_without_memory_devices_has_the_root_on_a_ram_disk(
    kernel: Kernel, root: Path
) -> None:
    assert kernel.config is not None
    told = kernel.config
    for option in ("CONFIG_ACPI_NFIT", "CONFIG_SQUASHFS"):
        told = told.replace(f"{option}=m", f"# {option} is not set")
    source = Root(kind="directory", what=str(root))
    command = ["dash", "-c", "cat /mark | cat"]
    cats = workloads.from_root(source, command, marked=None, window=None)
    bare, shape = replace(kernel, config=told), Topology(2, 1)
    outcome = run.check(run.Wanted(kernel=bare, workloads=[cats], topology=shape), Quiet())
    assert outcome.failures == {}
    assert outcome.result is not None
    (found,) = outcome.result.workloads
    assert found.operations == 2


def umoci(*words: str | Path) -> None:
    subprocess.run(["umoci", *words], check=True, capture_output=True, timeout=60)


def image(layout: Path, root: Path) -> None:
    """An image of a root, called "one"."""
    umoci("init", "--layout", layout)
    umoci("new", "--image", f"{layout}:one")
    umoci("insert", "--image", f"{layout}:one", root, "/")


def test_an_image_of_another_tool_runs_as_it_says(
    check: Callable[..., Checked], root: Path, tmp_path: Path
) -> None:
    layout = tmp_path / "layout"
    image(layout, root)
    config = ["--config.env", "A=b", "--config.workingdir", "/srv", "--config.entrypoint", "dash"]
    more = ["--config.cmd", "-c", "--config.cmd", LOOKS]
    umoci("config", "--image", f"{layout}:one", *config, *more)
    (found,) = check("-n", "2", "--image", f"{layout}:one").result.workloads
    assert found.operation == f"one run of layout:one of {layout}:one"


# All that a service says of its containers, asked from inside of one.
ASKS = """
fail() { echo "not so: $*"; exit 1; }
is() { [ "$2" = "$3" ] || fail "$1 is '$2'"; }
is command "$0 $*" "/asks two words"
is environment "$A $FROM_IMAGE ${GONE-none}" "b kept none"
is place "$PWD" /srv
while read -r name value more; do
    case $name in
    Uid:) is user "$value" 1234 ;;
    Gid:) is group "$value" 77 ;;
    Groups:) is groups "$value $more" "78 " ;;
    CapBnd:) is capabilities "$value" 0000000000000400 ;;
    NoNewPrivs:) is privileges "$value" 1 ;;
    Seccomp:) is seccomp "$value" 0 ;;
    esac
done </proc/self/status
is files "$(ulimit -Sn) $(ulimit -Hn)" "100 200"
(: >/mark) 2>/dev/null && fail "the root can be written"
(: >/run/new) 2>/dev/null || fail "/run can not be written"
is port "$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)" 99
is cpus "$(cat /sys/fs/cgroup/cpu.max)" "50000 100000"
is memory "$(cat /sys/fs/cgroup/memory.max)" 67108864
is tasks "$(cat /sys/fs/cgroup/pids.max)" 200
while read -r _ place _ options _; do
    case $place:$options in
    /dev/shm:*size=1024k*) ;;
    /dev/shm:*) fail "shm: $options" ;;
    esac
done </proc/mounts
"""
COMPOSE = """
services:
  asks:
    image: registry.example/team/asks:${TAG:-1}
    command: two words
    entrypoint: ["dash", "/asks", ]
    environment: {A: b, GONE: }
    user: somebody
    group_add: [more]
    working_dir: /srv
    cpus: 0.5
    mem_limit: 64m
    pids_limit: 200
    cap_drop: [ALL]
    cap_add: [NET_BIND_SERVICE]
    security_opt: ["no-new-privileges:true", "seccomp:unconfined"]
    read_only: true
    tmpfs: "/run:mode=1777"
    shm_size: 1m
    ulimits: {nofile: {soft: 100, hard: 200}}
    sysctls: {net.ipv4.ip_unprivileged_port_start: 99}
    deploy: {replicas: 2}
    ports: ["80:80"]
"""


def test_a_service_of_a_compose_file_is_as_that_says(
    check: Callable[..., Checked], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GONE", "TAG"):
        monkeypatch.delenv(name, raising=False)
    mine = tmp_path / "root"
    shutil.copytree(root, mine)
    (mine / "asks").write_text(ASKS)
    (mine / "etc").mkdir()
    (mine / "etc/passwd").write_text("root:x:0:0::/root:\nsomebody:x:1234:77::/srv:\n")
    (mine / "etc/group").write_text("of:x:77:\nmore:x:78:\n")
    layout = tmp_path / "asks"
    image(layout, mine)
    config = ["--config.env", "FROM_IMAGE=kept", "--config.env", "GONE=here", "--config.cmd", "no"]
    umoci("config", "--image", f"{layout}:one", *config)
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    (found,) = check("--compose", str(tmp_path / "compose.yaml")).result.workloads
    assert found.title == "asks/compose"
    assert (found.topology.containers, found.topology.cpus) == (2, 1)
    assert found.confinement == (
        "docker (no capabilities, no new privileges, read-only root, 0.5 CPUs, 64 MiB, 200 tasks, "
        "+CAP_NET_BIND_SERVICE, users of the machine, no seccomp)"
    )


def test_a_program_that_is_not_there_is_said(root: Path) -> None:
    command = [PARTYWALL, "check", "-n", "2", "--rootfs", root, "--", "no-such-program"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 3
    assert "no-such-program: No such file or directory" in done.stderr
