# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that go wrong, and guests from other inputs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from checks import PARTYWALL, Checked, partywall, refused

from partywall import guest, workloads
from partywall.analyse.transfers import Parties, analyse, visits
from partywall.core.errors import EnvironmentProblem
from partywall.core.progress import Quiet
from partywall.core.topology import Topology
from partywall.guest import Guest, Settings, image, qemu
from partywall.guest.snapshot import booted
from partywall.kernels import Kernel
from partywall.kernels.sources import files
from partywall.record import hooks, reading
from partywall.record.functions import NEEDED
from partywall.record.plugin import recorder
from partywall.results import store

Check = Callable[..., Checked]
Program = Callable[[str], Path]

TWO = Topology(2, 1)


@pytest.fixture(scope="session")
def settings(kernel: Kernel) -> Settings:
    """The signal workload in two containers."""
    machine = qemu.find()
    workload = workloads.select(["signal"])[0]
    parts, _ = guest.initramfs(
        image.base(kernel, workload, Quiet()), image.job(workload, TWO, confined=True), Quiet()
    )
    return Settings(
        qemu=machine,
        kernel_image=kernel.image,
        initramfs=parts,
        topology=TWO,
        plugin=recorder(machine, Quiet()),
        hooks=hooks.build(kernel.vmlinux, workload).text,
        timeout=120,
    )


def transfers(settings: Settings) -> list[float]:
    """Transfers per operation of the two lines that every signal moves.

    A third holds the count of who uses root's counters, which only the first of
    the signals that are pending at once writes: who runs when decides.
    """
    with Guest(booted(settings, Quiet())) as machine:
        read = reading.load(machine.wait())
    parties = Parties.of(read, settings.topology.cpus)
    lines = analyse(visits(read).moving(), parties, 400 * settings.topology.total)
    moved = lines.between + lines.within
    return sorted(map(float, moved), reverse=True)[:2]


def test_keeping_slab_caches_apart_does_not_move_the_figures(settings: Settings) -> None:
    merged = replace(settings, command_line=f"{guest.COMMAND_LINE} slab_merge")
    assert transfers(merged) == pytest.approx(transfers(settings), rel=0.01) == [2.0, 2.0]


def test_a_kernel_that_panics_says_of_what(settings: Settings) -> None:
    line = f"{guest.COMMAND_LINE} init=/none"
    without_init = replace(settings, initramfs=(b"",), command_line=line)
    with (
        pytest.raises(EnvironmentProblem, match=r"panicked: (VFS|No working init|Requested init)"),
        Guest(without_init) as machine,
    ):
        machine.wait()


def test_a_guest_that_spins_at_boot_is_ended_long_before_its_time(settings: Settings) -> None:
    line = f"{guest.COMMAND_LINE} rdinit=/sbin/spin"
    spins = replace(settings, command_line=line, silence=10.0)
    version = re.escape(settings.qemu.version)
    with (
        pytest.raises(EnvironmentProblem, match=rf"does not get on: .* QEMU {version}"),
        Guest(spins) as machine,
    ):
        machine.wait()


def test_a_guest_that_sleeps_is_ended_by_its_own_clock(settings: Settings) -> None:
    """Marks that nobody looks for, as with a QEMU that shows them on the wrong CPU."""
    version = re.escape(settings.qemu.version)
    with (
        pytest.raises(EnvironmentProblem, match=rf"the guest sleeps: .*\(QEMU {version}\)"),
        Guest(booted(replace(settings, plugin=None, timeout=300), Quiet())) as machine,
    ):
        machine.wait()


def test_a_full_table_is_an_error_that_says_so(settings: Settings) -> None:
    tiny = booted(replace(settings, memory_limit=0), Quiet())
    with pytest.raises(EnvironmentProblem, match="tables full"), Guest(tiny) as machine:
        machine.wait()


def test_a_guest_leaves_nothing_behind(settings: Settings) -> None:
    with Guest(replace(settings, timeout=1)) as machine:
        directory = machine.directory
        with pytest.raises(EnvironmentProblem, match="did not finish"):
            machine.wait()
    assert not directory.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize("room", ["for nothing", "for all but the recording"])
def test_a_full_disk_is_an_error_that_says_so(
    settings: Settings, tmp_path: Path, room: str
) -> None:
    need = sum(map(len, settings.initramfs))
    size = 1 << 20 if room == "for nothing" else need + (256 << 10)
    script = f"mount -t tmpfs -o size={size} none {tmp_path} && TMPDIR={tmp_path} exec "
    command = f"{script} {PARTYWALL} check -w signal -n 2 --json --results {tmp_path}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    refused(done, 3, "No space left on device")


def test_a_program_that_dies_is_named(program: Program, tmp_path: Path) -> None:
    path = program("#include <stdlib.h>\nint main(void) { abort(); }")
    done = partywall("check", "-n", 2, "--no-markers", "--results", tmp_path / "r", "--", path)
    refused(done, 3, "program 2 x 1", "exit status 134 before the window's end")
    assert not (tmp_path / "r").exists()


def test_a_program_that_hangs_is_ended(program: Program, tmp_path: Path) -> None:
    path = program(
        '#include "partywall.h"\n'
        "int main(void) { partywall_start(); for (;;) __builtin_ia32_pause(); }"
    )
    done = partywall("check", "-n", 2, "--timeout", 15, "--results", tmp_path / "r", "--", path)
    refused(done, 3, "did not finish its windows in 15 s", "--timeout")


def test_a_program_that_sleeps_for_ever_is_ended_by_the_guests_clock(
    program: Program, tmp_path: Path
) -> None:
    path = program(
        '#include <unistd.h>\n#include "partywall.h"\n'
        "int main(void) { partywall_start(); for (;;) pause(); partywall_stop(); }"
    )
    done = partywall("check", "-n", 2, "--timeout", 200, "--results", tmp_path / "r", "--", path)
    refused(done, 3, "the guest sleeps: its windows did not end in 200 s", "--timeout")


def test_a_program_of_ones_own_is_measured_in_its_window(program: Program, tmp_path: Path) -> None:
    path = program(
        '#include <signal.h>\n#include "partywall.h"\n'
        "static void nothing(int n) { (void)n; }\n"
        "int main(void) { signal(SIGUSR1, nothing); raise(SIGUSR1); partywall_start();\n"
        "for (int i = 0; i < 100; i++) raise(SIGUSR1); partywall_stop(); return 0; }"
    )
    done = partywall(
        "check", "-n", 2, "--json", "--ops", 100, "--results", tmp_path / "r", "--", path
    )
    assert done.returncode == 0, done.stderr
    names = re.findall(r'"name": "(init_ucounts|[^"]*aa_profile)"', done.stdout)
    assert {"init_ucounts", "kmalloc-512: struct aa_profile"} == set(names)


def test_containers_with_a_profile_each_share_the_count_of_none(tmp_path: Path) -> None:
    done = partywall(
        *("check", "-w", "signal", "-n", 2, "--apparmor", "own", "--json"),
        *("--results", tmp_path / "r"),
    )
    assert done.returncode == 0, done.stderr
    (signal_,) = store.parse(done.stdout).workloads
    assert signal_.confinement == "docker (an AppArmor profile each)"
    assert {wall.name for wall in signal_.found} == {"init_ucounts"}


def test_what_a_kernel_thread_does_for_a_program_is_charged_to_it(
    program: Program, tmp_path: Path
) -> None:
    path = program(
        '#define _GNU_SOURCE\n#include <sched.h>\n#include <unistd.h>\n#include "partywall.h"\n'
        "int main(void) { if (unshare(CLONE_NEWNET)) return 3; partywall_start();\n"
        "for (int i = 0; i < 4; i++) if (unshare(CLONE_NEWNET)) return 4;\n"
        "usleep(300000); partywall_stop(); return 0; }"
    )
    asked = ("--cap-add", "SYS_ADMIN", "--charge", "cleanup_net", "--count", "cleanup_net")
    where = ("--results", tmp_path / "r", "--", path)
    done = partywall("check", "-n", 2, "--json", "--ops", 4, *asked, *where)
    assert done.returncode == 0, done.stderr
    (found,) = store.parse(done.stdout).workloads
    assert found.confinement == "docker (+CAP_SYS_ADMIN)"
    assert found.calls[0].per_op > 0
    assert any(site.context == "cleanup_net" for wall in found.walls for site in wall.code)


ITERATES = """
#include <unistd.h>
char *testcase_description = "dup() and close()";
static int fd;
static struct { unsigned long long more; } unlike;
void testcase_prepare(unsigned long nr_tasks) { fd = dup(0); unlike.more = nr_tasks; }
void testcase(unsigned long long *iterations, unsigned long nr)
{
	for (;;) {
		close(dup(fd));
		unlike.more += nr;
		(*iterations)++;
	}
}
"""


@pytest.mark.parametrize(
    ("shape", "walls"),
    [
        (("-n", 2), False),
        pytest.param(("-n", 1, "-c", 2), False, marks=pytest.mark.slow),
        (("-n", 1, "-c", 2, "--threads"), True),
    ],
    ids=["containers", "processes", "threads"],
)
def test_will_it_scales_window_is_just_its_operations(
    tmp_path: Path, shape: tuple[str | int, ...], *, walls: bool
) -> None:
    path = tmp_path / "dup1.c"
    path.write_text(ITERATES)
    counted = ("--count", "__x64_sys_dup", "--count", "__x64_sys_close", "--ops", 50)
    where = ("--json", "--results", tmp_path / "r")
    done = partywall("check", "--will-it-scale", path, *shape, *counted, *where)
    assert done.returncode == 0, done.stderr
    (found,) = store.parse(done.stdout).workloads
    assert found.operations == 100
    assert [call.per_op for call in found.calls] == [1.0, 1.0]
    # Threads of one process have one table of descriptors.
    assert any("files_struct" in wall.name for wall in found.objects) == walls


def test_a_program_without_markers_is_measured_whole(program: Program, tmp_path: Path) -> None:
    path = program("#include <unistd.h>\nint main(void) { return getppid() < 0; }")
    done = partywall("check", "-n", 2, "--json", "--results", tmp_path / "r", "--", path)
    assert done.returncode == 0, done.stderr
    assert '"syscall execve"' in done.stdout


@pytest.mark.slow
def test_files_on_disk_are_as_good_as_the_package(kernel: Kernel, check: Check) -> None:
    package = check("-w", "signal", "-n", "2").of("signal", 2)
    on_disk = check(
        *("-w", "signal", "-n", "2", "--kernel", str(kernel.image)),
        *("--vmlinux", str(kernel.vmlinux), "--modules", str(kernel.modules)),
    ).of("signal", 2)
    assert on_disk == package


def fake_vmlinux(banner: str, folder: Path) -> Path:
    """An ELF file that claims to be a kernel."""
    source, out = folder / "vmlinux.c", folder / "vmlinux"
    # With what contexts are told by, or it would be refused for that.
    functions = "".join(f"void {name.split('|')[0]}(void) {{}}\n" for name in NEEDED)
    source.write_text(
        f'const char linux_banner[] = "{banner}\\n";\n{functions}int main(void) {{ return 0; }}\n'
    )
    subprocess.run(["gcc", "-o", out, source], check=True, timeout=60)
    return out


def test_a_vmlinux_of_another_kernel_is_refused_before_anything_boots(
    kernel: Kernel, tmp_path: Path
) -> None:
    other = fake_vmlinux("Linux version 6.1.0 (a@b) (gcc) #1 SMP", tmp_path)
    done = partywall("check", "--kernel", kernel.image, "--vmlinux", other)
    refused(done, 2, "of another kernel", "6.1.0")


def test_a_vmlinux_of_another_build_is_refused_by_what_the_guest_says(
    kernel: Kernel, tmp_path: Path
) -> None:
    release, builder, version = re.fullmatch(  # type: ignore[union-attr]
        r"(\S+) (\(.*?\)) (#.*)", files.image_version(kernel.image)
    ).groups()
    banner = f"Linux version {release} {builder} (gcc) {version}"
    done = partywall(
        *("check", "-w", "signal", "-n", 2, "--kernel", kernel.image),
        *("--vmlinux", fake_vmlinux(banner, tmp_path), "--modules", kernel.modules),
        *("--results", tmp_path / "r"),
    )
    refused(done, 2, "of another kernel than the one that ran")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cleans_up(number: signal.Signals, tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [PARTYWALL, "check", "-w", "signal", "--results", tmp_path / "r"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    wait_for_guest(tmp_path)
    process.send_signal(number)
    out, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert (out, error.count("\n")) == ("", 1)
    assert "interrupted" in error
    assert list(tmp_path.iterdir()) == []
    assert not guests_of(tmp_path)


def test_what_a_killed_check_left_is_removed_by_the_next(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [PARTYWALL, "check", "-w", "signal", "--results", tmp_path / "r"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    wait_for_guest(tmp_path)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while guests_of(tmp_path):
        assert time.monotonic() < deadline, "the guest outlives the program that started it"
        time.sleep(0.1)
    assert list(tmp_path.glob("partywall-guest-*"))
    partywall("check", "-w", "signal", "-n", 1, "-c", 1, env=environment)
    done = partywall(
        *("check", "-w", "signal", "-n", 2, "--timeout", 1, "--results", tmp_path / "r"),
        env=environment,
    )
    refused(done, 3, "did not finish")
    assert not list(tmp_path.glob("partywall-guest-*"))


def guests_of(directory: Path) -> str:
    """Emulators that have files in ``directory``."""
    return subprocess.run(
        ["pgrep", "-f", f"qemu.*{directory}"], capture_output=True, text=True, check=False
    ).stdout


def wait_for_guest(directory: Path) -> None:
    """Until a guest runs that keeps its files in ``directory``."""
    deadline = time.monotonic() + 60
    while not list(directory.glob("partywall-guest-*/console")):
        assert time.monotonic() < deadline, "no guest was started"
        time.sleep(0.1)


def test_without_network_and_cache_the_error_says_so(tmp_path: Path) -> None:
    environment = os.environ | {
        "XDG_CACHE_HOME": str(tmp_path),
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    done = partywall("check", "-w", "signal", "--results", tmp_path / "r", env=environment)
    # What is to come is said before, as in any log: then the error.
    ahead, _, done.stderr = done.stderr.partition("\n")
    assert re.match(r"first run with linux-image-\S+: \d+ MB to download, ", ahead)
    refused(done, 3, "downloading linux-image-", "network")
    assert not list(tmp_path.rglob("*.deb"))


def test_the_exit_status_tells_of_a_wall(tmp_path: Path) -> None:
    common = ("check", "-w", "signal", "-n", 2, "--results", tmp_path / "r", "--ktap")
    done = partywall(*common, "--fail-above", 1)
    assert done.returncode == 1
    assert "not ok 1 signal 2x1" in done.stdout
    saved = next((tmp_path / "r").iterdir())
    assert partywall("report", saved, "--ktap", "--fail-above", 10).returncode == 0


def test_a_workload_that_the_kernel_can_not_run_names_the_option(
    kernel: Kernel, tmp_path: Path
) -> None:
    assert kernel.config is not None
    less = kernel.config.replace("CONFIG_OVERLAY_FS=m", "# CONFIG_OVERLAY_FS is not set")
    (tmp_path / ".config").write_text(less)
    vmlinux = tmp_path / "vmlinux"
    vmlinux.symlink_to(kernel.vmlinux)
    done = partywall("check", "-w", "overlay", "--kernel", kernel.image, "--vmlinux", vmlinux)
    refused(done, 2, "CONFIG_OVERLAY_FS")
