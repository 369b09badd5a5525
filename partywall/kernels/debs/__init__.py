# SPDX-License-Identifier: GPL-2.0-or-later
"""The series as packages of Debian's: a kernel in Debian's own configuration."""
