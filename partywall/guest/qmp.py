# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's monitor, by which a guest that runs is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from qemu.qmp import ConnectError, QMPClient

_GOES_ON_WITHIN = 60.0
"""Seconds in which QEMU listens and has found where it is to go on from."""

APART: dict[str, object] = {"capabilities": [{"capability": "x-ignore-shared", "state": True}]}
"""Of a guest that is written down: memory that QEMU has in a file is not."""


@asynccontextmanager
async def connected(socket: Path) -> AsyncIterator[QMPClient]:
    """Connect to a monitor. QMPError, OSError, or EOFError where QEMU has ended meanwhile."""
    # What fails is raised as well, and told by who asks.
    logging.getLogger("qemu.qmp").setLevel(logging.CRITICAL)
    client = QMPClient("partywall")
    await client.connect(str(socket))
    try:
        yield client
    finally:
        await client.disconnect()


def go_on(socket: Path, state: str, runs: Callable[[], bool]) -> None:
    """Have a QEMU that waits for it go on with a guest, whose memory in files is there.

    ``state``: where the rest is, as QEMU is told it; ``runs``: whether that QEMU still does.
    QMPError, OSError (TimeoutError among them) or EOFError if it does not take that.
    """
    asyncio.run(asyncio.wait_for(_go_on(socket, state, runs), _GOES_ON_WITHIN))


async def _go_on(socket: Path, state: str, runs: Callable[[], bool]) -> None:
    while True:
        try:
            async with connected(socket) as client:
                await client.execute("migrate-set-capabilities", APART)
                await client.execute("migrate-incoming", {"uri": state})
                return
        except ConnectError:
            # Its socket is there a little before it listens.
            if not runs():
                raise
            await asyncio.sleep(0.02)
