# SPDX-License-Identifier: GPL-2.0-or-later
"""What was measured, and with what: the kernel, and all else that a run depends on."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from partywall.results.document import Model

NO_APPARMOR = "no AppArmor"
OWN_PROFILES = "an AppArmor profile each"
"""What a workload's ``confinement`` says of AppArmor, if that is not as usual."""

BARE = f"{NO_APPARMOR} as asked"
"""What it says if that is not as the workload has it."""

VOLATILE = "volatile overlays"
"""What it says of overlays that sync nothing."""


def started(confinements: Iterable[str]) -> tuple[bool, ...]:
    """Return how a user had the containers of all workloads started, by their confinement.

    Not confined; without AppArmor; with a profile each; with overlays that sync nothing.
    """
    told = list(confinements)
    asked = [any(how in one for one in told) for how in (BARE, OWN_PROFILES, VOLATILE)]
    return (any(one.startswith("unconfined") for one in told), *asked)


class KernelId(Model):
    """Which kernel was measured, precisely enough to find it again."""

    source: str = Field(description="What was asked for, e.g. 'debian' or a path.")
    release: str = Field(description="uname -r.")
    version: str = Field(description="The guest's /proc/version line.")
    build_id: str = Field(description="GNU build ID of vmlinux, hex.")
    image_sha256: str
    config_sha256: str | None = Field(description="Hash of the kernel's config, if known.")


class Environment(Model):
    """Everything beside the kernel that a run depends on."""

    partywall: str
    qemu: str
    plugin_abi: int
    cpu_model: str
    icount_shift: int = Field(description="2**shift ns of guest time per instruction.")
    command_line: str = Field(description="Kernel command line.")
    tools: dict[str, str] = Field(description="Versions of what the guest is made with.")
    visit_distance: int = Field(
        description="Line changes after which a return to a line is a new visit."
    )
