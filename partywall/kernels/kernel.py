# SPDX-License-Identifier: GPL-2.0-or-later
"""One kernel: its files, its identity, its configuration."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from partywall.core import elf
from partywall.core.errors import UsageProblem

BZIMAGE = Path("arch/x86/boot/bzImage")
"""Where a build leaves its image, from the folder that it was made in."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted and whose data can be named.

    ``image``: bzImage. ``modules``: its lib/modules/RELEASE folder, None if
    all is built in. ``debug_modules``: folder with modules that carry debug
    information. ``config``: text of its configuration, None if unknown.
    """

    source: str
    release: str
    image: Path
    vmlinux: Path
    modules: Path | None = None
    debug_modules: Path | None = None
    config: str | None = field(default=None, repr=False)

    @cached_property
    def build_id(self) -> str:
        """GNU build ID of vmlinux, hex."""
        return elf.build_id(self.vmlinux)

    @cached_property
    def image_sha256(self) -> str:
        """Hash of the image, hex."""
        return hashlib.sha256(self.image.read_bytes()).hexdigest()

    @cached_property
    def config_sha256(self) -> str | None:
        """Hash of the configuration, hex, if that is known."""
        return None if self.config is None else hashlib.sha256(self.config.encode()).hexdigest()


def is_set(config: str, option: str) -> bool:
    """Tell whether a configuration has an option, built in or as a module."""
    return re.search(rf"^{re.escape(option)}=[ym]$", config, re.MULTILINE) is not None


def require(kernel: Kernel, options: Iterable[str], who: str) -> None:
    """UsageProblem that names the options ``who`` needs and the kernel lacks.

    A kernel of unknown configuration passes; the guest then says what failed.
    """
    if kernel.config is None:
        return
    options = list(options)
    lacking = [option for option in options if not is_set(kernel.config, option)]
    if lacking:
        raise UsageProblem(
            f"{who} needs {', '.join(lacking)}, which kernel {kernel.release} was built without",
            "build it with that, or leave the workload out with --workload",
        )
    loose = [option for option in options if f"\n{option}=m\n" in f"\n{kernel.config}\n"]
    if loose and kernel.modules is None:
        raise UsageProblem(
            f"{who} needs {', '.join(loose)}, which kernel {kernel.release} has as a module",
            "give its lib/modules/RELEASE folder with --modules",
        )


_IKCONFIG = re.compile(rb"IKCFG_ST(\x1f\x8b.*?)IKCFG_ED", re.DOTALL)


def embedded_config(vmlinux: Path) -> str | None:
    """Configuration that a kernel built with CONFIG_IKCONFIG carries in itself."""
    found = _IKCONFIG.search(vmlinux.read_bytes())
    if found is None:
        return None
    try:
        return gzip.decompress(found[1]).decode()
    except (OSError, EOFError, ValueError, zlib.error):
        return None
