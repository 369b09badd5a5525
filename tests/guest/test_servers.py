# SPDX-License-Identifier: GPL-2.0-or-later
"""A real server with real traffic, in two containers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from checks import Checked

PACKAGES = "redis-server,redis-tools"
CLIENT = "redis-benchmark -q -t get -c 4 -n {requests}"
SERVER = ("redis-server", "--save", "", "--bind", "127.0.0.1")


def test_redis_is_measured_by_the_request(check: Callable[..., Checked]) -> None:
    arguments = ("-n", "2", "--debian", PACKAGES, "--client", CLIENT, "--count", "tcp_sendmsg")
    (found,) = check(*arguments, "--", *SERVER).result.workloads
    # A request and its answer are sent by a call each: so the requests were counted right.
    (sent,) = [call.per_op for call in found.calls if call.function == "tcp_sendmsg"]
    assert sent == pytest.approx(2.0, rel=0.02)
    assert 200 < found.window < 800
    # Hardly anything moves: of a dozen lines that go with freed memory not all have a name.
    assert not any(wall.kind == "unnamed" for wall in found.objects)
    # Over loopback, what a request sends is received in deferred work.
    assert found.instructions.deferred > 0


@pytest.mark.parametrize("server", ["nginx", "python"])
def test_ready_made_servers_hand_out_a_file_and_what_they_share_has_names(
    check: Callable[..., Checked], server: str
) -> None:
    (found,) = check("-n", "2", "-w", server).result.workloads
    assert found.named > 0.97
    # To look it up and to open it AppArmor takes a buffer each: of none that is missing so many.
    (buffers,) = [wall for wall in found.objects if "aa_buffers_lock" in wall.name]
    assert buffers.transfers > 6
