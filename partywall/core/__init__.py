# SPDX-License-Identifier: GPL-2.0-or-later
"""What every room may use, and what uses none: errors, progress, the cache, ELF files."""
