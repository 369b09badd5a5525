# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads of a result that are asked for by name."""

from __future__ import annotations

from collections.abc import Sequence

from partywall.core.errors import UsageProblem
from partywall.results.result import Result, WorkloadResult


def named(result: Result, names: Sequence[str]) -> list[WorkloadResult]:
    """Return those of these names, with or without variant; all without names.

    UsageProblem if one is not there.
    """
    there = {name for one in result.workloads for name in (one.title, one.workload)}
    for name in names:
        if name not in there:
            known = ", ".join(dict.fromkeys(one.title for one in result.workloads)) or "nothing"
            raise UsageProblem(f"workload {name} was not measured", f"the result has {known}")
    return [one for one in result.workloads if not names or {one.title, one.workload} & set(names)]
