# SPDX-License-Identifier: GPL-2.0-or-later
"""Docker's default seccomp filter, as the runtime specification has filters.

seccomp.toml has what Docker's publishers say of x86-64, as scripts/seccomp.py wrote it.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

_PUBLISHED = Path(__file__).with_name("seccomp.toml")
_BLOCKED = {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1}
_ARCHITECTURES = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]


@lru_cache
def _published() -> tuple[dict[str, Any], ...]:
    return tuple(tomllib.loads(_PUBLISHED.read_text())["rules"])


def docker(capabilities: set[str]) -> dict[str, Any]:
    """Return the filter of a container that holds these capabilities.

    What no rule is about fails with EPERM. A call may have several rules: one that fits
    its arguments lets it through.
    """
    rules = []
    for rule in _published():
        if not capabilities.issuperset(rule.get("with", ())):
            continue
        if not capabilities.isdisjoint(rule.get("without", ())):
            continue
        made: dict[str, Any] = {"names": rule["names"], "action": "SCMP_ACT_ALLOW"}
        if "errno" in rule:
            made |= {"action": "SCMP_ACT_ERRNO", "errnoRet": rule["errno"]}
        if "arguments" in rule:
            made["args"] = [
                {"index": index, "op": f"SCMP_CMP_{op}", "value": value, "valueTwo": more}
                for index, op, value, more in rule["arguments"]
            ]
        rules.append(made)
    return {**_BLOCKED, "architectures": _ARCHITECTURES, "syscalls": rules}
