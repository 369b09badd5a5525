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


def test_an_image_of_another_tool_runs_as_it_says(
    check: Callable[..., Checked], root: Path, tmp_path: Path
) -> None:
    layout = tmp_path / "layout"

    def umoci(*words: str | Path) -> None:
        subprocess.run(["umoci", *words], check=True, capture_output=True, timeout=60)

    umoci("init", "--layout", layout)
    umoci("new", "--image", f"{layout}:one")
    umoci("insert", "--image", f"{layout}:one", root, "/")
    config = ["--config.env", "A=b", "--config.workingdir", "/srv", "--config.entrypoint", "dash"]
    more = ["--config.cmd", "-c", "--config.cmd", LOOKS]
    umoci("config", "--image", f"{layout}:one", *config, *more)
    (found,) = check("-n", "2", "--image", f"{layout}:one").result.workloads
    assert found.operation == f"one run of layout:one of {layout}:one"


def test_a_program_that_is_not_there_is_said(root: Path) -> None:
    command = [PARTYWALL, "check", "-n", "2", "--rootfs", root, "--", "no-such-program"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 3
    assert "no-such-program: No such file or directory" in done.stderr
