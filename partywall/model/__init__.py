# SPDX-License-Identifier: GPL-2.0-or-later
"""What walls cost: queues, machines, predictions, and what others measured."""
