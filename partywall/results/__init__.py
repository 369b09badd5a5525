# SPDX-License-Identifier: GPL-2.0-or-later
"""The `Result`: what a measurement found, kept, compared, and sent as JSON."""
