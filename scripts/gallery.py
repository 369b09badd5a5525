# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the pages and the picture that the documentation shows: ``make gallery``.

docs/report-debian-6.12.html and docs/compare.html are left out of git; the
picture, docs/signal.svg, is in it. Builds both kernels if they are not there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from partywall import kernels, workloads
from partywall.core import cache
from partywall.core.errors import PartywallError
from partywall.core.progress import Quiet
from partywall.kernels import Request
from partywall.measure import run
from partywall.model import profiles, published
from partywall.model.predict import outlook
from partywall.report import html
from partywall.report.html import charts
from partywall.results.result import Result

DOCS = Path(__file__).resolve().parent.parent / "docs"


def measured(kernel: str, names: tuple[str, ...]) -> Result:
    """The result of some workloads, all usual ones if none is named."""
    print(f"gallery: measuring {kernel}", file=sys.stderr)
    wanted = run.Wanted(
        kernel=kernels.resolve(Request(kernel), Quiet()), workloads=workloads.select(names)
    )
    outcome = run.check(wanted, Quiet())
    for failure in outcome.failures.values():
        raise failure
    assert outcome.result is not None
    return outcome.result


def picture(before: Result, after: Result, profile: profiles.Profile) -> str:
    """The curve of signals on both kernels, beside what others measured, as a file of its own."""
    (pair,) = outlook(before, after, profile).workloads
    assert pair.after is not None
    curves = [
        charts.Curve("Debian's Linux 6.12", pair.before.points),
        charts.Curve("with the series", pair.after.points),
    ]
    drawn = charts.throughput("signal", curves, published.SIGNALS, "containers", profile.cores)
    return charts.standalone(drawn)


def main() -> None:
    """Makes all of it."""
    profile = profiles.load(profiles.DEFAULT)
    before, after = (measured(kernel, ("signal",)) for kernel in ("stock", "partywall"))
    cache.write_whole(DOCS / "signal.svg", picture(before, after, profile))
    cache.write_whole(DOCS / "compare.html", html.render(before, after, profile))
    debian = measured("debian", ())
    cache.write_whole(DOCS / "report-debian-6.12.html", html.render(debian, None, profile))
    for name in ("signal.svg", "compare.html", "report-debian-6.12.html"):
        print(DOCS / name)


if __name__ == "__main__":
    try:
        main()
    except PartywallError as error:
        print(f"gallery: {error.message}", file=sys.stderr)
        sys.exit(error.exit_code)
