# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of what the user brings: a program, behind ``--``, or a file of will-it-scale."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from partywall import workloads
from partywall.cli.options import FILE, shape_of
from partywall.core.capabilities import NAMES, capability
from partywall.core.errors import UsageProblem
from partywall.core.topology import Topology
from partywall.measure.run import DEFAULT_CONTAINERS
from partywall.record.functions import in_source
from partywall.report.words import plain
from partywall.workloads import PEERS, Peer, Root, Service, Workload
from partywall.workloads import compose as composed
from partywall.workloads.opening import Opening, opening
from partywall.workloads.service import ALL


@dataclass(frozen=True)
class Program:
    """What the command line says of a program of the user's own."""

    command: tuple[str, ...]
    file: Path | None
    threads: bool
    marked: bool | None
    ops: int | None
    count: tuple[str, ...]
    charge: tuple[str, ...]
    capabilities: tuple[str, ...]
    root: Root | None = None
    client: str | None = None
    service: Service | None = None
    opening: Opening | None = None
    peer: Peer | None = None
    entrypoint: str | None = None

    def shape(self, containers: int | None, cpus: int | None) -> Topology | None:
        """Return the topology asked for, if any: on the command line, or by a service."""
        asked = self.service
        if asked is not None and containers is None and (asked.replicas or 0) > 1:
            assert asked.replicas is not None
            containers = min(asked.replicas, DEFAULT_CONTAINERS)
            if containers < asked.replicas:
                told = f"of {asked.replicas} replicas {containers} run: --containers has more run"
                click.echo(f"partywall: {told}, --at {asked.replicas} tells of all", err=True)
        if asked is not None and cpus is None and asked.cpus is not None:
            cpus = math.ceil(asked.cpus)
        return shape_of(containers, cpus)

    def _of_service(self) -> list[str]:
        """Return capabilities that a service wants beside Docker's defaults."""
        if self.service is None:
            return []
        if ALL not in self.service.added:
            return list(self.service.added)
        return [f"CAP_{name}" for name in NAMES if f"CAP_{name}" not in self.service.dropped]

    def workloads(self, names: tuple[str, ...]) -> list[Workload]:
        """Return what is to run: the program, or the workloads of these names if there is none.

        UsageProblem if two are asked for, or the program can't run in a container.
        """
        if not self.command and not self.file and not self.root:
            given = {
                "--markers": self.marked is not None,
                "--window": self.opening is not None,
                "--ops": self.ops is not None,
                "--count": bool(self.count),
                "--charge": bool(self.charge),
                "--cap-add": bool(self.capabilities),
                "--entrypoint": self.entrypoint is not None,
            }
            for option, there in given.items():
                if there:
                    raise UsageProblem(
                        f"{option} belongs to a program of yours", "name it behind --"
                    )
        if self.client is not None and not self.root:
            raise UsageProblem(
                "--client asks a server in a root of its own",
                "give that with --image, --rootfs or --debian",
            )
        if self.peer is not None and self.client is None:
            raise UsageProblem(
                "--peer says where --client runs, and there is none", "say what asks the server"
            )
        if self.entrypoint is not None and not self.root:
            raise UsageProblem(
                "--entrypoint is in place of an image's own", "give that with --image"
            )
        if self.threads and not self.file:
            raise UsageProblem("--threads belongs to --will-it-scale", "leave it out")
        asked = {
            "--workload": bool(names),
            "--will-it-scale": self.file is not None,
            "a root of its own": self.root is not None,
            "COMMAND": bool(self.command) and self.root is None,
        }
        both = [option for option, there in asked.items() if there]
        if len(both) > 1:
            raise UsageProblem(f"{both[0]} and {both[1]} exclude each other", "leave one out")
        if self.root:
            program = workloads.from_root(
                self.root,
                list(self.command),
                marked=self.marked,
                window=self.ops,
                client=self.client,
                peer=self.peer,
                service=self.service,
                opening=self.opening,
                entrypoint=self.entrypoint,
            )
        elif self.command:
            program = workloads.from_command(
                list(self.command),
                marked=self.marked,
                window=self.ops or 1,
                opening=self.opening,
            )
        elif self.file:
            if self.marked is not None or self.opening is not None:
                option = "--window" if self.opening else "--markers"
                raise UsageProblem(
                    f"{option} belongs to COMMAND", "a file of will-it-scale needs no marks"
                )
            program = workloads.from_iterations(self.file, threads=self.threads, window=self.ops)
        else:
            return workloads.select_any(names)
        asked_for = (capability(name) for name in self.capabilities)
        more: dict[str, tuple[str, ...]] = {
            "count": tuple(dict.fromkeys(map(in_source, self.count))),
            "charge": tuple(dict.fromkeys(map(in_source, self.charge))),
            "capabilities": tuple(dict.fromkeys([*self._of_service(), *asked_for])),
        }
        return [program.model_copy(update=more)]


def _root(ctx: click.Context, param: click.Parameter, what: str | None) -> Root | None:
    """Return the root that an option asks for."""
    kind: dict[str | None, Literal["directory", "image", "debian"]] = {
        "rootfs": "directory",
        "image": "image",
        "debian": "debian",
    }
    return None if what is None else Root(kind=kind[param.name], what=what)


def _opening(ctx: click.Context, param: click.Parameter, text: str | None) -> Opening | None:
    """Return what the option says of a window."""
    return None if text is None else opening(text)


def _composed(file: Path, name: str | None, archives: tuple[str, ...]) -> tuple[Root, Service]:
    """Return the root and the service of a file; what is not as it says is said now."""
    found = composed.read(file, name, archives)
    for line in found.told:
        click.echo(plain(f"partywall: {line}"), err=True)
    service = found.service.model_copy(update={"left_out": found.left_out})
    return Root(kind="image", what=found.image), service


_OPTIONS = (
    click.option(
        "--rootfs",
        callback=_root,
        metavar="DIR",
        help="Root file system of the containers, in which COMMAND is: this directory.",
    ),
    click.option(
        "--image",
        callback=_root,
        metavar="ARCHIVE[:TAG]",
        help="That root from a container image: an OCI layout, or what docker save wrote.",
    ),
    click.option(
        "--entrypoint",
        metavar="PROGRAM",
        help="What starts in place of the entrypoint of --image, with COMMAND behind it; "
        "'' for COMMAND alone.",
    ),
    click.option(
        "--debian",
        callback=_root,
        metavar="PACKAGE[,PACKAGE]",
        help="That root made of packages of Debian's and what they depend on.",
    ),
    click.option(
        "--compose",
        type=FILE,
        metavar="FILE",
        help="Root, command, limits and confinement of a service of a Compose file, or of a pod of "
        "Kubernetes' manifests.",
    ),
    click.option(
        "--service",
        "service_name",
        metavar="NAME",
        help="Which service of --compose, if it has several.",
    ),
    click.option(
        "--images",
        multiple=True,
        metavar="DIR|NAME=ARCHIVE[:TAG]",
        help="Where --compose has its images from, as --image takes them; again for more.",
    ),
    click.option(
        "--client",
        metavar="CLIENT",
        help="Program that sends requests to COMMAND, a server, in the same container; in it "
        "{requests} is how many, and {server} the server's address.",
    ),
    click.option(
        "--peer",
        type=click.Choice(list(PEERS)),
        help="--client has a container of its own, and asks over a bridge, as in Docker's default "
        "network: on the CPUs of COMMAND, or on as many others; or from outside of that network, "
        "routed and with connections tracked. Both count as one container.",
    ),
    click.option(
        "--will-it-scale",
        "file",
        type=click.Path(path_type=Path),
        metavar="FILE.c",
        help="Compile this file, which has will-it-scale's interface, and run that.",
    ),
    click.option(
        "--threads",
        is_flag=True,
        help="Tasks of --will-it-scale in a container are threads of one process.",
    ),
    click.option(
        "--markers/--no-markers",
        "marked",
        default=None,
        help="Whether COMMAND marks its window itself; looked up in it if not given.",
    ),
    click.option(
        "--window",
        "opens",
        callback=_opening,
        metavar="HOW",
        help="Where the window of COMMAND is: after=2,for=0.5 (seconds of the guest's clock), "
        "from=LINE,to=LINE (that it prints), or signals (its SIGUSR1 and SIGUSR2 to its parent).",
    ),
    click.option(
        "--ops",
        type=click.IntRange(min=1),
        help="Operations in the window of COMMAND or FILE.c, or in all of a COMMAND that has none; "
        "with --client, requests on each CPU.",
    ),
    click.option(
        "--charge",
        multiple=True,
        metavar="FUNCTION",
        help="Function of the kernel that does work for COMMAND in kernel threads; again for more.",
    ),
    click.option(
        "--count",
        multiple=True,
        metavar="FUNCTION",
        help="Function of the kernel whose calls are counted; again for more.",
    ),
    click.option(
        "--cap-add",
        "capabilities",
        multiple=True,
        metavar="CAP",
        help="Capability that containers hold beside Docker's defaults, such as NET_ADMIN.",
    ),
    click.argument("command", nargs=-1, type=click.UNPROCESSED),
)


def program_options(function: Callable[..., int]) -> Callable[..., int]:
    """Options that say what COMMAND is, handed on as one `Program`, ``program``."""

    @functools.wraps(function)
    def together(
        *,
        command: tuple[str, ...],
        file: Path | None,
        threads: bool,
        marked: bool | None,
        opens: Opening | None,
        ops: int | None,
        count: tuple[str, ...],
        charge: tuple[str, ...],
        capabilities: tuple[str, ...],
        rootfs: Root | None,
        image: Root | None,
        debian: Root | None,
        compose: Path | None,
        service_name: str | None,
        images: tuple[str, ...],
        client: str | None,
        peer: Peer | None,
        entrypoint: str | None,
        **others: Any,
    ) -> int:
        roots = [root for root in (rootfs, image, debian) if root]
        if len(roots) + bool(compose) > 1:
            raise UsageProblem(
                "--rootfs, --image, --debian and --compose exclude each other", "leave one out"
            )
        root, service = roots[0] if roots else None, None
        if compose is not None:
            if command:
                raise UsageProblem(
                    "COMMAND and --compose exclude each other", "the service has a command"
                )
            if entrypoint is not None:
                raise UsageProblem(
                    "--entrypoint and --compose exclude each other", "the service can have one"
                )
            root, service = _composed(compose, service_name, images)
        elif service_name is not None or images:
            option = "--images" if images else "--service"
            raise UsageProblem(f"{option} belongs to --compose", "name a file with that")
        program = Program(
            command,
            file,
            threads,
            marked,
            ops,
            count,
            charge,
            capabilities,
            root,
            client,
            service,
            opens,
            peer,
            entrypoint,
        )
        return function(program=program, **others)

    for option in reversed(_OPTIONS):
        together = option(together)
    return together
