# SPDX-License-Identifier: GPL-2.0-or-later
"""Views of a `partywall.result.Result`: each takes one and measures nothing.

`terminal` is for people at a shell, `json_` for programs and for keeping,
`ktap` for kernel CI.
"""

from __future__ import annotations

from partywall.report import json_, ktap, terminal
from partywall.report.json_ import ReportError

__all__ = ["ReportError", "json_", "ktap", "terminal"]
