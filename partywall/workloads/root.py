# SPDX-License-Identifier: GPL-2.0-or-later
"""What the root file system of containers is made from, if it is not our own."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

OPTIONS = ("CONFIG_SQUASHFS", "CONFIG_ACPI_NFIT", "CONFIG_BLK_DEV_PMEM")
"""What a kernel needs to read one: it is in a memory device, so that no read has to wait."""

COUNT = "{requests}"
"""In a client's command, how many requests it makes."""

MODULES = ("nfit", "nd_pmem", "squashfs")


class Root(BaseModel):
    """A root file system by its source.

    ``what``: a directory; an archive of images, or a layout, with ``:TAG`` if it has several;
    or names of Debian's packages, with commas between them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["directory", "image", "debian"]
    what: str

    @property
    def told(self) -> str:
        """For people."""
        return f"Debian's {self.what}" if self.kind == "debian" else self.what
