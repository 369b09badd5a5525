# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result says of workloads that could not be measured."""

from __future__ import annotations

from pydantic import Field

from partywall.results.document import Model


class Failure(Model):
    """A workload without a result, and why."""

    title: str
    operation: str
    why: str = Field(description="One line for people.")
