# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory that stays: what operations leave behind, who is charged, and what takes it back."""

from partywall.analyse.growth.looks import Growth, Look, look, watch
from partywall.analyse.growth.makers import Makers
from partywall.analyse.growth.memory import Kernel
from partywall.analyse.growth.slope import LEAST, RATE, least

__all__ = ["LEAST", "RATE", "Growth", "Kernel", "Look", "Makers", "least", "look", "watch"]
