# SPDX-License-Identifier: GPL-2.0-or-later
"""Views of a `partywall.results.result.Result`: each takes one and measures nothing.

`terminal` is for people at a shell, `ktap` for kernel CI.
"""
