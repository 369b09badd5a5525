# SPDX-License-Identifier: GPL-2.0-or-later
"""Which objects a configuration has."""

from __future__ import annotations

from pathlib import Path

import pytest

from partywall.kernels.series import kbuild

MAKEFILES = {
    "Kbuild": "obj-y += fs/\nobj-$(CONFIG_NET) += net/\n",
    "fs/Makefile": "obj-y := open.o \\\n\t read.o\nobj-$(CONFIG_PROC_FS) += proc/\n",
    "fs/proc/Makefile": "obj-y += proc.o\nproc-y := root.o\nproc-$(CONFIG_SYSCTL) += sysctl.o\n"
    "proc-$(CONFIG_NET) += both.o\nproc-$(CONFIG_PROC_FS)\t+= both.o\n"
    "obj-$(CONFIG_NET) += ip.o\nip-y := address.o\nip-objs += route.o\n",
    "net/Makefile": "obj-$(CONFIG_RAW) += raw.o\n",
}
CONFIG = "CONFIG_PROC_FS=y\n# CONFIG_SYSCTL is not set\n# CONFIG_NET is not set\nCONFIG_RAW=m\n"


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("fs/open.o", True),
        ("fs/read.o", True),
        ("fs/proc/root.o", True),
        ("fs/proc/both.o", True),
        # Its own option is off.
        ("fs/proc/sysctl.o", False),
        # That of the object is that it is a part of.
        ("fs/proc/address.o", False),
        ("fs/proc/route.o", False),
        # That of its directory is.
        ("net/raw.o", False),
        # No Makefile has it.
        ("fs/proc/inlined.o", True),
        ("drivers/base/core.o", True),
    ],
)
def test_a_configuration_has_what_its_lists_have(tmp_path: Path, name: str, there: bool) -> None:
    for path, text in MAKEFILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert kbuild.has(tmp_path, CONFIG, name) == there


def test_an_option_of_a_longer_name_is_another(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("obj-$(CONFIG_SMP) += smp.o\n")
    assert not kbuild.has(tmp_path, "CONFIG_SMP_OLD=y\nNO_CONFIG_SMP=y\n", "smp.o")
    assert kbuild.has(tmp_path, "CONFIG_SMP=m\n", "smp.o")
