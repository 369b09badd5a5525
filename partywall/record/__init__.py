# SPDX-License-Identifier: GPL-2.0-or-later
"""What is watched in a guest, the plugin that records it, and the recording's format."""

import os

# As in analyse/names: drgn takes it when it is loaded, so this goes before the imports.
os.environ["OMP_NUM_THREADS"] = "1"
