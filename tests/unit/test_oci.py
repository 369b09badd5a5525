# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers are confined as Docker's documentation says, no more and no less."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partywall.guest import image, oci

CLONE_NEWUSER, CLONE_NEWNET, CLONE_VM, SIGCHLD = 0x1000_0000, 0x4000_0000, 0x100, 17

# Docker: "Runtime privilege and Linux capabilities", what is kept by default.
DEFAULT = {
    f"CAP_{name}"
    for name in (
        "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW "
        "SETFCAP SETGID SETPCAP SETUID SYS_CHROOT"
    ).split()
}


def config(number: int = 0, *capabilities: str, **more: Any) -> dict[str, Any]:
    """A container on one CPU, confined as Docker does it."""
    given_: dict[str, Any] = {
        "cpus": range(number, number + 1),
        "arguments": ["/bin/true"],
        "environment": {"PATH": "/bin", "A": "1"},
        "capabilities": capabilities,
        "confined": True,
        "apparmor": True,
        "systempaths": True,
    }
    return oci.config(number=number, **(given_ | more))


def fits(condition: dict[str, Any], *arguments: int) -> bool:
    """Whether a call's arguments are what a condition asks for."""
    value, asked = arguments[condition["index"]], condition["value"]
    match condition["op"]:
        case "SCMP_CMP_MASKED_EQ":
            return bool(value & asked == condition["valueTwo"])
        case "SCMP_CMP_LT":
            return bool(value < asked)
        case "SCMP_CMP_EQ":
            return bool(value == asked)
    raise AssertionError(condition)


def verdict(container: dict[str, Any], call: str, *arguments: int) -> str | int:
    """What the filter does about a call: "allow", or the errno it gives.

    Rules of a call are asked one after the other: none has one that lets it through and
    one that refuses it.
    """
    seccomp = container["linux"]["seccomp"]
    for rule in seccomp["syscalls"]:
        if call not in rule["names"]:
            continue
        if all(fits(condition, *arguments) for condition in rule.get("args", [])):
            allowed = rule["action"] == "SCMP_ACT_ALLOW"
            return "allow" if allowed else int(rule["errnoRet"])
    assert seccomp["defaultAction"] == "SCMP_ACT_ERRNO"
    return int(seccomp["defaultErrnoRet"])


BY_ADMIN = ["unshare", "mount", "umount2", "bpf", "setns", "quotactl", "fspick", "fsopen"]


@pytest.mark.parametrize("call", BY_ADMIN)
def test_calls_of_an_administrator_need_the_capability(call: str) -> None:
    assert verdict(config(), call) == 1
    assert verdict(config(0, "CAP_SYS_ADMIN"), call) == "allow"


@pytest.mark.parametrize(
    ("call", "capability"),
    [
        ("reboot", "CAP_SYS_BOOT"),
        ("finit_module", "CAP_SYS_MODULE"),
        ("acct", "CAP_SYS_PACCT"),
        ("settimeofday", "CAP_SYS_TIME"),
        ("mbind", "CAP_SYS_NICE"),
        ("iopl", "CAP_SYS_RAWIO"),
    ],
)
def test_a_capability_brings_back_its_own_calls_alone(call: str, capability: str) -> None:
    assert verdict(config(), call) == 1
    assert verdict(config(0, capability), call) == "allow"
    assert verdict(config(0, "CAP_SYS_ADMIN"), call) == 1
    assert verdict(config(0, capability), "mount") == 1


@pytest.mark.parametrize(
    "call", ["keyctl", "add_key", "userfaultfd", "pivot_root", "io_uring_setup", "swapon"]
)
def test_some_calls_are_blocked_for_everyone(call: str) -> None:
    everything = [f"CAP_SYS_{n}" for n in ("ADMIN", "BOOT", "MODULE", "TIME", "NICE", "RAWIO")]
    assert verdict(config(0, *everything), call) == 1


@pytest.mark.parametrize("call", ["kcmp", "open_by_handle_at", "sysfs"])
def test_calls_that_docker_lists_are_blocked(call: str) -> None:
    assert verdict(config(), call) == 1


@pytest.mark.parametrize(
    "call", "read write openat access stat fork wait4 tgkill rt_sigreturn kill futex mmap".split()
)
def test_what_programs_need_is_allowed(call: str) -> None:
    assert verdict(config(), call) == "allow"


def test_clone3_looks_missing_without_the_capability() -> None:
    assert verdict(config(), "clone3") == 38
    assert verdict(config(0, "CAP_SYS_ADMIN"), "clone3") == "allow"


@pytest.mark.parametrize("flag", [CLONE_NEWUSER, CLONE_NEWNET, 0x0002_0000, 0x0200_0000])
def test_clone_makes_no_namespaces_without_the_capability(flag: int) -> None:
    assert verdict(config(), "clone", flag | SIGCHLD) == 1
    assert verdict(config(0, "CAP_SYS_ADMIN"), "clone", flag | SIGCHLD) == "allow"


def test_clone_makes_processes_and_threads() -> None:
    assert verdict(config(), "clone", SIGCHLD) == "allow"
    assert verdict(config(), "clone", CLONE_VM | SIGCHLD) == "allow"


AF_UNIX, AF_INET6, AF_NETLINK, AF_ALG, AF_VSOCK, AF_XDP = 1, 10, 16, 38, 40, 44


@pytest.mark.parametrize("family", [AF_UNIX, AF_INET6, AF_NETLINK, AF_XDP])
def test_sockets_of_most_families_are_made(family: int) -> None:
    assert verdict(config(), "socket", family) == "allow"


@pytest.mark.parametrize("family", [AF_ALG, AF_VSOCK, 1000])
def test_sockets_of_other_families_are_refused_whatever_a_container_holds(family: int) -> None:
    for held in ((), ("CAP_SYS_ADMIN", "CAP_NET_ADMIN")):
        assert verdict(config(0, *held), "socket", family) == 1


def test_a_process_may_ask_for_its_personality_but_not_have_any() -> None:
    assert verdict(config(), "personality", 0xFFFF_FFFF) == "allow"
    assert verdict(config(), "personality", 0) == "allow"
    assert verdict(config(), "personality", 0x0040_0000) == 1


def test_a_call_of_several_capabilities_is_let_through_by_any() -> None:
    for held in ("CAP_BPF", "CAP_SYS_ADMIN"):
        assert verdict(config(0, held), "bpf") == "allow"
    assert verdict(config(), "bpf") == 1


def test_a_call_that_nobody_knows_is_refused() -> None:
    assert verdict(config(0, "CAP_SYS_ADMIN"), "a_call_of_another_kernel") == 1


@pytest.mark.parametrize("capabilities", [(), ("CAP_SYS_ADMIN",), ("CAP_SYS_ADMIN", "CAP_BPF")])
def test_no_call_is_both_let_through_and_refused(capabilities: tuple[str, ...]) -> None:
    rules = config(0, *capabilities)["linux"]["seccomp"]["syscalls"]
    does: dict[str, set[str]] = {}
    for rule in rules:
        for name in rule["names"]:
            does.setdefault(name, set()).add(rule["action"])
    assert [name for name, actions in does.items() if len(actions) > 1] == []


def test_the_default_capabilities_are_dockers() -> None:
    held = config()["process"]["capabilities"]
    assert set(held) == {"bounding", "effective", "permitted"}
    assert all(set(kind) == DEFAULT for kind in held.values())


def test_capabilities_that_a_workload_asks_for_are_added_once() -> None:
    held = config(0, "CAP_SYS_ADMIN", "CAP_CHOWN")["process"]["capabilities"]
    for kind in held.values():
        assert sorted(kind) == sorted(DEFAULT | {"CAP_SYS_ADMIN"})


@pytest.mark.parametrize("cpus", [range(1), range(7, 8), range(8), range(16, 24), range(239, 240)])
def test_the_cpuset_is_what_the_kernel_reads(cpus: range) -> None:
    text = config(cpus=cpus)["linux"]["resources"]["cpu"]["cpus"]
    first, _, last = text.partition("-")
    assert range(int(first), int(last or first) + 1) == cpus


@given(st.integers(0, 239), st.integers(0, 239))
def test_containers_have_users_of_their_own(one: int, other: int) -> None:
    users = []
    for number in (one, other):
        linux = config(number)["linux"]
        assert linux["uidMappings"] == linux["gidMappings"]
        (mapping,) = linux["uidMappings"]
        assert mapping["containerID"] == 0
        assert mapping["size"] >= 65536
        assert mapping["hostID"] > 0
        assert mapping["hostID"] + mapping["size"] < 2**32 - 1
        users.append(range(mapping["hostID"], mapping["hostID"] + mapping["size"]))
    overlap = range(max(users[0][0], users[1][0]), min(users[0][-1], users[1][-1]) + 1)
    assert bool(overlap) == (one == other)


def test_containers_have_names_and_groups_of_their_own() -> None:
    first, second = config(1), config(2)
    assert first["hostname"] != second["hostname"]
    assert first["linux"]["cgroupsPath"] != second["linux"]["cgroupsPath"]


def test_every_namespace_is_the_containers_own() -> None:
    kinds = {space["type"] for space in config()["linux"]["namespaces"]}
    assert kinds == {"user", "pid", "mount", "network", "ipc", "uts", "cgroup"}
    assert all("path" not in space for space in config()["linux"]["namespaces"])


def test_a_container_may_have_an_apparmor_profile_of_its_own() -> None:
    names = [oci.apparmor_profile(number, "own") for number in range(3)]
    assert len(set(names)) == 3
    assert config(profile=names[2])["process"]["apparmorProfile"] == names[2]
    assert {oci.apparmor_profile(number, "shared") for number in range(3)} == {oci.APPARMOR_PROFILE}


def test_the_policy_has_the_profiles_of_all_containers() -> None:
    names = [oci.apparmor_profile(number, "own") for number in range(2)]
    both = image.apparmor_policy(names)
    assert all(name.encode() in both for name in names)
    assert oci.APPARMOR_PROFILE.encode() + b"\0" not in both
    assert names[0].encode() not in image.apparmor_policy()


def test_unconfined_has_no_seccomp_no_apparmor_and_no_masked_paths() -> None:
    container = config(confined=False)
    assert not {"seccomp", "maskedPaths", "readonlyPaths"} & set(container["linux"])
    assert "apparmorProfile" not in container["process"]
    assert set(container["process"]["capabilities"]["effective"]) == DEFAULT


def test_confined_has_all_of_them() -> None:
    container = config()
    assert container["process"]["apparmorProfile"] == oci.APPARMOR_PROFILE
    assert {"/proc/kcore", "/proc/keys", "/sys/firmware"} <= set(container["linux"]["maskedPaths"])
    assert {"/proc/sys", "/proc/sysrq-trigger"} <= set(container["linux"]["readonlyPaths"])


def test_a_workload_may_do_without_each_alone() -> None:
    without = config(apparmor=False)
    assert "apparmorProfile" not in without["process"]
    assert "seccomp" in without["linux"]
    assert "maskedPaths" in without["linux"]
    without = config(seccomp=False)
    assert "apparmorProfile" in without["process"]
    assert "seccomp" not in without["linux"]
    assert "maskedPaths" in without["linux"]
    without = config(systempaths=False)
    assert "apparmorProfile" in without["process"]
    assert "seccomp" in without["linux"]
    assert not {"maskedPaths", "readonlyPaths"} & set(without["linux"])


def test_the_program_gets_its_arguments_and_environment() -> None:
    arguments = ["/bin/x", "", "two words", "--"]
    process = config(arguments=arguments)["process"]
    assert process["args"] == arguments
    assert process["env"] == ["A=1", "PATH=/bin"]


@pytest.mark.parametrize("confined", [True, False])
def test_a_config_is_json(confined: bool) -> None:
    container = config(3, "CAP_SYS_ADMIN", confined=confined)
    assert json.loads(json.dumps(container)) == container
