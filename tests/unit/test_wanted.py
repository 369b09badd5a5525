# SPDX-License-Identifier: GPL-2.0-or-later
"""What a user asks to be watched, and to hold: it is there, or the error says what is near."""

from __future__ import annotations

from pathlib import Path

import programs
import pytest

from partywall.cli.program import Program
from partywall.core.capabilities import NAMES, capability
from partywall.core.errors import UsageProblem
from partywall.guest import oci
from partywall.record.wanted import require_functions

SOURCE = """
__attribute__((noinline)) void _stext(void) { __asm__(""); }
__attribute__((noinline)) void cleanup_net(void) { __asm__(""); }
__attribute__((noinline)) void cleanup_mnt(void) { __asm__(""); }
__attribute__((noinline)) void __pfx_cleanup_net(void) { __asm__(""); }
void part(void) __asm__("free_part.isra.0.constprop.1");
__attribute__((noinline)) void part(void) { __asm__(""); }
__asm__(".globl sizeless\\n.type sizeless, @function\\nsizeless: ret\\n");
void _start(void) { cleanup_net(); cleanup_mnt(); part(); __pfx_cleanup_net(); _stext(); }
__attribute__((noinline)) void _etext(void) { __asm__(""); }
int cleanup_list = 1;
"""
NOTHING = "void _start(void) { for (;;) ; }\n"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wanted")
    return programs.compiled(folder, "vmlinux", SOURCE, *programs.BARE, "-fno-toplevel-reorder")


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return programs.compiled(tmp_path_factory.mktemp("mine"), "mine", NOTHING, *programs.BARE)


def asked(mine: Path, **more: tuple[str, ...]) -> Program:
    given = {"count": (), "charge": (), "capabilities": ()} | more
    return Program(command=(str(mine),), file=None, threads=False, marked=None, ops=4, **given)


def test_what_the_kernel_has_is_watched(kernel: Path, mine: Path) -> None:
    program = asked(mine, charge=("cleanup_net", "cleanup_net"), count=("cleanup_mnt",))
    (workload,) = program.workloads(())
    require_functions(kernel, [*workload.charge, *workload.count])
    assert (workload.charge, workload.count) == (("cleanup_net",), ("cleanup_mnt",))
    assert workload.window == 4


@pytest.mark.parametrize("name", ["free_part", "free_part.isra.0.constprop.1", "free_part.isra.0"])
def test_what_a_compiler_appends_to_a_name_is_passed_over(
    kernel: Path, mine: Path, name: str
) -> None:
    (workload,) = asked(mine, charge=(name,)).workloads(())
    assert workload.charge == ("free_part",)
    require_functions(kernel, workload.charge)


def test_names_that_stand_for_a_function_s_padding_are_not_offered(kernel: Path) -> None:
    with pytest.raises(UsageProblem) as refused:
        require_functions(kernel, ["pfx_cleanup_net"])
    assert "__pfx" not in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("name", "says", "hint"),
    [
        ("cleanup_nets", "no function 'cleanup_nets'", "near: cleanup_net"),
        ("cleanup", "no function 'cleanup'", "near: cleanup_"),
        ("zzz", "no function 'zzz'", "can't be watched"),
        ("", "no function ''", "can't be watched"),
        ("cleanup_list", "but data", "name a function"),
        ("sizeless", "has no size", "name a function"),
    ],
)
def test_what_the_kernel_lacks_is_refused(kernel: Path, name: str, says: str, hint: str) -> None:
    with pytest.raises(UsageProblem, match=says) as refused:
        require_functions(kernel, ["cleanup_net", name])
    assert hint in (refused.value.hint or "")


def test_capabilities_are_written_as_for_docker(mine: Path) -> None:
    program = asked(mine, capabilities=("NET_ADMIN", "cap_sys_admin", "CAP_NET_ADMIN"))
    (workload,) = program.workloads(())
    assert workload.capabilities == ("CAP_NET_ADMIN", "CAP_SYS_ADMIN")
    # Those that are held anyhow are known by the same names.
    assert {name.removeprefix("CAP_") for name in oci.CAPABILITIES} < set(NAMES)
    with pytest.raises(UsageProblem, match="no capability 'NET_ADMINS'") as refused:
        capability("NET_ADMINS")
    assert "NET_ADMIN" in (refused.value.hint or "")
    with pytest.raises(UsageProblem, match="no capability ''"):
        capability("")
