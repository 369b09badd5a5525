# SPDX-License-Identifier: GPL-2.0-or-later
"""Names for cache lines: what is in them, which code touches which field."""

from partywall.naming.contexts import ContextNamer
from partywall.naming.lines import Knowledge, LineNamer, Named
from partywall.naming.memory import attach

__all__ = ["ContextNamer", "Knowledge", "LineNamer", "Named", "attach"]
