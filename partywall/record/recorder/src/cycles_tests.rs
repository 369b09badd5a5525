// SPDX-License-Identifier: GPL-2.0-or-later
//! What is counted once for many rounds is what is counted of each.

use super::*;
use crate::event::{What, ATOMIC, BLOCK, LOCKS, OWN_STACK, STEP, STORE};
use crate::format::kind;
use crate::turns::STRETCH;

/// Numbers that look like chance and are the same in each run.
pub(super) struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// What one party may do, as calls of `Cycles`.
#[derive(Clone)]
enum Step {
    Begin,
    Hold(Held),
    Count(Vec<Event>, u16, u64),
}

fn event(chance: &mut Chance, lines: u64) -> Event {
    let any = |flags| What::new(1, 8, flags);
    let address = 0xffff_0000 + chance.below(lines) * 64 + chance.below(16) * 4;
    let store = chance.one_in(3);
    let number = chance.below(3) as u32;
    let what = any(if store { STORE } else { 0 }).of(number);
    match chance.below(12) {
        0 => Event {
            address: 1 + chance.below(STRETCH / 3),
            what: any(BLOCK),
        },
        1 => Event {
            address: 0,
            what: any(STEP),
        },
        2 => Event {
            address,
            what: what.with(OWN_STACK),
        },
        3 => {
            let count = chance.below(3) as u8;
            let held = Held {
                set: count as u32 + 3 * (count > 0 && chance.one_in(2)) as u32,
                count,
            };
            let taken = if chance.one_in(2) { ATOMIC } else { 0 };
            Event {
                address: held.pack(chance.below(count as u64 + 1) as usize),
                what: any(LOCKS | taken),
            }
        }
        _ => Event { address, what },
    }
}

fn stretch(chance: &mut Chance, lines: u64) -> Vec<Step> {
    let mut steps = vec![Step::Begin];
    for _ in 0..1 + chance.below(4) {
        if chance.one_in(4) {
            steps.push(Step::Hold(Held { set: 9, count: 1 }));
        }
        let most = [4, 60][chance.below(2) as usize];
        let many = 1 + chance.below(most);
        let events = (0..many).map(|_| event(chance, lines)).collect();
        let kinds = [kind::FOREGROUND, kind::FOREGROUND, kind::DEFERRED];
        let context = 0x100 + chance.below(2) as u16;
        steps.push(Step::Count(
            events,
            context,
            kinds[chance.below(3) as usize],
        ));
    }
    steps
}

/// Two parties that have tables of their own, followed or not.
struct Parties {
    tables: Vec<Tables>,
    counting: Counting,
    followed: bool,
}

impl Parties {
    fn new(followed: bool, distance: u64) -> Parties {
        let mut counting = Counting::default();
        let tables = (0..2).map(|n| Tables::new(distance, counting.owners.number(Some(n))));
        Parties {
            tables: tables.collect(),
            counting,
            followed,
        }
    }

    fn leave(&mut self, party: usize) {
        let Counting { owners, cycles } = &mut self.counting;
        if self.followed {
            cycles.settle(&mut self.tables[party], owners);
        }
    }

    fn does(&mut self, party: usize, step: &Step) {
        let Counting { owners, cycles } = &mut self.counting;
        let tables = &mut self.tables[party];
        if self.followed {
            if cycles.party() != tables.number() {
                cycles.follow(tables.number());
            }
            match step {
                Step::Begin => cycles.begin(tables, owners),
                Step::Hold(held) => cycles.hold(*held, tables, owners),
                Step::Count(events, context, kind) => {
                    cycles.count(events, *context, *kind, tables, owners)
                }
            }
        } else {
            match step {
                Step::Begin => tables.begin(),
                Step::Hold(held) => tables.hold(*held),
                Step::Count(events, context, kind) => tables.count(events, *context, *kind, owners),
            }
        }
    }
}

/// All that a recording has of a party.
pub(super) fn said(t: &mut Tables) -> Vec<String> {
    t.close();
    let mut rows = vec![format!(
        "{} {} {} {} {}",
        t.foreground_accesses,
        t.background_accesses,
        t.slices.count,
        t.slices.after_others,
        t.slices.after_containers
    )];
    rows.extend(t.lines.iter().map(|s| {
        let turns = &s.turns;
        let turned = (turns.turns, turns.returns, turns.crossings, turns.slices);
        let visits = (s.read_visits, s.write_visits);
        format!("{:x} {:?} {:?}", s.key, visits, turned)
    }));
    let accesses = t.accesses.iter();
    rows.extend(accesses.map(|s| format!("{:x} {:?} {} {}", s.address, s.what, s.reads, s.writes)));
    let patterns = t.patterns.slots.iter();
    rows.extend(patterns.map(|s| format!("{:x} {:?} {}", s.key, s.words, s.visits)));
    let under = t.visits_under.iter();
    rows.extend(under.map(|s| format!("{:x} under {} {}", s.key, s.set, s.visits)));
    let again = t.again.iter();
    rows.extend(again.map(|s| format!("{:x} again {} {} {}", s.key, s.set, s.kept, s.visits)));
    rows
}

/// Does the same with each: loops, some of which change on the way, and one party after the other.
/// Returns how many rounds were counted at once.
fn by_chance(seed: u64, distance: u64) -> u32 {
    let mut chance = Chance(seed * 0x9e37_79b9 + 1);
    let mut both = [false, true].map(|followed| Parties::new(followed, distance));
    for _ in 0..12 {
        let party = chance.below(2) as usize;
        let lines = [1, 2, 8, 40, 300][chance.below(5) as usize];
        let many = 1 + chance.below(4);
        let round: Vec<Vec<Step>> = (0..many).map(|_| stretch(&mut chance, lines)).collect();
        let times = [2, 3, 5, 17, 60][chance.below(5) as usize];
        // In the same order each time, or in none.
        let ordered = chance.one_in(2);
        let order = (0..times * round.len()).map(|n| match ordered {
            true => n % round.len(),
            false => chance.below(round.len() as u64) as usize,
        });
        let order: Vec<usize> = order.collect();
        let mut steps: Vec<Step> = order.iter().flat_map(|n| round[*n].clone()).collect();
        // It ends somewhere, and perhaps something else is done on the way.
        steps.truncate(steps.len() - chance.below(round[0].len() as u64) as usize);
        if chance.one_in(2) {
            let at = chance.below(steps.len() as u64) as usize;
            let other = stretch(&mut chance, lines);
            steps.splice(at..at, other);
        }
        for parties in &mut both {
            for step in &steps {
                parties.does(party, step);
            }
            parties.leave(party);
            parties.counting.owners.take_over();
        }
    }
    let [mut one, mut other] = both;
    for (one, other) in one.tables.iter_mut().zip(&mut other.tables) {
        assert_eq!(said(one), said(other), "seed {}", seed);
    }
    other.counting.cycles.at_once
}

#[test]
fn rounds_that_are_only_compared_are_counted_as_those_that_are_not() {
    let at_once: u32 = (1..150).map(|n| by_chance(n, 8) + by_chance(n, 1)).sum();
    assert!(at_once > 5_000, "{} rounds", at_once);
}

/// Does a round again and again, followed and not. Returns how many were counted at once.
fn again_and_again(round: &[Step], times: usize) -> u32 {
    let mut both = [false, true].map(|followed| Parties::new(followed, 8));
    for parties in &mut both {
        for step in (0..times).flat_map(|_| round) {
            parties.does(0, step);
        }
        parties.leave(0);
    }
    let [mut one, mut other] = both;
    assert_eq!(said(&mut one.tables[0]), said(&mut other.tables[0]));
    other.counting.cycles.at_once
}

fn read(line: u64) -> Event {
    Event {
        address: 0xffff_0000 + line * 64,
        what: What::new(1, 8, 0),
    }
}

/// A lock is had from here on, in place of what was, or nothing is; `taken`: the next access takes it.
fn held(lock: u32, taken: bool) -> Event {
    let (set, count) = (lock, (lock > 0) as u8);
    let what = What::new(0, 0, if taken { LOCKS | ATOMIC } else { LOCKS });
    Event {
        address: Held { set, count }.pack(0),
        what,
    }
}

fn one_stretch(events: Vec<Event>) -> [Step; 2] {
    [Step::Begin, Step::Count(events, 0x100, kind::FOREGROUND)]
}

#[test]
fn all_rounds_of_a_loop_but_four_are_counted_at_once() {
    let round = one_stretch((0..20).map(read).collect());
    // Two are counted as they come and one to see what it adds; the last has not ended.
    assert_eq!(again_and_again(&round, 100), 96);
    assert_eq!(again_and_again(&round, 4), 0);
    // Of few lines the others are not far behind after it.
    let near = one_stretch((0..4).map(read).collect());
    assert_eq!(again_and_again(&near, 100), 0);
}

#[test]
fn a_round_is_counted_at_once_only_if_visits_under_locks_change_the_same_each_time() {
    // One visit to a line, counted under the first lock, is moved from lock to lock, where there
    // is one to be moved: one lock further in each round.
    let mut events = vec![held(1, false), read(0)];
    for (before, now) in [(4, 5), (3, 4), (2, 3), (1, 2)] {
        events.extend([held(before, false), held(now, true), read(0)]);
    }
    events.push(held(0, false));
    events.extend((1..20).map(read));
    assert_eq!(again_and_again(&one_stretch(events), 60), 0);
}

#[test]
fn numbers_that_may_be_full_are_not_counted_at_once() {
    let mut counting = Counting::default();
    let mut tables = Tables::new(8, counting.owners.number(Some(0)));
    let stretch = Stretch {
        ops: vec![Op::Count {
            context: 0x100,
            kind: kind::FOREGROUND,
            end: 20,
            held: Held::NONE,
        }],
        events: (0..20).map(read).collect(),
    };
    for (before, at_once) in [(0, 4), (u32::MAX as u64 - 100, 0)] {
        tables.foreground_accesses = before;
        let said = tables.repeat(&[&stretch], 5, &mut counting.owners);
        assert_eq!(said, at_once);
        assert_eq!(tables.foreground_accesses, before + 100);
    }
}
