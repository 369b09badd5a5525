# SPDX-License-Identifier: GPL-2.0-or-later
"""Benchmarks: ratios of times, side by side in one run."""
