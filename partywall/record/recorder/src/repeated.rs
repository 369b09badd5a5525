// SPDX-License-Identifier: GPL-2.0-or-later
//! Visits to a line in one hold of a lock: nobody who takes the lock comes in between.

use crate::format::{kind, Summary, LINE_SHIFT};
use crate::held::Sums;
use crate::slots::{mix, Slot};
use crate::table::Tables;
use std::collections::{BTreeMap, HashMap};

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

/// Of each party, by key, the visits of lines that are made under one lock, which lies in another
/// line: nobody who takes it comes in between those of one hold. Of several locks it is the one for
/// which fewest are left.
///
/// Locks are those of which one knows when they are held.
pub fn repeated(
    parties: &[(Summary, &Tables)],
    sums: &Sums,
    listed: impl Fn(u64) -> bool,
) -> Vec<BTreeMap<u64, Repeated>> {
    let sets = &sums.sets;
    let line_of = |key: u64| key >> kind::BITS;
    // By line, lock and party.
    let mut locks: HashMap<u64, BTreeMap<u64, HashMap<usize, Repeated>>> = HashMap::new();
    for (at, (_, tables)) in parties.iter().enumerate() {
        for slot in tables.again.iter().filter(|slot| listed(line_of(slot.key))) {
            let line = line_of(slot.key);
            for lock in &sets.of(slot.set)[..slot.kept as usize] {
                if lock >> LINE_SHIFT != line && sums.known(*lock) {
                    let of_line = locks.entry(line).or_default();
                    let found = of_line.entry(*lock).or_default().entry(at).or_default();
                    found.again = found.again.saturating_add(slot.visits);
                }
            }
        }
    }
    // How many visits there are, less those under each lock.
    for (at, (_, tables)) in parties.iter().enumerate() {
        for slot in tables.lines.iter().filter(|slot| slot.is_work()) {
            for found in locks.get_mut(&line_of(slot.key)).into_iter().flatten() {
                let loose = &mut found.1.entry(at).or_default().loose;
                *loose = loose.saturating_add(slot.visits());
            }
        }
        for slot in tables.visits_under.iter() {
            if let Some(of_line) = locks.get_mut(&line_of(slot.key)) {
                for lock in sets.of(slot.set) {
                    if let Some(found) = of_line.get_mut(lock).and_then(|of| of.get_mut(&at)) {
                        found.loose = found.loose.saturating_sub(slot.visits);
                    }
                }
            }
        }
    }
    // Those that nobody parts, by how often the others come without the lock.
    let gain = |found: &HashMap<usize, Repeated>| -> u64 {
        let cpu = |at: usize| parties[at].0.cpu;
        let mut loose: HashMap<u32, u64> = HashMap::new();
        for (at, one) in found {
            *loose.entry(cpu(*at)).or_default() += one.loose as u64;
        }
        let every: u64 = loose.values().sum();
        let of_party = |(at, one): (&usize, &Repeated)| {
            (one.again as u64).saturating_sub(every - loose[&cpu(*at)])
        };
        found.iter().map(of_party).sum()
    };
    let chosen: HashMap<u64, u64> = locks
        .into_iter()
        .filter_map(|(line, of_line)| {
            let gains = of_line.iter().map(|(lock, found)| (gain(found), *lock));
            gains
                .max()
                .filter(|most| most.0 > 0)
                .map(|most| (line, most.1))
        })
        .collect();
    let whose = |key: u64, held: &[u64]| matches!(chosen.get(&line_of(key)), Some(lock) if held.contains(lock));
    let of_party = |(_, tables): &(Summary, &Tables)| {
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
                let again = &mut found.entry(slot.key).or_default().again;
                *again = again.saturating_add(slot.visits);
            }
        }
        found.retain(|_, one| *one != Repeated::default());
        found
    };
    parties.iter().map(of_party).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::under::{Sets, UnderSlot};

    const LINE: u64 = 0x80;
    /// A lock that is not seen to be given back each time.
    const UNSEEN: u64 = 0x77;
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

    fn told(parties: &[Tables], sets: Sets) -> Vec<Option<Repeated>> {
        let cpu = |cpu| Summary {
            cpu,
            ..Summary::default()
        };
        let parties: Vec<_> = (0..).map(cpu).zip(parties).collect();
        let mut sums = Sums {
            sets,
            ..Sums::new(2)
        };
        for lock in [0x10, 0x20, UNSEEN, LINE << LINE_SHIFT | 8] {
            sums.of.entry(lock).or_default().exclusive = 100;
        }
        sums.lost.insert(UNSEEN, 2);
        let found = repeated(&parties, &sums, |line| line == LINE);
        found.iter().map(|p| p.get(&KEY).copied()).collect()
    }

    #[test]
    fn of_each_party_what_is_under_the_lines_lock_is_told() {
        let mut sets = Sets::default();
        let one = sets.number([0x10].into_iter());
        let both = sets.number([0x10, 0x20].into_iter());
        let parties = [
            party(10, 10, 6, one),
            party(10, 9, 5, both),
            party(3, 0, 0, one),
        ];
        let row = |again, loose| Some(Repeated { again, loose });
        assert_eq!(told(&parties, sets), [row(6, 0), row(5, 1), row(0, 3)]);
    }

    #[test]
    fn a_lock_keeps_nobody_out_of_its_own_line_or_of_one_that_most_come_to_without_it() {
        let mut sets = Sets::default();
        let own = sets.number([LINE << LINE_SHIFT | 8].into_iter());
        assert_eq!(told(&[party(10, 10, 6, own)], sets.clone()), [None]);
        let unseen = sets.number([UNSEEN].into_iter());
        assert_eq!(told(&[party(10, 10, 6, unseen)], sets.clone()), [None]);
        let other = sets.number([0x10].into_iter());
        let parties = [party(10, 10, 6, other), party(6, 0, 0, other)];
        assert_eq!(told(&parties, sets.clone()), [None, None]);
        // What the holder himself does without the lock parts nothing of his.
        let parties = [party(20, 10, 6, other), party(1, 0, 0, other)];
        let row = |again, loose| Some(Repeated { again, loose });
        assert_eq!(told(&parties, sets), [row(6, 10), row(0, 1)]);
    }

    #[test]
    fn of_two_locks_that_leaves_fewest_visits_that_nobody_parts() {
        let mut sets = Sets::default();
        let both = sets.number([0x10, 0x20].into_iter());
        let second = sets.number([0x20].into_iter());
        let parties = [(); 8].map(|_| {
            let mut one = party(30, 25, 0, both);
            let (key, set, visits) = (KEY, second, 5);
            one.visits_under.place(&UnderSlot { key, set, visits }, 0);
            for (kept, visits) in [(1, 6), (2, 15)] {
                let (key, set) = (KEY, both);
                let slot = AgainSlot {
                    key,
                    set,
                    kept,
                    visits,
                };
                let place = one.again.place(&slot, u32::MAX);
                one.again.at(place).visits = visits;
            }
            one
        });
        // The first: 21 of 30 again, but each party has five loose ones, of which the others'
        // part all of them. The second: 15, and nobody is loose.
        let (again, loose) = (15, 0);
        let found = told(&parties, sets);
        assert_eq!(found, [Some(Repeated { again, loose }); 8]);
    }
}
