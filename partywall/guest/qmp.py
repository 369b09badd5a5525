# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's monitor, by which a guest that runs is asked."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from qemu.qmp import QMPClient


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
