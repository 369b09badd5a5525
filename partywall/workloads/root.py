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

Peer = Literal["same-cpus", "own-cpus", "outside"]
"""Where a client in a container of its own is: on the server's CPUs, on as many others, or on those
and outside of the network of servers."""


_BRIDGE_OPTIONS = ("CONFIG_NET_NS", "CONFIG_INET", "CONFIG_VETH", "CONFIG_BRIDGE")
_BRIDGE_MODULES = ("veth", "bridge")


class Asking(BaseModel):
    """How a client in a container of its own asks, and what that takes."""

    model_config = ConfigDict(frozen=True)

    suffix: str
    """Of the variant whose client does so."""
    told: str
    """For people."""
    options: tuple[str, ...] = _BRIDGE_OPTIONS
    """Options that the kernel must be built with."""
    modules: tuple[str, ...] = _BRIDGE_MODULES
    apart: bool = True
    """It has CPUs of its own."""

    @property
    def needs(self) -> dict[str, tuple[str, ...]]:
        """Of a workload."""
        return {"options": self.options, "modules": self.modules}


_OWN = "on CPUs of its own, half of those of each pair"

PEERS: dict[Peer, Asking] = {
    "same-cpus": Asking(
        suffix="peer", told="from a container of its own on the same CPUs", apart=False
    ),
    "own-cpus": Asking(suffix="apart", told=f"from a container of its own {_OWN}"),
    "outside": Asking(
        suffix="outside",
        told=f"from outside of the containers' network, {_OWN}",
        options=(*_BRIDGE_OPTIONS, "CONFIG_NF_TABLES", "CONFIG_NF_TABLES_IPV4", "CONFIG_NFT_CT"),
        modules=(*_BRIDGE_MODULES, "nf_tables", "nft_ct"),
    ),
}


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
