# SPDX-License-Identifier: GPL-2.0-or-later
"""Series of patches: read, applied, written back, and proven patch by patch."""

from partywall.kernels.series.bases import Base
from partywall.kernels.series.patches import (
    BASE,
    FOLDER,
    TOPIC,
    Patch,
    apply,
    digest,
    read,
    refresh,
)

__all__ = ["BASE", "FOLDER", "TOPIC", "Base", "Patch", "apply", "digest", "read", "refresh"]
