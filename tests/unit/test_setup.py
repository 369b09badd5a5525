# SPDX-License-Identifier: GPL-2.0-or-later
"""What set-up says when pip fails: the package, and what pip says it died of."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from partywall.core import packages

CHECKOUT = Path(__file__).resolve().parents[2]
SCRIPT = CHECKOUT / "scripts" / "pip-cause"

BUILD = """\
Collecting pydantic<3,>=2.7 (from partywall==0.1.0)
  Using cached pydantic-2.12.0-py3-none-any.whl.metadata (83 kB)
Collecting drgn<0.4,>=0.3 (from partywall==0.1.0)
  Downloading drgn-0.3.0.tar.gz (1.9 MB)
  Getting requirements to build wheel: finished with status 'done'
Building wheels for collected packages: drgn
  Building wheel for drgn (pyproject.toml): started
  Building wheel for drgn (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error

  × Building wheel for drgn (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [4 lines of output]
      running build_ext
      {output}
      compilation terminated.
      error: Command '['gcc', '-c', 'x.c']' returned non-zero exit status 1.
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for drgn
Failed to build drgn
ERROR: Could not build wheels for drgn, which is required to install pyproject.toml-based projects
"""

METADATA = """\
Collecting capstone<6,>=5.0 (from partywall==0.1.0)
  Getting requirements to build wheel: finished with status 'error'
  error: subprocess-exited-with-error

  × Getting requirements to build wheel did not run successfully.
  │ exit code: 1
  ╰─> [2 lines of output]
        File "<string>", line 1, in <module>
      RuntimeError: no C compiler found
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error
"""

MISSING = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<pip._vendor.\
urllib3.connection.HTTPConnection object at 0x7f4d>: Failed to establish a new connection: \
[Errno 111] Connection refused')': /simple/click/
ERROR: Could not find a version that satisfies the requirement click<9,>=8.1 (from partywall) \
(from versions: none)
ERROR: No matching distribution found for click<9,>=8.1
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            BUILD.replace("{output}", "x.c:1:10: fatal error: elf.h: No such file"),
            ("drgn: x.c:1:10: fatal error: elf.h: No such file",),
        ),
        (METADATA, ("capstone: RuntimeError: no C compiler found",)),
        (MISSING, ("click<9", "Connection refused")),
        (
            "Collecting click<9,>=8.1 (from partywall)\nCollecting rich\n"
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left\n",
            ("Could not install packages due to an OSError: [Errno 28] No space left\n",),
        ),
        ("", ("pip said nothing",)),
    ],
)
def test_the_package_and_its_cause_are_named(
    tmp_path: Path, log: str, words: tuple[str, ...]
) -> None:
    path = tmp_path / "log"
    path.write_text(log)
    said = subprocess.run(
        [sys.executable, SCRIPT, path], capture_output=True, text=True, check=True
    ).stdout
    assert len(said.splitlines()) == 1
    assert "subprocess-exited" not in said
    for word in words:
        assert word in said
    assert "rich" not in said


APT = """\
#!/bin/sh
echo "$*" >>'{log}'
case "$*" in *update*) exit 0 ;; esac
echo '{says}'
echo 'E: Unable to correct problems'
exit 100
"""


@pytest.mark.parametrize(
    ("says", "calls"),
    [
        ("E: Failed to fetch http://deb.debian.org/x  Connection refused", ["", ""]),
        (" libelf-dev : Depends: libelf1t64 (= 0.192-4)", ["", "-t trixie-backports"]),
    ],
)
def test_packages_that_can_not_be_installed_end_in_two_lines(
    tmp_path: Path, says: str, calls: list[str]
) -> None:
    """Backports are asked only for what depends on what came from there."""
    log = tmp_path / "calls"
    programs = {
        "apt-get": APT.format(log=log, says=says),
        "apt-cache": "#!/bin/sh\necho ' release o=Debian Backports,n=trixie-backports,c=main'\n",
        "dpkg-query": "#!/bin/sh\n",
        "id": "#!/bin/sh\necho 0\n",
    }
    for name, text in programs.items():
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
    done = subprocess.run(
        [SCRIPT.parent / "setup", "--no-kernel"],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 3, done.stderr
    assert "apt-get install failed" in done.stderr
    assert says.split(":", maxsplit=1)[0].strip() in done.stderr
    assert "deb.debian.org" not in done.stderr
    installs = [line for line in log.read_text().splitlines() if " install " in line]
    assert [call in line for call, line in zip(calls, installs, strict=True)] == [True, True]
    assert ("-backports" in installs[-1]) == bool(calls[-1])
    assert "-backports" not in installs[0]


def put(folder: Path, **programs: str) -> str:
    """Return a path with these programs, by their text, before those of the machine."""
    for name, text in programs.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize(("options", "debs"), [((), False), (("--debs",), True)])
def test_what_makes_packages_of_kernels_is_installed_for_these_alone(
    tmp_path: Path, options: tuple[str, ...], debs: bool
) -> None:
    (tmp_path / "scripts").mkdir()
    needs = tmp_path / "partywall/core/needs"
    needs.mkdir(parents=True)
    shutil.copy(CHECKOUT / "scripts/setup", tmp_path / "scripts")
    (tmp_path / "scripts/packages.txt").touch()
    for path in (CHECKOUT / "partywall/core/needs").glob("*.txt"):
        (needs / path.name).write_text(f"no-{path.stem} no-such-tool does nothing\n")
    (tmp_path / "bin").mkdir()
    log = tmp_path / "calls"
    apt = f'echo "$*" >>{log}; case "$*" in *install*) exit 100 ;; esac'
    path = put(tmp_path / "bin", apt_get=apt, dpkg_query="", id="echo 0", apt_cache="")
    done = subprocess.run(
        [tmp_path / "scripts/setup", "--no-kernel", *options],
        env=os.environ | {"PATH": path},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3
    # Once more from backports, if that fails.
    asked, *_ = [line for line in log.read_text().splitlines() if " install " in line]
    assert ("no-debs" in asked) == debs
    for list_ in ("check", "recorder", "kernels", "roots"):
        assert f"no-{list_}" in asked


@pytest.mark.parametrize(
    ("sudo", "says"),
    [
        (None, "installing packages needs root: no-check"),
        ("echo 'sudo: nobody may' >&2; exit 1", "needs root, and sudo refuses"),
        ("[ $1 = true ] || { echo 'a word from apt'; exit 100; }", "apt-get update failed"),
    ],
)
def test_who_is_not_root_is_told_so(tmp_path: Path, sudo: str | None, says: str) -> None:
    """Also where apt itself says no word that begins with an E."""
    (tmp_path / "scripts").mkdir()
    needs = tmp_path / "partywall/core/needs"
    needs.mkdir(parents=True)
    shutil.copy(CHECKOUT / "scripts/setup", tmp_path / "scripts")
    (tmp_path / "scripts/packages.txt").touch()
    (needs / "check.txt").write_text("no-check no-such-tool does nothing\n")
    (tmp_path / "bin").mkdir()
    programs = {"apt_get": "exit 1", "dpkg_query": "", "id": "echo 1000", "uname": "echo x86_64"}
    put(tmp_path / "bin", **programs, **({"sudo": sudo} if sudo else {}))
    for name in ("bash", "cat", "grep", "sed", "head", "tail", "mktemp", "rm", "dirname", "env"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    done = subprocess.run(
        [tmp_path / "scripts/setup", "--no-kernel"],
        env={"PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert says in done.stderr
    if sudo and "apt" in sudo:
        assert "a word from apt" in done.stderr


def test_who_lacks_something_is_told_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packages, "IN_CHECKOUT", True)
    debs, kernels = packages.needs("debs"), packages.needs("kernels")
    assert packages.install(debs[:1]) == "scripts/setup --debs"
    assert packages.install(kernels[:1]) == "make setup"
    monkeypatch.setattr(packages, "program", lambda name: None)
    assert packages.mend("kernels", "debs") == "run scripts/setup --debs"
    assert packages.mend("kernels") == "run make setup"


@pytest.mark.parametrize("works", [True, False])
@pytest.mark.parametrize(
    ("stage", "kinds"), [("program", ["roots"]), ("kernels", ["kernels", "debs"])]
)
def test_a_stage_of_the_image_has_what_its_work_needs(
    tmp_path: Path, stage: str, kinds: list[packages.Kind], works: bool
) -> None:
    text = (CHECKOUT / "Containerfile").read_text().partition(f" AS {stage}\n")[2]
    ran = re.search(r"^RUN \S+ /needs (.*)$", text, re.MULTILINE)
    assert ran
    assert ran[1].split() == kinds
    script = (CHECKOUT / "container" / "needs").read_text()
    script = script.replace("/usr/lib/partywall", str(CHECKOUT))
    python = f'exec {sys.executable} "$@"' if works else "exit 1"
    log = tmp_path / "calls"
    path = put(tmp_path, apt_get=f'echo "$*" >>{log}', python3=python)
    done = subprocess.run(["sh", "-c", script, "needs", *kinds], env={"PATH": path}, check=False)
    assert (done.returncode == 0) == works
    asked = log.read_text() if log.exists() else ""
    wanted = [need.package for kind in kinds for need in packages.needs(kind)]
    assert [name in asked.split() for name in wanted] == [works] * len(wanted)
