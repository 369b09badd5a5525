# SPDX-License-Identifier: GPL-2.0-or-later
"""Capabilities of Linux, by the names that capabilities(7) has."""

from __future__ import annotations

import difflib

from partywall.core.errors import UsageProblem

NAMES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP "
    "LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER "
    "SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE "
    "SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP "
    "MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF "
    "CHECKPOINT_RESTORE"
).split()


def capability(text: str) -> str:
    """Return the full name of a capability, written as Docker's --cap-add takes it.

    UsageProblem if there is none of that name.

    >>> capability("net_admin")
    'CAP_NET_ADMIN'
    """
    name = text.upper().removeprefix("CAP_")
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, 3)
        raise UsageProblem(
            f"no capability '{text}'",
            f"near: {', '.join(near)}" if near else "man capabilities lists them: NET_ADMIN, …",
        )
    return f"CAP_{name}"
