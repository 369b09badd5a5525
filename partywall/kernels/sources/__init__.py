# SPDX-License-Identifier: GPL-2.0-or-later
"""Ways to get a kernel, each a module as `partywall.kernels.resolve.Source` says."""
