# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads of a result that are asked for by name."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from partywall.core.errors import UsageProblem
from partywall.results.result import Result, WorkloadResult


def named(result: Result, names: Sequence[str]) -> list[WorkloadResult]:
    """Return those of these names, with or without variant, or patterns; all without names.

    UsageProblem if one is of none that is there.
    """
    for name in names:
        if not any(_is(one, name) for one in result.workloads):
            known = ", ".join(dict.fromkeys(one.title for one in result.workloads)) or "nothing"
            raise UsageProblem(f"workload {name} was not measured", f"the result has {known}")
    return [one for one in result.workloads if not names or any(_is(one, name) for name in names)]


def _is(one: WorkloadResult, name: str) -> bool:
    """Whether that is its name, as it stands or as a pattern: a title may have brackets."""
    return any(name == own or fnmatchcase(own, name) for own in (one.title, one.workload))
