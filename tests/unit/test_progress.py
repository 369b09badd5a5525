# SPDX-License-Identifier: GPL-2.0-or-later
"""What a log says of what takes long."""

from __future__ import annotations

import pytest

from partywall.core.progress import Log, Quiet


def test_a_log_has_a_line_before_what_takes_minutes_and_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = Log()
    log.ahead("first run: 400 MB to download")
    log.note("saved")
    with log.step("building x", 700):
        assert capsys.readouterr().err == (
            "first run: 400 MB to download\nbuilding x: about 11:40 min\n"
        )
    with log.step("short", 20), log.step("nobody knows"):
        pass
    assert capsys.readouterr() == ("", "")


def test_what_is_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Quiet().ahead("first run")
    with Quiet().step("building x", 700):
        pass
    assert capsys.readouterr() == ("", "")
