# SPDX-License-Identifier: GPL-2.0-or-later
"""Which objects of a kernel a configuration has, as Makefiles say it.

``make DIRECTORY/NAME.o`` compiles a file whether the configuration has it or not, and
one that it has not need not compile.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from partywall.kernels.kernel import is_set

# obj-$(CONFIG_SMP) += percpu_counter.o: the name of a list, what it depends on, what is in it.
_LIST = re.compile(r"^\s*([\w-]+)-(?:\$\((CONFIG_\w+)\)|[ym]|objs)\s*[:+]?=(.*)$", re.MULTILINE)
# Lists that are no object's: what is in them is linked into the kernel as it is.
_KERNELS = frozenset({"obj", "lib", "core", "drivers", "libs", "net", "virt"})


def has(tree: Path, config: str, name: str) -> bool:
    """Tell whether a configuration has an object.

    ``config``: the text of ``.config``; ``name``: path in the tree, such as
    ``fs/proc/proc_sysctl.o``. What no Makefile names, and what depends on more than
    options of lists, is taken to be there.
    """
    path = PurePosixPath(name)
    entry = path.name
    for folder in path.parents:
        if not _listed(_text(tree / folder), config, entry):
            return False
        entry = f"{folder.name}/"
    return True


def _listed(text: str, config: str, entry: str) -> bool:
    """Whether a Makefile has an entry, by itself or as a part of an object that it has."""
    lists = [found for found in _LIST.findall(text) if entry in found[2].split()]
    return not lists or any(
        (not option or is_set(config, option))
        and (name in _KERNELS or f"{name}.o" == entry or _listed(text, config, f"{name}.o"))
        for name, option, _ in lists
    )


def _text(folder: Path) -> str:
    """What a folder's Makefiles say, a line for each list."""
    files = (folder / name for name in ("Kbuild", "Makefile"))
    text = "\n".join(file.read_text(errors="replace") for file in files if file.is_file())
    return text.replace("\\\n", " ")
