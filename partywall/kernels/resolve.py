# SPDX-License-Identifier: GPL-2.0-or-later
"""From what ``--kernel`` says to a kernel."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from partywall.core.errors import UsageProblem
from partywall.core.progress import Progress
from partywall.kernels import sources
from partywall.kernels.kernel import Kernel


@dataclass(frozen=True)
class Request:
    """What the user said: ``--kernel``, ``--vmlinux``, ``--modules``, ``--kernel-tree``."""

    kernel: str
    vmlinux: Path | None = None
    modules: Path | None = None
    tree: Path | None = None


class Source(Protocol):
    """What each module of `partywall.kernels.sources` offers."""

    FORMS: tuple[str, ...]
    """Forms of ``--kernel`` that it understands, for help."""

    @staticmethod
    def understands(request: Request) -> bool:
        """Whether this source is meant."""

    @staticmethod
    def get(request: Request, progress: Progress) -> Kernel:
        """The kernel; UsageProblem or EnvironmentProblem if there is none."""


def all_sources() -> list[Source]:
    """Every source, by name of its module."""
    return [
        cast(Source, importlib.import_module(f"{sources.__name__}.{found.name}"))
        for found in sorted(pkgutil.iter_modules(sources.__path__), key=lambda found: found.name)
    ]


def resolve(request: Request, progress: Progress) -> Kernel:
    """The kernel that is asked for, ready on this machine."""
    known = all_sources()
    for source in known:
        if source.understands(request):
            return source.get(request, progress)
    forms = ", ".join(form for source in known for form in source.FORMS)
    raise UsageProblem(f"no kernel '{request.kernel}'", f"--kernel takes {forms}")
