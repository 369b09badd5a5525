# SPDX-License-Identifier: GPL-2.0-or-later
"""What is watched in a guest, the plugin that records it, and the recording's format."""
