# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the window of a program is that knows of no markers and ends when it likes."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from partywall.core.errors import UsageProblem

_FORMS = "after=2,for=0.5 (seconds), from=LINE,to=LINE (what it prints), or signals"
_TIME = re.compile(r"after=(\d+(?:\.\d+)?),for=(\d+(?:\.\d+)?)")
_LINES = re.compile(r"from=(.+?),to=(.+)")
_LONGEST = 3600.0


class Opening(BaseModel):
    """By the guest's clock, between two lines that the program prints, or two signals of its."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: Literal["time", "lines", "signals"]
    after_ms: int = 0
    """From when the program began."""
    lasts_ms: int = 0
    begins: str = ""
    ends: str = ""

    @property
    def told(self) -> str:
        """What a program does its operations in, behind "does"."""
        if self.by == "time":
            return f"in {self.lasts_ms / 1000:g} s of the guest's clock"
        if self.by == "lines":
            return f"from '{self.begins}' to '{self.ends}' in what it prints"
        return "from its SIGUSR1 to its SIGUSR2"

    def allowed(self, limits: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return limits of processes with which the launcher may be the first to run.

        As the runtime specification has them; ``limits``: those of the container otherwise.
        """
        kind = "RLIMIT_RTPRIO"
        if any(one["type"] == kind for one in limits):
            return limits
        return [*limits, {"type": kind, "soft": 1, "hard": 1}]

    @property
    def takes(self) -> int:
        """Seconds of the guest's clock that it needs for its own sake."""
        return -(-(self.after_ms + self.lasts_ms) // 1000)

    def environment(self) -> dict[str, str]:
        """Return what the launcher in a container is told (opened.h)."""
        if self.by == "time":
            times = {"PW_AFTER": str(self.after_ms), "PW_LASTS": str(self.lasts_ms)}
            return {"PW_OPENS": self.by} | times
        if self.by == "lines":
            return {"PW_OPENS": self.by, "PW_FROM": self.begins, "PW_TO": self.ends}
        return {"PW_OPENS": self.by}


def opening(text: str) -> Opening:
    """Return what ``--window`` says; UsageProblem if it is nothing of that."""
    if text == "signals":
        return Opening(by="signals")
    if found := _TIME.fullmatch(text):
        after, lasts = (float(part) for part in found.groups())
        if not 0.001 <= lasts <= _LONGEST or after > _LONGEST:
            raise UsageProblem(
                f"--window {text}: no window of 0.001 to {_LONGEST:g} seconds, within an hour",
                "such as after=2,for=0.5",
            )
        return Opening(by="time", after_ms=round(after * 1000), lasts_ms=round(lasts * 1000))
    if found := _LINES.fullmatch(text):
        begins, ends = found.groups()
        return Opening(by="lines", begins=begins, ends=ends)
    raise UsageProblem(f"--window {text} is none", f"it is one of {_FORMS}")
