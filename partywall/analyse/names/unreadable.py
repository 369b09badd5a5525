# SPDX-License-Identifier: GPL-2.0-or-later
"""What drgn raises when memory or debug information does not give an answer."""

import drgn

UNREADABLE = (
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    drgn.BadDataError,
    drgn.FaultError,
    drgn.ObjectAbsentError,
    drgn.OutOfBoundsError,
)
