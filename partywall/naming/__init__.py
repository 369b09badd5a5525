# SPDX-License-Identifier: GPL-2.0-or-later
"""Names for cache lines: what is in them, which code touches which field."""

from partywall.naming.lines import LineNamer, Use
from partywall.naming.memory import attach

__all__ = ["LineNamer", "Use", "attach"]
