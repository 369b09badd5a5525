// SPDX-License-Identifier: GPL-2.0-or-later
//! Visits to lines that are made while locks are held.
//!
//! What has to be fetched while a lock is held keeps everybody out who wants the lock:
//! such a line is no queue of its own. Which locks are held is told among the events of
//! a CPU, since these are counted later than they come.

use crate::format::kind;
use crate::slots::{mix, Slot};
use std::collections::{BTreeMap, HashMap};

/// Sets of locks that are held at once, in the order in which they were taken. What is
/// shared is not in them: it keeps nobody out.
#[derive(Clone, Default)]
pub struct Sets {
    numbers: HashMap<Vec<u64>, u32>,
    locks: Vec<Vec<u64>>,
    /// In all of them.
    addresses: usize,
}

/// No lock.
pub const NONE: u32 = 0;

impl Sets {
    /// The number of a set, by the addresses of its locks; `NONE` if there are none.
    pub fn number(&mut self, locks: impl Iterator<Item = u64>) -> u32 {
        let held: Vec<u64> = locks.collect();
        if held.is_empty() {
            return NONE;
        }
        if let Some(known) = self.numbers.get(&held) {
            return *known;
        }
        self.addresses += held.len();
        self.locks.push(held.clone());
        let number = self.locks.len() as u32;
        self.numbers.insert(held, number);
        number
    }

    /// Host memory held, in bytes, about: each set is there twice.
    pub fn bytes(&self) -> usize {
        let each = 2 * std::mem::size_of::<Vec<u64>>() + 16;
        self.locks.len() * each + self.addresses * 2 * std::mem::size_of::<u64>()
    }

    /// The locks of a set, those taken first in front.
    pub fn of(&self, number: u32) -> &[u64] {
        match number {
            NONE => &[],
            n => &self.locks[n as usize - 1],
        }
    }
}

/// The locks that are held: the number of their set, and how many there are.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Held {
    pub set: u32,
    pub count: u8,
}

impl Held {
    /// Nothing.
    pub const NONE: Held = Held {
        set: NONE,
        count: 0,
    };

    pub fn of(set: u32, sets: &Sets) -> Held {
        Held {
            set,
            count: sets.of(set).len() as u8,
        }
    }

    /// As an event has it; `kept`: how many of them, those taken first, were held before.
    pub fn pack(self, kept: usize) -> u64 {
        (kept as u64) << 40 | (self.count as u64) << 32 | self.set as u64
    }

    /// What `pack` made of it, and how many were held before.
    pub fn unpack(packed: u64) -> (Held, usize) {
        let held = Held {
            set: packed as u32,
            count: (packed >> 32) as u8,
        };
        (held, (packed >> 40) as usize)
    }
}

/// Since when each of the locks that are held is, those taken first in front.
#[derive(Default)]
pub struct Since {
    taken: Vec<u32>,
    now: u32,
}

impl Since {
    /// Others are held from now on, but for the first `kept`.
    pub fn change(&mut self, held: Held, kept: usize) {
        self.now = self.now.saturating_add(1);
        self.taken.truncate(kept);
        self.taken.resize(held.count as usize, self.now);
    }

    #[inline(always)]
    pub fn now(&self) -> u32 {
        self.now
    }

    /// How many of them, those taken first, have been held since `then`.
    pub fn kept(&self, then: u32) -> usize {
        // At the end of numbers nobody can tell.
        if self.now == u32::MAX {
            return 0;
        }
        self.taken
            .iter()
            .take_while(|taken| **taken <= then)
            .count()
    }
}

/// Visits of one party to one line, in one kind of work, that began or went on under a set.
#[derive(Clone, Copy)]
pub struct UnderSlot {
    pub key: u64,
    pub set: u32,
    pub visits: u32,
}

impl Slot for UnderSlot {
    #[inline(always)]
    fn key(&self) -> u64 {
        self.key
    }
    #[inline(always)]
    fn same(&self, other: &Self) -> bool {
        self.key == other.key && self.set == other.set
    }
    #[inline(always)]
    fn hash(&self) -> u64 {
        mix(self.key, self.set as u64)
    }
}

/// Sets of locks as a recording has them, and visits by the key of the line and the number
/// of the set.
#[derive(Default)]
pub struct Under<'a> {
    pub sets: Vec<&'a [u64]>,
    pub visits: BTreeMap<(u64, u64), u64>,
}

/// Sum over parties.
///
/// `line` and `lock`: of which lines, by number, and locks, by address. The other locks are as if they were not:
/// whoever has but one that nobody else takes keeps nobody out. `known` has the sets
/// without them.
pub fn sum<'a>(
    slots: impl Iterator<Item = &'a UnderSlot>,
    sets: &Sets,
    known: &'a mut Sets,
    line: impl Fn(u64) -> bool,
    lock: impl Fn(u64) -> bool,
) -> Under<'a> {
    let mut visits = BTreeMap::new();
    for slot in slots.filter(|slot| line(slot.key >> kind::BITS)) {
        let held = sets.of(slot.set).iter().copied();
        let set = known.number(held.filter(|address| lock(*address)));
        if set != NONE {
            *visits.entry((slot.key, set as u64 - 1)).or_default() += slot.visits as u64;
        }
    }
    let sets = known.locks.iter().map(|held| &held[..]).collect();
    Under { sets, visits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_one_number_and_its_order() {
        let mut sets = Sets::default();
        assert_eq!(sets.number([].into_iter()), NONE);
        let both = sets.number([0x10, 0x20].into_iter());
        assert_eq!(sets.number([0x10, 0x20].into_iter()), both);
        assert_ne!(sets.number([0x20, 0x10].into_iter()), both);
        assert_eq!(sets.of(both), [0x10, 0x20]);
        assert!(sets.of(NONE).is_empty());
    }

    #[test]
    fn of_a_set_the_locks_that_are_listed_are_told() {
        let mut sets = Sets::default();
        let three = sets.number([0x10, 0x20, 0x30].into_iter());
        let two = sets.number([0x10, 0x20, 0x40].into_iter());
        let none = sets.number([0x30].into_iter());
        let slots = [
            (0x81, three, 3),
            (0x81, two, 2),
            (0x81, none, 5),
            (0x91, two, 7),
        ];
        let slots = slots.map(|(key, set, visits)| UnderSlot { key, set, visits });
        let mut known = Sets::default();
        let found = sum(
            slots.iter(),
            &sets,
            &mut known,
            |line| line == 0x81 >> kind::BITS,
            |lock| lock < 0x30,
        );
        assert_eq!(found.sets, [[0x10, 0x20]]);
        let rows: Vec<_> = found.visits.into_iter().collect();
        assert_eq!(rows, [((0x81, 0), 5)]);
    }

    #[test]
    fn what_is_held_is_packed_with_how_much_of_it_was_before() {
        let mut sets = Sets::default();
        let sets_of = [&[][..], &[1], &[1, 2], &[2]];
        let numbers = sets_of.map(|locks| sets.number(locks.iter().copied()));
        let held = numbers.map(|set| Held::of(set, &sets));
        for (now, kept) in [(1, 0), (2, 1), (0, 0), (3, 7)] {
            assert_eq!(Held::unpack(held[now].pack(kept)), (held[now], kept));
        }
        assert_eq!(held.map(|h| h.count), [0, 1, 2, 1]);
    }
}
