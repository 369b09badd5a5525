# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest holds: busybox, crun, workloads and the modules a kernel needs.

There are three archives: what a kernel boots with, the same for all; the base, which is
the same for every run on a kernel; and the job, which says what this run's containers are.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from partywall.core import packages
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Progress
from partywall.core.topology import Layers, Profiles, Topology
from partywall.guest import asked, bundle, oci, peers, rooted
from partywall.guest.cpio import Archive
from partywall.guest.rooted import LAUNCHER
from partywall.guest.roots import Fitted, Place, Start, choose
from partywall.kernels import Kernel, module_closure
from partywall.workloads import (
    Workload,
    build_network,
    build_server,
    build_workload,
    compile_static,
)

GUEST_FILES = Path(__file__).resolve().parent / "files"
PROGRAM_DIR = "/usr/lib/partywall"
SHARED_DIR = "/usr/share/partywall"
MODULES = ("ext4", "overlay")
OPTIONAL_MODULES = ("brd",)
IMAGE = "/image"
"""Where init has the disk with roots of containers."""

ROOM = 128
"""MiB of the disk that all containers write to, unless a workload needs more; as init has it."""


def tool(name: str) -> Path:
    """A program of the system, wherever root's or a user's path has it."""
    path = shutil.which(name, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if path is None:
        raise EnvironmentProblem(f"{name} is not installed", packages.mend("check"))
    return Path(path)


def with_libraries(program: Path, at: str) -> dict[str, bytes]:
    """A dynamic program for ``at``, and the shared objects and the interpreter it loads."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    libraries = sorted(set(re.findall(r"(/\S+) \(0x", done.stdout)))
    return {at: program.read_bytes()} | {path: Path(path).read_bytes() for path in libraries}


def _add_program(archive: Archive, program: Path, at: str) -> None:
    for path, data in with_libraries(program, at).items():
        archive.file(path.lstrip("/"), data, 0o755)


def apparmor_policy(names: Iterable[str] = (oci.APPARMOR_PROFILE,)) -> bytes:
    """Return our profile by these names, compiled: the guest's kernel takes it as it is."""
    command = [str(tool("apparmor_parser")), "-Q", "-K", "-S", "-I", "/etc/apparmor.d"]
    command += ["--base", "/etc/apparmor.d"]
    head, text = (GUEST_FILES / "apparmor.profile").read_text().split("\n\n", 1)
    several = [text.replace(oci.APPARMOR_PROFILE, name) for name in names]
    text = "\n\n".join([head, *several])
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode or not done.stdout:
        why = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise EnvironmentProblem(f"apparmor_parser failed: {''.join(why)}")
    return done.stdout


LAYER_FOLDERS = ("dev", "etc", "proc", "run", "sys", "tmp", f"{PROGRAM_DIR[1:]}", "var")


def layer_folders(wanted: Sequence[Workload]) -> tuple[str, ...]:
    """Folders of the one image that all containers are made from, for these workloads."""
    return LAYER_FOLDERS + (bundle.FOLDERS if any(one.bundle for one in wanted) else ())


def layer_files(
    programs: dict[str, bytes], wanted: Sequence[Workload]
) -> dict[str, tuple[bytes, int]]:
    """Files of that image, data and mode by path in it.

    The image's owner is not in the containers, so those that a workload wants to have of
    its own there are for everybody to write.
    """
    lower = max(one.lower_files for one in wanted)
    shared = SHARED_DIR.lstrip("/")
    found = {
        "etc/hostname": (b"container\n", 0o644),
        # The target of a bind mount has to be a file, as its source is.
        "run/partywall": (b"", 0o644),
        f"{shared}/file": (b"A file that all containers share.\n" * 16, 0o644),
    }
    found |= {f"{shared}/other-{number}": (b"another\n", 0o644) for number in range(3)}
    found |= {f"{shared}/lower/{number}": (bytes(4096), 0o666) for number in range(lower)}
    if any(one.bundle for one in wanted):
        crun = with_libraries(tool("crun"), bundle.CRUN)
        found |= bundle.files(crun, tool("busybox").read_bytes())
    return found | {path.lstrip("/"): (data, 0o755) for path, data in programs.items()}


def layer(archive: Archive, programs: dict[str, bytes], wanted: Sequence[Workload]) -> None:
    """Add the one image that all containers are made from: their lower layer."""
    number = max(one.lower_layers for one in wanted)
    for top in ("layer", *(f"lower/{below}" for below in range(1, number))):
        for path in (*layer_folders(wanted), SHARED_DIR[1:]):
            archive.directory(f"{top}/{path}", 0o1777 if path == "tmp" else 0o755)
    for path, (data, mode) in layer_files(programs, wanted).items():
        archive.file(f"layer/{path}", data, mode)


def early(progress: Progress) -> bytes:
    """Return the archive that a kernel boots with, until it gets the others."""
    archive = Archive()
    for path in ("bin", "sbin", "dev", "proc", "sys", "etc", "lib", "lib64", "usr", "job"):
        archive.directory(path)
    archive.file("init", (GUEST_FILES / "init").read_bytes(), 0o755)
    archive.file("bin/busybox", tool("busybox").read_bytes(), 0o755)
    archive.symlink("bin/sh", "busybox")
    for name in ("fw-cfg", "spin"):
        _add_own(archive, name, progress)
    return archive.pack()


def _add_own(archive: Archive, name: str, progress: Progress) -> None:
    """Add a program of the guest's own."""
    program = compile_static([GUEST_FILES / f"{name}.c"], GUEST_FILES, progress)
    archive.file(f"sbin/{name}", program.read_bytes(), 0o755)


def system(kernel: Kernel, modules: Iterable[str], progress: Progress) -> Archive:
    """Return what the guest's other programs are in: an archive without an image of containers."""
    archive = Archive()
    _add_program(archive, tool("crun"), "bin/crun")
    _add_program(archive, tool("mke2fs"), "sbin/mke2fs")
    _add_own(archive, "seed", progress)
    wanted = module_closure(kernel, [*MODULES, *modules], OPTIONAL_MODULES)
    for order, module in enumerate(wanted, start=10):
        archive.file(f"modules/{order}-{module.name}.ko", module.data)
    return archive


def base(kernel: Kernel, workload: Workload, progress: Progress) -> bytes:
    """The archive that depends on the kernel and the program, not on the topology."""
    of_root = () if workload.root is None else choose(kernel).modules
    archive = system(kernel, (*workload.modules, *of_root), progress)
    if workload.root is not None:
        # The image of its containers is on a disk.
        launcher = build_server(progress) if workload.client else build_workload(None, progress)
        archive.file(LAUNCHER[1:], launcher.read_bytes(), 0o755)
        if workload.peer is not None:
            archive.file("sbin/network", build_network(progress).read_bytes(), 0o755)
        archive.directory("layer")
        return archive.pack()
    if workload.command:
        launcher = build_workload(None, progress)
        programs = {
            LAUNCHER: launcher.read_bytes(),
            f"{PROGRAM_DIR}/{workload.name}": Path(workload.command[0]).read_bytes(),
        }
    else:
        programs = {
            f"{PROGRAM_DIR}/{workload.name}": build_workload(workload.source, progress).read_bytes()
        }
    layer(archive, programs, [workload])
    return archive.pack()


def job(
    workload: Workload,
    topology: Topology,
    *,
    confined: bool,
    layers: Layers = "shared",
    profiles: Profiles = "shared",
    volatile: bool = False,
    milliseconds: int = 0,
    disk: Fitted | None = None,
    step: int = 0,
    patience: int = 0,
) -> bytes:
    """Return the archive that tells the guest which containers to make.

    ``layers``: whether their roots have one lower layer or a copy each; ``profiles``: whether
    they have one AppArmor profile, one each, or none; ``volatile``: their overlays sync nothing;
    ``milliseconds``: run by the clock for so long, instead of a window; ``disk``: what
    the root of a workload's containers is on, if it is not ours; ``step``: operations
    around which memory is looked at afterwards, 0 for none; ``patience``: seconds of its own
    time after which the guest ends itself, 0 if it does not.
    """
    if disk is not None:
        every = [rooted_one(workload, disk.place.start, one) for one in range(topology.containers)]
    elif workload.command:
        program = f"{PROGRAM_DIR}/{workload.name}"
        every = [Contained([LAUNCHER, program, *workload.command[1:]])] * topology.containers
    else:
        every = [Contained([f"{PROGRAM_DIR}/{workload.name}"])] * topology.containers
    told = {
        "PW_MARKED": str(int(workload.marked)),
        "PW_VARIANT": workload.variant,
        "PW_WARMUP": str(workload.warmup),
        "PW_WINDOW": str(workload.window),
    }
    if workload.fresh_cpus:
        told["PW_FRESH_CPUS"] = "1"
    if workload.opening is not None:
        told |= workload.opening.environment()
        if patience and workload.opening.by != "time":
            # As long as any other, so that no address in the guest depends on it.
            told["PW_ENDED_AFTER"] = f"{patience:06d}"
    if workload.client:
        told["PW_PATIENCE"] = str(rooted.patience(topology))
    if step:
        told["PW_STEP"] = str(step)
    if milliseconds:
        told["PW_MILLISECONDS"] = str(milliseconds)
    more = oci.USUAL if disk is None else rooted.CONFINEMENT
    archive = containers(
        workload,
        topology,
        every,
        told,
        confined=confined,
        more=more,
        disk=disk,
        profiles=profiles,
    )
    if layers == "own":
        archive.file("job/own-layers", b"")
    if volatile:
        archive.file("job/volatile", b"")
    return archive.pack()


def rooted_one(workload: Workload, start: Start, number: int) -> Contained:
    """Return what a container of this number runs, of a root that starts programs so."""
    client = rooted.client(workload, number) if workload.peer else None
    command = [rooted.INSIDE, *rooted.arguments(workload, start, number)]
    return Contained(command, client=client, files=workload.files)


def _where(number: int, topology: Topology) -> dict[str, str]:
    """Return what a container is told of where it runs."""
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PW_BARRIER": "/run/partywall",
        "PW_CPU": str(number * topology.cpus),
        "PW_CPUS": str(topology.cpus),
        "PW_PROCS": str(topology.total),
    }


@dataclass(frozen=True)
class Contained:
    """What one container runs.

    ``told``: environment of its own; ``client``: what asks it, from a container beside it;
    ``place``: of its root on the disk, if that has several; ``files``: a folder of its own.
    """

    command: Sequence[str]
    told: Mapping[str, str] = field(default_factory=dict)
    client: Sequence[str] | None = None
    place: Place | None = None
    files: Path | None = None


def containers(
    workload: Workload,
    topology: Topology,
    every: Sequence[Contained],
    told: dict[str, str],
    *,
    confined: bool,
    more: oci.Confinement = oci.USUAL,
    disk: Fitted | None = None,
    profiles: Profiles = "shared",
) -> Archive:
    """Return an archive of containers that are confined as a workload is.

    ``told``: environment of all, beside what says where each runs; ``disk``, ``profiles``: as
    for `job`.
    """
    archive = Archive()
    apparmor = confined and workload.apparmor == "docker" and profiles != "none"

    def put(number: int, one: Contained, side: peers.Side) -> None:
        command = one.command if side == "server" else [rooted.INSIDE, "0", *(one.client or ())]
        confines = workload if side == "server" else peers.client_of(workload)
        cpus = peers.cpus(workload, topology, number, side)
        layers = ["/layer", *(f"/lower/{below}" for below in range(1, workload.lower_layers))]
        config = oci.config(
            number=number,
            cpus=cpus,
            arguments=list(command),
            environment={
                **told,
                **(one.told if side == "server" else {}),
                **_where(number, topology),
                **peers.environment(workload),
            },
            capabilities=confines.capabilities,
            confined=confined,
            apparmor=apparmor,
            seccomp=confines.seccomp == "docker",
            systempaths=confines.systempaths == "docker",
            more=more,
            profile=oci.apparmor_profile(number, profiles),
            dropped=() if confines.service is None else confines.service.dropped,
        )
        at = f"job/{number if side == 'server' else peers.name(number, side)}"
        if disk is not None:
            place = one.place or disk.place
            config = rooted.config(config, place.start, files=one.files is not None)
            layers = [f"{IMAGE}/{folder}" for folder in place.folders] or [IMAGE]
            if confines.service is not None:
                config = asked.config(config, confines.service, len(cpus))
            for name, data in rooted.files(number, workload, side, one.files).items():
                archive.file(f"{at}/{name}", data)
        if workload.peer is not None:
            config = peers.config(config, number, side)
        if workload.opening is not None:
            process = config["process"]
            process["rlimits"] = workload.opening.allowed(process.get("rlimits", []))
        archive.file(f"{at}/layers", f"{':'.join(layers)}\n".encode())
        archive.file(f"{at}/config.json", json.dumps(config, indent=1).encode())
        owner = oci.first_uid(number, more.users)
        archive.file(f"{at}/owner", f"{owner}:{owner}\n".encode())

    for number, one in enumerate(every):
        put(number, one, "server")
        if one.client is not None:
            put(number, one, "client")
    asking = [number for number, one in enumerate(every) if one.client is not None]
    if asking:
        archive.file("job/peers", peers.told(workload, len(asking)))
    names = [*map(str, range(len(every))), *(peers.name(number, "client") for number in asking)]
    archive.file("job/containers", f"{' '.join(names)}\n".encode())
    if apparmor:
        numbers = range(topology.containers)
        known_as = dict.fromkeys(oci.apparmor_profile(number, profiles) for number in numbers)
        archive.file("job/apparmor", apparmor_policy(known_as))
    if disk is not None:
        if workload.room:
            room = ROOM + workload.room * topology.containers
            archive.file("job/room", f"{room << 10}\n".encode())
        # A guest's hash tells what is on it.
        archive.file("job/disk", disk.told.encode())
    return archive


def tool_versions() -> dict[str, str]:
    """Versions of the programs that the guest holds or is made with."""
    found = {}
    for name, option in (
        ("apparmor_parser", "--version"),
        ("busybox", "--help"),
        ("crun", "--version"),
        ("gcc", "-dumpfullversion"),
        ("mke2fs", "-V"),
    ):
        done = subprocess.run(
            [str(tool(name)), option], capture_output=True, text=True, check=False
        )
        said = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
        found[name] = said[0] if said else "unknown"
    return found


def digest(parts: Iterable[bytes]) -> str:
    """SHA-256 of an initramfs made of ``parts``, hex."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()
