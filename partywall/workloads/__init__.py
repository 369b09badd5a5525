# SPDX-License-Identifier: GPL-2.0-or-later
"""What runs in the containers: workloads, read and compiled."""

from partywall.workloads.command import from_command, from_iterations, from_root
from partywall.workloads.programs import (
    build_keeper,
    build_network,
    build_referee,
    build_rounds,
    build_server,
    build_taker,
    build_workload,
    compile_static,
)
from partywall.workloads.root import PEERS, SERVER, Peer, Root, joined
from partywall.workloads.served import load as load_servers
from partywall.workloads.served import select as select_any
from partywall.workloads.service import Service
from partywall.workloads.workload import DIRECTORY, Workload, load, one, select

__all__ = [
    "DIRECTORY",
    "PEERS",
    "SERVER",
    "Peer",
    "Root",
    "Service",
    "Workload",
    "build_keeper",
    "build_network",
    "build_referee",
    "build_rounds",
    "build_server",
    "build_taker",
    "build_workload",
    "compile_static",
    "from_command",
    "from_iterations",
    "from_root",
    "joined",
    "load",
    "load_servers",
    "one",
    "select",
    "select_any",
]
