# SPDX-License-Identifier: GPL-2.0-or-later
"""Opens the memory of a guest that stands still after its window.

The recorder holds the vCPU thread, so QEMU can't do what needs the guest
stopped (drgn would ask it for a dump to find vmcoreinfo). The guest has said
where its vmcoreinfo is, and reading memory needs no vCPU.
"""

from __future__ import annotations

import asyncio
import logging
import re
import struct

import drgn
from drgn.helpers.linux.module import for_each_module
from qemu.qmp import QMPError

from partywall.analyse.names.lines import Learned
from partywall.core import elf
from partywall.core.errors import EnvironmentProblem, UsageProblem
from partywall.guest import Guest
from partywall.guest.qmp import connected
from partywall.kernels import Kernel
from partywall.kernels.modules import debug_files

_TIMEOUT = 30


def _vmcoreinfo_note(guest: Guest) -> bytes:
    said = re.fullmatch(r"(?:0x)?([0-9a-f]+) ([0-9a-f]+)", guest.said("vmcoreinfo") or "")
    if said is None:
        raise EnvironmentProblem(
            "the guest has no /sys/kernel/vmcoreinfo, without which its memory can't be read",
            "use a kernel with CONFIG_VMCORE_INFO (CONFIG_CRASH_CORE before 6.9)",
        )
    address, size = int(said[1], 16), int(said[2], 16)
    saved = guest.directory / "vmcoreinfo"

    async def save() -> None:
        async with connected(guest.qmp) as client:
            await client.execute(
                "pmemsave", {"val": address, "size": max(size, 4096), "filename": str(saved)}
            )

    try:
        asyncio.run(asyncio.wait_for(save(), _TIMEOUT))
        return saved.read_bytes()
    except (QMPError, OSError, TimeoutError) as error:
        raise EnvironmentProblem(f"QEMU does not give the guest's memory: {error}") from error


def parse_note(note: bytes) -> bytes:
    """Text of vmcoreinfo from the ELF note that holds it."""
    if len(note) < 12:
        raise EnvironmentProblem("the guest's vmcoreinfo is damaged")
    name_size, size, _ = struct.unpack_from("<3I", note)
    start = 12 + (name_size + 3 & ~3)
    text = note[start : start + size]
    if note[12 : 12 + name_size].rstrip(b"\0") != b"VMCOREINFO" or not text:
        raise EnvironmentProblem("the guest's vmcoreinfo is damaged")
    return text


def check_build(running: str | None, kernel: Kernel) -> None:
    """UsageProblem if vmlinux is of another build than the running kernel's ID, if known."""
    if running and running != kernel.build_id:
        raise UsageProblem(
            f"{kernel.vmlinux} is of another kernel than the one that ran "
            f"(build ID {kernel.build_id[:12]}…, running {running[:12]}…)",
            "give the vmlinux of the same build with --vmlinux",
        )


def attach(guest: Guest, kernel: Kernel) -> drgn.Program:
    """drgn on the guest's memory, with the symbols of ``kernel``.

    Raises UsageProblem if vmlinux is of another build than the running kernel.
    """
    vmcoreinfo = parse_note(_vmcoreinfo_note(guest))
    build = re.search(rb"^BUILD-ID=([0-9a-f]+)$", vmcoreinfo, re.MULTILINE)
    if build:
        check_build(build[1].decode(), kernel)
    logging.getLogger("drgn").setLevel(logging.CRITICAL)
    prog = drgn.Program(vmcoreinfo=vmcoreinfo)
    try:
        prog.set_qemu_qmp(str(guest.qmp))
        prog.set_linux_kernel_custom(vmcoreinfo, True)
        prog.load_debug_info([kernel.vmlinux])
        if kernel.debug_modules is not None:
            loaded = {one.name.string_().decode() for one in for_each_module(prog)}
            prog.load_debug_info(debug_files(kernel.debug_modules, loaded))
    except drgn.MissingDebugInfoError as error:
        raise UsageProblem(f"{kernel.vmlinux}: {str(error).splitlines()[0]}") from error
    except (OSError, ValueError, LookupError, drgn.FaultError) as error:
        raise EnvironmentProblem(f"the guest's memory can't be read: {error}") from error
    return prog


def learn(guest: Guest, kernel: Kernel) -> Learned:
    """Open a guest's memory, for all that is asked of it. Raise what `attach` does."""
    return Learned(attach(guest, kernel), elf.load_symbols(kernel.vmlinux))
