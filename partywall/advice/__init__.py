# SPDX-License-Identifier: GPL-2.0-or-later
"""What mends a wall, where that is known."""
