# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers by the clock, here and in guests; and what recording costs."""
