# SPDX-License-Identifier: GPL-2.0-or-later
"""What the root file system of containers is made from, if it is not our own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

COUNT = "{requests}"
"""In a client's command, how many requests it makes."""


SERVER = "{server}"
"""In a client's command, the address of what it asks."""

Peer = Literal["same-cpus", "own-cpus"]
"""Where a client in a container of its own runs: on the server's CPUs, or on as many others."""

PEER_OPTIONS = ("CONFIG_NET_NS", "CONFIG_INET", "CONFIG_VETH", "CONFIG_BRIDGE")
PEER_MODULES = ("veth", "bridge")

PEERS: dict[Peer, str] = {
    "same-cpus": "from a container of its own on the same CPUs",
    "own-cpus": "from a container of its own on CPUs of its own, half of those of each pair",
}
"""For people."""

SUFFIXES: dict[Peer, str] = {"same-cpus": "peer", "own-cpus": "apart"}
"""Of the variant that has such a client."""


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


def joined(roots: Sequence[Root]) -> Root | None:
    """Return the one root that has what several have; None if there can't be one.

    Of Debian's packages that of all of them; any other alone with its like.
    """
    one, *others = roots
    if all(other == one for other in others):
        return one
    if any(root.kind != "debian" for root in roots):
        return None
    names = (name for root in roots for name in root.what.split(",") if name)
    return Root(kind="debian", what=",".join(dict.fromkeys(names)))
