// SPDX-License-Identifier: GPL-2.0-or-later
//! Visits to lines that are made while locks are held.
//!
//! What has to be fetched while a lock is held keeps everybody out who wants the lock:
//! such a line is no queue of its own. Which locks are held is told among the events of
//! a CPU, since these are counted later than they come.

use crate::slots::{mix, Slot};
use std::collections::{BTreeMap, HashMap};

/// Sets of locks that are held at once, in the order in which they were taken. What is
/// shared is not in them: it keeps nobody out.
#[derive(Default)]
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
/// `line` and `lock`: of which lines and locks. The other locks are as if they were not:
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
    for slot in slots.filter(|slot| line(slot.key)) {
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
            |key| key == 0x81,
            |lock| lock < 0x30,
        );
        assert_eq!(found.sets, [[0x10, 0x20]]);
        let rows: Vec<_> = found.visits.into_iter().collect();
        assert_eq!(rows, [((0x81, 0), 5)]);
    }
}
