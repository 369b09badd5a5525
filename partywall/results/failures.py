# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result says of workloads that could not be measured."""

from __future__ import annotations

import re

from pydantic import Field

from partywall.results.document import Model

_SHAPE = re.compile(r" ([0-9]+)x[0-9]+\Z")


class Failure(Model):
    """A workload without a result, and why."""

    title: str = Field(description="Of a check with containers and CPUs behind it: 8x1.")
    operation: str
    why: str = Field(description="One line for people.")

    @property
    def workload(self) -> str:
        """The title without how many ran.

        >>> [Failure(title=one, operation="", why="").workload for one in ("fork 8x1", "a/b")]
        ['fork', 'a/b']
        """
        return _SHAPE.sub("", self.title)

    @property
    def within(self) -> bool:
        """Whether one container was to run, which no map has."""
        found = _SHAPE.search(self.title)
        return found is not None and found[1] == "1"
