# SPDX-License-Identifier: GPL-2.0-or-later
"""Names for cache lines: what is in them, which code touches which field."""

import os

# drgn reads debug information with OpenMP, and of several variables or types of one
# name it finds the one whose thread came first: another in each run. It takes the
# number from here when it is loaded, so this goes before the imports.
os.environ["OMP_NUM_THREADS"] = "1"

from partywall.analyse.names.contexts import ContextNamer
from partywall.analyse.names.lines import Knowledge, Learned, LineNamer, Named
from partywall.analyse.names.memory import attach, check_build, learn

__all__ = [
    "ContextNamer",
    "Knowledge",
    "Learned",
    "LineNamer",
    "Named",
    "attach",
    "check_build",
    "learn",
]
