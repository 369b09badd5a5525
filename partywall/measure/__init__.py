# SPDX-License-Identifier: GPL-2.0-or-later
"""From a kernel and workloads to a `Result`: guests booted, recorded and analysed."""
