# SPDX-License-Identifier: GPL-2.0-or-later
"""For how long locks are held and what waits, sleep included, in the guest's time.

Nanoseconds of the guest: two for an instruction that the task runs, and what the guest's
clock says of the time that it sleeps. Rates are per operation of the workload.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from partywall.results.document import Model

SleepKind = Literal[
    "rcu",
    "work",
    "stop",
    "lock",
    "completion",
    "memory",
    "device",
    "timer",
    "event",
    "preempted",
]
"""What a task sleeps for: a grace period of RCU, a work item or kernel thread, all CPUs to stop,
another lock, a completion, free memory, a device, time, something else, or its turn."""


def lock_name(what: str, path: str) -> str:
    """Return object and field of a lock, or the object alone if it is the lock."""
    return what if path in what else f"{what} {path}"


class Spell(Model):
    """What a task sleeps for."""

    kind: SleepKind
    function: str = Field(description="In which it sleeps; of several the outermost one.")
    at: str = Field(description="The lock that it waits for, or who called that function.")
    times: float
    ns: float

    @property
    def words(self) -> str:
        """For people: the lock by name, or the function."""
        return self.at if self.kind == "lock" and self.at else self.function


class Holder(Model):
    """A function that takes a lock, and for how long it has it."""

    by: str
    shared: bool = Field(description="With others that share it; who wants it alone waits.")
    charged: bool = Field(
        default=False,
        description="In charged work of a kernel thread, for many operations.",
    )
    times: float = Field(description="Times held.")
    slept: float = Field(description="Of these, those in which the holder slept.")
    ns: float = Field(description="Held in all.")
    asleep_ns: float = Field(description="Of that, while the holder slept.")
    own_asleep_ns: float = Field(
        default=0.0,
        description="Of that, for no lock, and while none was held that was taken later.",
    )
    asleep_at_most_ns: float | None = Field(
        default=None,
        description="Asleep by the guest's clock, whatever other CPUs ran meanwhile; None if the "
        "result is older.",
    )
    longest_ns: float = Field(description="Held at most, once.")
    longest_slept_ns: float | None = Field(
        default=None, description="And at most with sleep in it; None if the result is older."
    )
    longest_at_most_ns: float | None = Field(
        default=None, description="The same by the guest's clock; None if the result is older."
    )
    sleeps: list[Spell] = Field(description="What the holder slept for, longest first.")
    tried: float = Field(description="Times that it slept until it had the lock.")
    tried_ns: float = Field(description="For so long in all.")
    longest_tried_ns: float = Field(description="And at most, once.")

    @property
    def longest_asleep_ns(self) -> float:
        """Held at most, once, with sleep in it."""
        if self.longest_slept_ns is None:
            return self.longest_ns if self.slept else 0.0
        return self.longest_slept_ns

    @property
    def longest_by_clock_ns(self) -> float:
        """The same by the guest's clock, and no less."""
        return max(self.longest_asleep_ns, self.longest_at_most_ns or 0.0)


class Span(Model):
    """One time that a lock was had with sleep in it, or slept for, by the guest's clock.

    One that was slept for is told from the first such sleep to the end of the last one.
    """

    by: str = Field(description="The function that took the lock.")
    cpu: int | None = Field(description="Who did; None: a kernel thread in charged work.")
    wanted: bool = Field(description="It was slept for, and not had.")
    shared: bool = Field(description="With others that share it.")
    from_ns: float = Field(
        description="From when; 0 is when the first of those recorded of these locks began. Before "
        "its first sleep and after its last, what the task itself runs counts alone: where other "
        "CPUs run meanwhile, it began earlier and ended later."
    )
    to_ns: float
    sleep: str = Field(description="What was slept for longest with it; empty if it was wanted.")

    @property
    def ns(self) -> float:
        """For how long."""
        return self.to_ns - self.from_ns


class HeldLock(Model):
    """A lock that containers share, held asleep or waited for asleep, or in a wall."""

    address: Annotated[str, Field(pattern=r"^0x[0-9a-f]{1,16}$")]
    object: str
    field: str
    holders: list[Holder] = Field(description="By the function that takes it, longest first.")
    spans: list[Span] = Field(
        default_factory=list,
        description="The 32 longest times that it was had and the 32 longest that it was slept "
        "for, in their order, of eight locks; none of others, and if the result is older.",
    )

    @property
    def name(self) -> str:
        """Object and field, unless the object is the lock."""
        return lock_name(self.object, self.field)

    @property
    def alone(self) -> list[Holder]:
        """Those that keep all others out."""
        return [one for one in self.holders if not one.shared]

    @property
    def sharers(self) -> list[Holder]:
        """Those that keep out who wants it alone."""
        return [one for one in self.holders if one.shared]

    @property
    def times(self) -> float:
        """Times held exclusively."""
        return sum(one.times for one in self.alone)

    @property
    def ns(self) -> float:
        """Held exclusively, in all."""
        return sum(one.ns for one in self.alone)

    @property
    def asleep_ns(self) -> float:
        """Held exclusively by a holder that sleeps."""
        return sum(one.asleep_ns for one in self.alone)

    @property
    def alone_asleep(self) -> bool:
        """Whether one who keeps all others out sleeps long enough to be told of."""
        once = max((one.longest_asleep_ns for one in self.alone), default=0.0)
        return self.asleep_ns >= ASLEEP_NS or once >= LONG_NS

    @property
    def own_asleep_ns(self) -> float:
        """Held exclusively by who sleeps for this operation alone."""
        return sum(one.asleep_ns for one in self.alone if not one.charged)

    @property
    def last_asleep_ns(self) -> float:
        """Of that, for no lock, and while none was held that was taken later."""
        return sum(one.own_asleep_ns for one in self.alone if not one.charged)

    @property
    def longest_ns(self) -> float:
        """Held exclusively at most, once: with sleep in it, if there is any."""
        slept = max((one.longest_asleep_ns for one in self.alone), default=0.0)
        return slept or max((one.longest_ns for one in self.alone), default=0.0)

    @property
    def once_ns(self) -> float:
        """For how long others are kept out at most, once.

        By who sleeps with it, alone or not: those that share it keep out who wants it alone,
        and all behind him. Or as long as anybody slept for it, whoever had it.
        """
        held = [one.longest_asleep_ns for one in self.holders]
        tried = [one.longest_tried_ns for one in self.holders]
        return max(held + tried, default=0.0)

    @property
    def shared(self) -> bool:
        """Whether who keeps others out for so long shares it: he keeps out who wants it alone."""
        alone = [one.longest_asleep_ns for one in self.alone]
        tried = [one.longest_tried_ns for one in self.holders]
        return self.once_ns > max(alone + tried, default=0.0)

    @property
    def kept_ns(self) -> float:
        """Held by a holder that sleeps: by those that have it alone, or more, that share it."""
        return max(self.asleep_ns, sum(one.asleep_ns for one in self.sharers))

    @property
    def waited_ns(self) -> float:
        """Slept for, by whoever wanted it."""
        return sum(one.tried_ns for one in self.holders)

    @property
    def told(self) -> list[Holder]:
        """Those to tell of: who keeps all others out, and who shares it if he sleeps for longer.

        Longer in all, or once, if who has it alone does not sleep long enough to be told of.
        """
        longer = self.kept_ns > self.asleep_ns
        if longer or (self.shared and not self.alone_asleep):
            return self.sharers + (self.alone if self.alone_asleep else [])
        return self.alone

    @property
    def told_ns(self) -> float:
        """Held by those to tell of."""
        return sum(one.ns for one in self.told)

    @property
    def told_asleep_ns(self) -> float:
        """Of that, asleep."""
        return sum(one.asleep_ns for one in self.told)

    @property
    def sleeps(self) -> list[Spell]:
        """What exclusive holders sleep for, all places in the code together, longest first."""
        sums: dict[tuple[SleepKind, str], Spell] = {}
        for spell in (spell for one in self.alone for spell in one.sleeps):
            key = spell.kind, spell.words
            known = sums.get(key)
            sums[key] = (
                spell
                if known is None
                else known.model_copy(
                    update={"times": known.times + spell.times, "ns": known.ns + spell.ns}
                )
            )
        return sorted(sums.values(), key=lambda one: (-one.ns, one.words))


class Wait(Model):
    """A function that waits, called by the workload, and not from another one that does."""

    kind: SleepKind
    function: str
    by: str = Field(description="Who called it.")
    charged: bool = Field(
        default=False,
        description="In charged work of a kernel thread, for many operations.",
    )
    times: float
    slept: float = Field(description="Of these, those in which it slept.")
    ns: float = Field(description="It took in all.")
    asleep_ns: float = Field(default=0.0, description="Of that, while it slept.")
    unlocked_ns: float = Field(
        default=0.0, description="Of these, while no lock was held that keeps others out."
    )
    longest_ns: float
    longest_at_most_ns: float | None = Field(
        default=None,
        description="By the guest's clock, whatever other CPUs ran; None if the result is older.",
    )
    under: list[str] = Field(description="Locks that were held meanwhile, longest first.")


ASLEEP_NS: Final = 1_000.0
"""Nanoseconds an operation: what is asleep for less is not told of, unless all is asked for."""

LONG_NS: Final = 1e6
"""Nanoseconds: what is held for so long once is told of however seldom it is."""


class Held(Model):
    """Locks and waits of one workload, by the guest's clock."""

    locks: list[HeldLock] = Field(description="Held asleep longest first.")
    waits: list[Wait] = Field(description="Longest first.")

    @property
    def asleep(self) -> list[HeldLock]:
        """Locks whose exclusive holders sleep."""
        return [lock for lock in self.locks if lock.asleep_ns > 0]

    def slept_with(self) -> list[HeldLock]:
        """Return the locks that somebody sleeps with, or for, alone or with others."""
        return [one for one in self.locks if one.kept_ns > 0 or one.once_ns > 0]

    def told(self) -> list[HeldLock]:
        """Return the locks to tell of: they keep others out for long enough, in all or once."""
        return [one for one in self.locks if one.kept_ns >= ASLEEP_NS or one.once_ns >= LONG_NS]

    def first(self) -> list[HeldLock]:
        """Return all locks in the order of pictures: those to tell of, then the longest once."""
        told = self.told()
        known = {one.address for one in told}
        others = [one for one in self.locks if one.address not in known]
        return [*told, *sorted(others, key=lambda one: (-one.once_ns, one.address))]

    @property
    def longest(self) -> HeldLock | None:
        """The one of these that keeps others out longest, once."""
        return max(self.told(), key=lambda one: one.once_ns, default=None)
