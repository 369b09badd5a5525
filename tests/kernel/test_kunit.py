# SPDX-License-Identifier: GPL-2.0-or-later
"""KUnit tests that the series brings, under KASAN and lockdep, with PREEMPT_RT, and under KCSAN."""

from __future__ import annotations

from collections.abc import Callable

import ktap
import pytest
from machine import Job, Ran

Boot = Callable[[str, Job], Ran]
Alarms = Callable[[str, Ran], list[str]]

CASES = [
    "user_limit_is_exact",
    "ancestor_limit_is_exact",
    "over_limit_is_charged_and_counts",
    "large_charges_are_exact",
    "stock_is_kept_and_not_shown",
    "queues_and_memory_are_not_kept",
    "signals_outlive_users",
    "more_users_than_slots",
    "stock_of_others_is_no_use",
    "deep_namespaces_keep_no_stock",
    "an_exact_level_relaxes",
    "an_exact_level_relaxes_over_the_limit",
    "race_at_the_users_limit",
    "race_at_an_ancestors_limit",
    "race_at_two_levels",
    "race_of_users_that_come_and_go",
    "cold_items_are_walked_first",
    "a_rotated_item_is_cold_no_more",
    "an_item_can_become_cold",
    "both_kinds_are_deleted_and_counted_alike",
    "a_walk_of_one_kind_leaves_the_other_alone",
    "test_order",
    "test_setup_that_fails",
    "test_batches_beside_each_other",
    "test_made_while_a_writer_waits",
    "test_device_that_stays",
    "test_own_device_that_stays",
    "test_all_at_once",
    "test_one_kernel_socket",
    "sysctl_test_register_sysctl_duplicate",
    "all_are_given_out_once",
    "race_of_all_cpus",
    "race_for_others_numbers",
    "a_method_finds_its_file_until_it_ends",
    "a_group_is_made_whole_or_not_at_all",
    "an_object_whose_files_can_not_be_made_is_not_there",
    "direct_xmit_test_run",
]


KCSAN = pytest.param("lean+net+kcsan", marks=pytest.mark.soak)
RT = pytest.param("lean+net+debug+rt", marks=pytest.mark.soak)


@pytest.mark.parametrize("variant", ["lean+net+debug", RT, KCSAN])
def test_all_pass(boot: Boot, alarms: Alarms, variant: str) -> None:
    ran = boot(f"partywall+{variant}", Job({}, timeout=900, options="kunit.enable=1 loglevel=7"))
    assert ran.ended, ran.end
    found = ktap.results(ran.console)
    assert {case: found.get(case) for case in CASES} == dict.fromkeys(CASES, "pass"), "\n".join(
        line for line in ran.console.splitlines() if "# " in line
    )[-3000:]
    assert alarms(f"partywall+{variant}", ran) == []
