# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels that are built for tests, and guests. Each is built once and kept in the cache."""

from __future__ import annotations

from collections.abc import Callable, Generator

import compared as comparing
import judge
import pytest
from compared import Both, Compared
from kept import Kept
from machine import Job, Ran

from partywall import kernels
from partywall.core.progress import Quiet
from partywall.kernels import Kernel, Request
from partywall.results.compare import Comparison
from partywall.results.result import Result


@pytest.fixture(scope="session")
def kernel() -> Callable[[str], Kernel]:
    """The kernel of a name, as ``--kernel`` takes it."""
    known: dict[str, Kernel] = {}

    def get(name: str) -> Kernel:
        if name not in known:
            known[name] = kernels.resolve(Request(name), Quiet())
        return known[name]

    return get


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option: whether guests are run that a test passed with before."""
    parser.addoption(
        "--anew",
        action="store_true",
        help="tests/kernel: run every guest, those too whose output was kept of a test that passed",
    )


GUESTS = pytest.StashKey[Kept]()


def pytest_configure(config: pytest.Config) -> None:
    """Have guests' output kept."""
    config.stash[GUESTS] = Kept(anew=config.getoption("--anew"))


NOT_RUN = "guests not run"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tell of which kind the test is, before its fixtures boot anything."""
    chance = item.get_closest_marker("soak") is not None
    item.config.stash[GUESTS].begins(chance=chance)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what guests printed if the test passed, and count those that were not run."""
    report = yield
    if call.when == "call" or report.failed:
        taken = item.config.stash[GUESTS].ended(str(item.path), report.outcome)
        report.user_properties.append((NOT_RUN, taken))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many guests were not run."""
    reports = [one for state in terminalreporter.stats.values() for one in state]
    properties = [pair for one in reports for pair in getattr(one, "user_properties", ())]
    if taken := sum(number for name, number in properties if name == NOT_RUN):
        terminalreporter.line(f"{taken} guests not run: a test passed with the same before")


@pytest.fixture(scope="session")
def boot(kernel: Callable[[str], Kernel], pytestconfig: pytest.Config) -> Callable[[str, Job], Ran]:
    """Runs a job on the kernel of a name, or has what it printed before."""
    guests = pytestconfig.stash[GUESTS]
    return lambda name, job: guests.boot(kernel(name), job)


@pytest.fixture(scope="session")
def alarms(kernel: Callable[[str], Kernel]) -> Callable[[str, Ran], list[str]]:
    """What a kernel of the series said that is ours: no race that is of stock's code alone."""
    return lambda name, ran: judge.alarms(kernel(name), ran.reports())


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Runs ``partywall compare``: the comparison, and the second kernel's own result.

    The same arguments twice give what the first run found.
    """
    known: dict[tuple[str, ...], tuple[Comparison, Result]] = {}

    def get(*arguments: str) -> tuple[Comparison, Result]:
        if arguments not in known:
            known[arguments] = comparing.run(tmp_path_factory.mktemp("results"), *arguments)
        return known[arguments]

    return get


@pytest.fixture(scope="session")
def compared(both: Both) -> Compared:
    """As `both`, the comparison alone."""
    return lambda *arguments: both(*arguments)[0]
