# SPDX-License-Identifier: GPL-2.0-or-later
"""Bugs that a race of two processors shows: on stock's kernel or Debian's each time, on ours never.

The first processor is held at an instruction of the kernel until the second one is done
(plugin/hold.c). What is freed is overwritten, so that who uses it still is found out.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hold import Hold
from machine import Job, Ran

from partywall.kernels import Kernel, module_closure

Boot = Callable[[str, Job], Ran]
Kernels = Callable[[str], Kernel]

NETLINK_XFRM = 6

# What is freed is overwritten.
POISON = "slub_debug=P"


def crashed(ran: Ran, what: str, where: str) -> bool:
    """Whether the kernel ended by `what`, in a function."""
    assert "place came" in ran.held, (ran.held, ran.end)
    assert not ran.ended
    return what in ran.console and f"RIP: 0010:{where}+" in ran.console


def fine(ran: Ran) -> str:
    """What the program printed; the kernel has to be content."""
    assert ran.held.split("\n") == ["place came", "let came", ""], (ran.held, ran.end)
    assert ran.ended, ran.end
    assert ran.status("1-run") == 0, ran.output("1-run")
    assert ran.alarms() == []
    return ran.output("1-run")


def charges(boot: Boot, kernel: str, hold: Hold) -> Ran:
    job = Job({"1-run": "windows charges"}, ["windows"], options=POISON, hold=hold)
    return boot(kernel, job)


def test_a_level_is_not_looked_up_once_the_charge_is_taken_back(boot: Boot) -> None:
    # fixes/0002.  Ours takes charges back elsewhere, from the upper levels first.
    stock = charges(boot, "stock", Hold("do_dec_rlimit_put_ucounts", "lock xadd", behind=True))
    assert crashed(stock, "general protection fault", "do_dec_rlimit_put_ucounts")
    ours = charges(boot, "partywall", Hold("dec_rlimit_ucounts", "call _raw_spin_lock_irqsave"))
    assert "both received" in fine(ours)


def numbers(boot: Boot, kernel: str, hold: Hold) -> Ran:
    job = Job({"1-run": "windows numbers"}, ["windows"], options=POISON, hold=hold)
    return boot(kernel, job)


def test_a_node_is_not_found_by_its_number_before_it_has_a_type(boot: Boot) -> None:
    # fixes/0003.  The number is given, and the count set: on stock without the active reference,
    # on ours that is the last thing.
    active = r"mov dword ptr \[r\w+ \+ 4\], 0x80000001"
    stock = numbers(boot, "stock", Hold("__kernfs_new_node", active))
    assert crashed(stock, "kernel BUG at fs/kernfs/inode.c", "kernfs_get_inode")
    counted = r"mov dword ptr \[r\w+ \+ 0x40\], 1$"
    ahead, more = fine(
        numbers(boot, "partywall", Hold("__kernfs_new_node", counted, behind=True))
    ).split()[1::2]
    assert 0 < int(ahead) <= 512
    assert int(more) == 0


# Behind the insertion of the second namespace's: that of the first one is made before.
INSERTED = Hold("__netlink_kernel_create", "call netlink_insert", behind=True, passes=1)


def sockets(boot: Boot, name: str, kernel: Kernel) -> Ran:
    """One of Debian's, which has the makers of such sockets as modules."""
    *needed, module = module_closure(kernel, ["xfrm_user"], [])
    job = Job(
        {"1-run": f"windows sockets /xfrm_user.ko {NETLINK_XFRM}"},
        ["windows"],
        files={"xfrm_user.ko": module.data},
        modules=[one.name for one in needed],
        hold=INSERTED,
    )
    return boot(name, job)


def marks_first(kernel: Kernel) -> bool:
    """Whether a kernel socket is marked as such before it is inserted, as the code stands.

    The mark is the first bit of the socket's flags, and the first one that is set.
    """
    mark = Hold(INSERTED.function, r"lock or byte ptr \[\w+ \+ 0x\w+\], 1$")
    return mark.address(kernel) < INSERTED.address(kernel)


def test_a_kernel_socket_is_not_found_before_it_is_marked(boot: Boot, kernel: Kernels) -> None:
    # fixes/0005.
    debians = sockets(boot, "debian", kernel("debian"))
    assert crashed(debians, "kernel BUG at net/netlink/af_netlink.c", "netlink_data_ready")
    # No module of ours makes such a socket. So here it is the order that is looked at.
    assert not marks_first(kernel("stock"))
    assert marks_first(kernel("partywall"))


@pytest.mark.parametrize(("name", "told"), [("stock", "not told"), ("partywall", "told")])
def test_who_watches_a_directory_too_is_told(boot: Boot, name: str, told: str) -> None:
    # fsnotify/0001.  Stock's second one leaves the files to the first one, who is not there yet.
    hold = Hold("fsnotify_set_children_dentry_flags", "call __fentry__")
    ran = boot(name, Job({"1-run": "windows watches"}, ["windows"], hold=hold))
    assert fine(ran) == f"watches: {told}\n"
