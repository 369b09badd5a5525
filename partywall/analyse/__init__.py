# SPDX-License-Identifier: GPL-2.0-or-later
"""From a recording and its guest to a workload's result: transfers, verdict, names."""
