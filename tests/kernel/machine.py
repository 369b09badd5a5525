# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that runs programs on a kernel of ours and says how they went.

Not measured, so without the recorder and on as many host threads as vCPUs:
what races, races.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import reports
from hold import Hold, words
from reports import Report

from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import Accel, Guest, Settings, emulator, image, qemu
from partywall.guest.cpio import Archive
from partywall.kernels import Kernel, module_closure

PROGRAMS = Path(__file__).parent / "programs"

# The clock is said to be good: else the kernel would find that it is not while
# tasks run, and change its own code for that (see partywall/guest/emulator.py). The kernel says
# what is wrong, and no more. KUnit's tests take longer than the boot, and tell what
# they found in notes: who wants them says so in a job's options.
#
# Page tables have four levels: whether there are five is a flag of the processor's,
# and while the kernel finds out about the processor for the second time the flag is
# not set. KASAN takes what an interrupt reads then for wild. And a vCPU that the host
# does not run for half a minute is no stall of the kernel's.
COMMAND_LINE = (
    "console=ttyS0 panic=-1 oops=panic slab_nomerge nowatchdog tsc=reliable loglevel=5 "
    "kunit.enable=0 no5lvl rcupdate.rcu_cpu_stall_timeout=90"
)

INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec >/dev/ttyS1 2>&1
mkdir -p /dev/pts /dev/shm /dev/mqueue /tmp /run
mount -t devpts devpts /dev/pts
mount -t tmpfs tmp /tmp
mount -t tmpfs shm /dev/shm
mount -t mqueue mq /dev/mqueue 2>/dev/null
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
# The note of GNU's with number 3 and 20 bytes.
echo "KERNEL $(hexdump -ve '1/1 "%02x"' /sys/kernel/notes |
	sed 's/.*1400000003000000474e5500\\(.\\{40\\}\\).*/\\1/')"
for module in /modules/*.ko; do [ ! -e "$module" ] || insmod "$module"; done
echo 300 2>/dev/null >/proc/sys/kernel/hung_task_timeout_secs
hostname guest
ip link set lo up
for task in /task-*; do
	echo "TASK ${task#/task-} begins"
	/bin/sh $task </dev/null 2>&1
	echo "TASK ${task#/task-} ends $?"
done
echo "GUEST ends"
# Which waits until all that was written is out.
stty -F /dev/ttyS1 -echo
poweroff -f
"""


@dataclass(frozen=True)
class Ran:
    """What a guest printed: its kernel on the console, its tasks on a line of their own.

    On one line the kernel's words would come into the midst of a task's. ``held``: what was
    waited for where a processor is held (plugin/hold.c).
    """

    console: str
    printed: str = ""
    held: str = ""

    def status(self, task: str) -> int | None:
        """Exit status of a task; None if it did not end."""
        found = re.search(rf"TASK {re.escape(task)} ends (\d+)", self.printed)
        return int(found[1]) if found else None

    def output(self, task: str) -> str:
        """All that a task printed."""
        name = re.escape(task)
        found = re.search(
            rf"TASK {name} begins\n(.*?)(?:TASK {name} ends|\Z)", self.printed, re.DOTALL
        )
        return found[1] if found else ""

    def reports(self) -> list[Report]:
        """What the kernel says when something is wrong."""
        return reports.of_console(self.console)

    def alarms(self) -> list[str]:
        """The same, a text for each: a line, and those that explain it."""
        return [report.text for report in self.reports()]

    def slabs(self, task: str) -> dict[str, int]:
        """Objects in slab caches, as the script `slabs` printed them."""
        return {name: int(n) for name, n in re.findall(r"slab (\S+) (\d+)", self.output(task))}

    def stale_code(self) -> bool:
        """Whether the emulator brought the kernel down."""
        return emulator.stale_code(self.console)

    @property
    def end(self) -> str:
        """The last of what the kernel said and of what tasks printed."""
        return f"{self.console[-3000:]}\n{self.printed[-1000:]}"

    def build_id(self) -> str | None:
        """Build ID of the kernel that ran, hex; None if it did not come to that."""
        found = re.search(r"^KERNEL ([0-9a-f]{40})$", self.printed, re.MULTILINE)
        return found[1] if found else None

    @property
    def ended(self) -> bool:
        """Whether all tasks ended and the guest went down by itself."""
        return "GUEST ends" in self.printed


@dataclass(frozen=True)
class Job:
    """What to run.

    ``tasks``: shell scripts by name, run in the order of their names; ``counted``:
    by a clock that counts instructions, all processors in turn; ``hold``: where a processor
    is held, for programs that say which.
    """

    tasks: Mapping[str, str]
    programs: Iterable[str] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    modules: Iterable[str] = ()
    cpus: int = 4
    memory: int = 2048
    timeout: float = 600.0
    options: str = ""
    counted: bool = False
    hold: Hold | None = None


class Machine(Guest):
    """A guest, one processor of which may be held."""

    def __init__(self, how: Settings, kernel: Kernel, job: Job) -> None:
        super().__init__(how)
        self._words: list[str] = []
        self._said = self.directory / "held"
        if job.hold is not None:
            self._words = words(job.hold, kernel, how.qemu, self._said)

    def command(self) -> list[str]:
        """The QEMU command line."""
        return [*super().command(), *self._words]

    @property
    def held(self) -> str:
        """What was waited for."""
        return self._said.read_text() if self._said.exists() else ""


def slabs(*caches: str) -> str:
    """A script that prints how many objects slab caches hold, for `Ran.slabs`."""
    return f"""\
sleep 3
for cache in {" ".join(caches)}; do
	[ -e /sys/kernel/slab/$cache ] || continue
	echo 1 >/sys/kernel/slab/$cache/shrink
	echo "slab $cache $(cut -d' ' -f1 /sys/kernel/slab/$cache/objects)"
done
"""


def ext4() -> dict[str, bytes]:
    """Files with which `EXT4` makes a file system; it needs the modules brd and ext4."""
    return image.with_libraries(image.tool("mke2fs"), "/sbin/mke2fs")


EXT4 = """\
/sbin/mke2fs -q -t ext4 -m 0 -N 2048 /dev/ram0 && mkdir -p /new &&
	mount -t ext4 -o noatime /dev/ram0 /new
"""


def missing(script: str, **more: Any) -> Job:
    """A script that finds an ext4 file system at /new, and the program `missing`.

    Its output is that of the task ``1-run``.
    """
    return Job(
        {"0-new": EXT4, "1-run": script},
        ["missing"],
        files=ext4(),
        modules=["brd", "ext4", "overlay"],
        **more,
    )


def build(name: str) -> Path:
    """The static program of ``programs/NAME.c``."""
    return image.compile_static([PROGRAMS / f"{name}.c"], PROGRAMS, Quiet())


def initramfs(kernel: Kernel, job: Job) -> bytes:
    """The archive that a guest boots from: programs, modules and tasks."""
    archive = Archive()
    for path in ("bin", "sbin", "dev", "proc", "sys", "etc", "tmp", "modules"):
        archive.directory(path)
    archive.file("init", INIT.encode(), 0o755)
    archive.file("bin/busybox", image.tool("busybox").read_bytes(), 0o755)
    archive.symlink("bin/sh", "busybox")
    archive.file("etc/passwd", b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n")
    archive.file("etc/group", b"root:x:0:\nuser:x:1000:\n")
    for order, module in enumerate(module_closure(kernel, job.modules, []), start=10):
        archive.file(f"modules/{order}-{module.name}.ko", module.data)
    for name in job.programs:
        archive.file(f"bin/{name}", build(name).read_bytes(), 0o755)
    for path, data in job.files.items():
        archive.file(path.lstrip("/"), data, 0o755)
    for name, script in job.tasks.items():
        archive.file(f"task-{name}", f"{script}\n".encode())
    return archive.pack()


def settings(kernel: Kernel, job: Job) -> Settings:
    """How the guest is run."""
    # Not KVM: where it is nested and slow its probe passes by chance, and guests hang.
    fast: Accel = "threads"
    return Settings(
        qemu=qemu.find(),
        kernel_image=kernel.image,
        initramfs=(initramfs(kernel, job),),
        topology=Topology(1, job.cpus),
        plugin=None,
        timeout=job.timeout,
        command_line=f"{COMMAND_LINE} {'nokaslr ' if job.hold else ''}{job.options}",
        accel="icount" if job.counted else fast,
        memory=job.memory,
        second_line=True,
    )


def run(kernel: Kernel, job: Job) -> Ran:
    """Boots the kernel, runs the tasks, and returns what was printed.

    A guest that was brought down by a fault of its emulator is started again.
    EnvironmentProblem if the image is of another kernel than its vmlinux.
    """
    how = settings(kernel, job)
    for _ in range(emulator.ATTEMPTS):
        with Machine(how, kernel, job) as guest:
            guest.wait_for_end()
            ran = Ran(guest.console, guest.second, guest.held)
        if not ran.stale_code():
            break
        print("an emulator's fault, so once more:", *ran.alarms()[:3], sep="\n")
    if ran.build_id() not in (None, kernel.build_id):
        raise EnvironmentProblem(
            f"{kernel.image} is not of the same build as its vmlinux",
            f"remove {kernel.image.parent}: it is built again",
        )
    return ran
