# SPDX-License-Identifier: GPL-2.0-or-later
"""The workloads of a result that are asked for by name."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from partywall.core.errors import UsageProblem
from partywall.results.result import OWN_LAYERS, Result, WorkloadResult


def named(result: Result, names: Sequence[str]) -> list[WorkloadResult]:
    """Return those of these names, with or without variant, or patterns; all without names.

    UsageProblem if one is of none that is there.
    """
    for name in names:
        if not any(_is(one, name) for one in result.workloads):
            known = ", ".join(dict.fromkeys(one.title for one in result.workloads)) or "nothing"
            raise UsageProblem(f"workload {name} was not measured", f"the result has {known}")
    return [one for one in result.workloads if not names or any(_is(one, name) for name in names)]


def narrowed(result: Result, names: Sequence[str]) -> Result:
    """Return what a result has of these names, as `named` takes them, also of what failed."""
    failed = [
        one
        for one in result.failed
        if not names or any(matches(name, one.workload, *_parts(one.workload)) for name in names)
    ]
    return result.model_copy(update={"workloads": named(result, names), "failed": failed})


def matches(name: str, *own: str) -> bool:
    """Whether that is one of its names, as it stands or as a pattern: a title may have brackets."""
    return any(name == one or fnmatchcase(one, name) for one in own)


def _is(one: WorkloadResult, name: str) -> bool:
    return matches(name, one.title, one.workload, *_parts(one.title))


def _parts(title: str) -> tuple[str, str]:
    """A title without layers, and without variant too."""
    whole = title.removesuffix(OWN_LAYERS)
    return whole, whole.partition("/")[0]
