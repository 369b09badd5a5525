// SPDX-License-Identifier: GPL-2.0-or-later
//! Visits to lines that are made while locks are held.
//!
//! What has to be fetched while a lock is held keeps everybody out who wants the lock:
//! such a line is no queue of its own. Which locks are held is told among the events of
//! a CPU, since these are counted later than they come.

use crate::format::{kind, LINE_SHIFT};
use crate::slots::{mix, Slot};
use crate::table::Tables;
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

    /// As an event has it, with how many of them, those taken first, were held before.
    pub fn pack(self, before: Held, sets: &Sets) -> u64 {
        let both = sets.of(self.set).iter().zip(sets.of(before.set));
        let kept = both.take_while(|(now, then)| now == then).count();
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
        self.taken
            .iter()
            .take_while(|taken| **taken <= then)
            .count()
    }
}

/// Visits of one party to one line, in one kind of work, that began while the first `kept`
/// locks of a set were held as they had been at the party's visit before.
#[derive(Clone, Copy)]
pub struct AgainSlot {
    pub key: u64,
    pub set: u32,
    pub kept: u32,
    pub visits: u32,
}

impl Slot for AgainSlot {
    #[inline(always)]
    fn key(&self) -> u64 {
        self.key
    }
    #[inline(always)]
    fn same(&self, other: &Self) -> bool {
        (self.key, self.set, self.kept) == (other.key, other.set, other.kept)
    }
    #[inline(always)]
    fn hash(&self) -> u64 {
        mix(self.key, (self.set as u64) << 32 | self.kept as u64)
    }
}

/// Visits of one party to one line, in one kind of work: `again` under the line's lock in one hold
/// with the visit before, and `loose`: not under it.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Repeated {
    pub again: u32,
    pub loose: u32,
}

/// Of each party, by key, the visits of lines that most are made to under one lock, which lies in
/// another line: nobody who takes it comes in between those of one hold.
pub fn repeated(
    parties: &[&Tables],
    sets: &Sets,
    listed: impl Fn(u64) -> bool,
) -> Vec<BTreeMap<u64, Repeated>> {
    let line_of = |key: u64| key >> kind::BITS;
    let mut locks: HashMap<u64, BTreeMap<u64, Repeated>> = HashMap::new();
    let again = parties.iter().flat_map(|tables| tables.again.iter());
    for slot in again.filter(|slot| listed(line_of(slot.key))) {
        let line = line_of(slot.key);
        for lock in &sets.of(slot.set)[..slot.kept as usize] {
            if lock >> LINE_SHIFT != line {
                let found = locks.entry(line).or_default().entry(*lock).or_default();
                found.again = found.again.saturating_add(slot.visits);
            }
        }
    }
    // How many visits there are, less those under each lock.
    for tables in parties {
        for slot in tables.lines.iter().filter(|slot| slot.is_work()) {
            for found in locks.get_mut(&line_of(slot.key)).into_iter().flatten() {
                found.1.loose = found.1.loose.saturating_add(slot.visits());
            }
        }
    }
    for slot in parties.iter().flat_map(|tables| tables.visits_under.iter()) {
        if let Some(of_line) = locks.get_mut(&line_of(slot.key)) {
            for lock in sets.of(slot.set) {
                if let Some(found) = of_line.get_mut(lock) {
                    found.loose = found.loose.saturating_sub(slot.visits);
                }
            }
        }
    }
    let chosen: HashMap<u64, u64> = locks
        .into_iter()
        .filter_map(|(line, of_line)| {
            let gain = |found: &Repeated| found.again as i64 - found.loose as i64;
            let (lock, found) = of_line.into_iter().max_by_key(|(_, found)| gain(found))?;
            Some((line, lock)).filter(|_| gain(&found) > 0)
        })
        .collect();
    let whose = |key: u64, held: &[u64]| matches!(chosen.get(&line_of(key)), Some(lock) if held.contains(lock));
    let of_party = |tables: &&Tables| {
        let mut found: BTreeMap<u64, Repeated> = BTreeMap::new();
        for slot in tables.lines.iter().filter(|slot| slot.is_work()) {
            if chosen.contains_key(&line_of(slot.key)) {
                found.entry(slot.key).or_default().loose = slot.visits();
            }
        }
        for slot in tables.visits_under.iter() {
            if whose(slot.key, sets.of(slot.set)) {
                let one = found.entry(slot.key).or_default();
                one.loose = one.loose.saturating_sub(slot.visits);
            }
        }
        for slot in tables.again.iter() {
            if whose(slot.key, &sets.of(slot.set)[..slot.kept as usize]) {
                found.entry(slot.key).or_default().again += slot.visits;
            }
        }
        found.retain(|_, one| *one != Repeated::default());
        found
    };
    parties.iter().map(of_party).collect()
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

    const LINE: u64 = 0x80;
    const KEY: u64 = LINE << kind::BITS | kind::FOREGROUND;

    /// Tables of a party that made so many visits to a line, so many of them under a set and
    /// so many of these again.
    fn party(visits: u32, under: u32, again: u32, set: u32) -> Tables {
        let mut tables = Tables::new(1, 1);
        let mut owners = crate::turns::Owners::default();
        for n in 0..2 * visits as u64 {
            let address = (LINE + n % 2 * (n + 1)) << LINE_SHIFT;
            let what = crate::event::What::new(0, 8, crate::event::STORE);
            let event = crate::event::Event { address, what };
            tables.count(&[event], 0, kind::FOREGROUND, &mut owners);
        }
        let slot = UnderSlot {
            key: KEY,
            set,
            visits: under,
        };
        tables.visits_under.place(&slot, 0);
        let (key, visits) = (KEY, again);
        let slot = AgainSlot {
            key,
            set,
            kept: 1,
            visits,
        };
        tables.again.place(&slot, 0);
        tables
    }

    fn told(parties: &[Tables], sets: &Sets) -> Vec<Option<Repeated>> {
        let parties: Vec<&Tables> = parties.iter().collect();
        let found = repeated(&parties, sets, |line| line == LINE);
        found.iter().map(|p| p.get(&KEY).copied()).collect()
    }

    #[test]
    fn a_line_is_under_the_lock_that_most_visits_are_under() {
        let mut sets = Sets::default();
        let one = sets.number([0x10].into_iter());
        let both = sets.number([0x10, 0x20].into_iter());
        let parties = [
            party(10, 10, 6, one),
            party(10, 9, 5, both),
            party(3, 0, 0, one),
        ];
        let row = |again, loose| Some(Repeated { again, loose });
        assert_eq!(told(&parties, &sets), [row(6, 0), row(5, 1), row(0, 3)]);
    }

    #[test]
    fn a_lock_keeps_nobody_out_of_its_own_line_or_of_one_that_most_come_to_without_it() {
        let mut sets = Sets::default();
        let own = sets.number([LINE << LINE_SHIFT | 8].into_iter());
        assert_eq!(told(&[party(10, 10, 6, own)], &sets), [None]);
        let other = sets.number([0x10].into_iter());
        let parties = [party(10, 10, 6, other), party(6, 0, 0, other)];
        assert_eq!(told(&parties, &sets), [None, None]);
    }

    #[test]
    fn what_is_held_is_packed_with_how_much_of_it_was_before() {
        let mut sets = Sets::default();
        let sets_of = [&[][..], &[1], &[1, 2], &[2]];
        let numbers = sets_of.map(|locks| sets.number(locks.iter().copied()));
        let held = numbers.map(|set| Held::of(set, &sets));
        let kept = |now: usize, before: usize| {
            let (found, kept) = Held::unpack(held[now].pack(held[before], &sets));
            assert_eq!(found, held[now]);
            kept
        };
        assert_eq!(
            [kept(1, 0), kept(2, 1), kept(1, 2), kept(3, 2)],
            [0, 1, 1, 0]
        );
        assert_eq!(held.map(|h| h.count), [0, 1, 2, 1]);
    }
}
