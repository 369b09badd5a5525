# SPDX-License-Identifier: GPL-2.0-or-later
"""Where a kernel comes from, and what a guest needs of it.

Each module of `partywall.kernels.sources` is one way to get a kernel; a new
way is a new module there.
"""

from partywall.kernels.kernel import Kernel, is_set, require
from partywall.kernels.modules import Module, module_closure
from partywall.kernels.resolve import Request, resolve

__all__ = ["Kernel", "Module", "Request", "is_set", "module_closure", "require", "resolve"]
