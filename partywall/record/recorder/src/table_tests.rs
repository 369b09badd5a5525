// SPDX-License-Identifier: GPL-2.0-or-later
//! What is counted of accesses and blocks, and by whom lines were visited.

use super::*;
use crate::event::ATOMIC;
use crate::turns::STRETCH;

fn access(address: u64, store: bool) -> Event {
    Event {
        address,
        what: What::new(1, 8, if store { STORE } else { 0 }),
    }
}

/// Tables of a party that is alone.
struct Recorded {
    tables: Tables,
    owners: Owners,
}

impl Recorded {
    fn new(distance: u64) -> Self {
        Recorded {
            tables: Tables::new(distance, 1),
            owners: Owners::default(),
        }
    }

    fn record(&mut self, event: Event) {
        self.record_as(event, kind::FOREGROUND);
    }

    fn record_as(&mut self, event: Event, kind: u64) {
        self.tables.count(&[event], 0x100, kind, &mut self.owners);
    }
}

fn visits(t: &Recorded, line: u64) -> (u32, u32) {
    t.tables
        .lines
        .iter()
        .find(|s| s.key == kind::key(line, kind::FOREGROUND))
        .map_or((0, 0), |s| (s.read_visits, s.write_visits))
}

#[test]
fn of_events_accesses_are_counted_and_of_blocks_the_work() {
    let event = |address, what: What| Event { address, what };
    let events = [
        event(STRETCH, What::new(3, 0, BLOCK)),
        access(0x1000, false),
        event(0, What::default().with(STEP)),
        event(0x2000, What::new(1, 8, STORE | OWN_STACK)),
    ];
    for kind in [kind::FOREGROUND, kind::DEFERRED, kind::BACKGROUND] {
        let mut t = Recorded::new(4);
        let before = t.tables.progress.now();
        t.tables.count(&events, 0x100, kind, &mut t.owners);
        let mut lines: Vec<_> = t.tables.lines.iter().map(|s| s.key).collect();
        lines.sort_unstable();
        assert_eq!(lines, [kind::key(0x40, kind), kind::key(0x80, kind)]);
        // What the stack holds nobody wants to know.
        let rows: Vec<_> = t.tables.accesses.iter().map(|s| s.address).collect();
        assert_eq!(rows, [0x1000]);
        let own = kind == kind::FOREGROUND;
        let counts = (t.tables.foreground_accesses, t.tables.background_accesses);
        assert_eq!(counts, if own { (2, 0) } else { (0, 2) });
        assert_eq!(t.tables.progress.now() - before, own as u32);
    }
}

#[test]
fn who_was_there_before_is_known_of_each_line_among_many() {
    let mut owners = Owners::default();
    let mut tables = [0, 1].map(|n| Tables::new(1, owners.number(Some(n))));
    // Every third line is one party's alone; all are visited three times in turns.
    for _ in 0..3 {
        for (party, own) in tables.iter_mut().enumerate() {
            for line in (0..2000u64).filter(|line| party == 0 || line % 3 != 0) {
                let event = access(0x10000 + line * 64, true);
                own.count(&[event], 0x100, kind::FOREGROUND, &mut owners);
            }
        }
    }
    for (party, own) in tables.iter().enumerate() {
        assert_eq!(own.lines.iter().count(), [2000, 1333][party]);
        for slot in own.lines.iter() {
            let line = (slot.key >> kind::BITS) - 0x400;
            let alone = line % 3 == 0;
            assert_eq!(slot.turns.returns, if alone { 0 } else { 2 }, "{}", line);
            assert_eq!(slot.turns.crossings, slot.turns.returns);
        }
    }
}

#[test]
fn a_run_of_accesses_is_one_visit_and_a_write_makes_it_a_write_visit() {
    let mut t = Recorded::new(4);
    t.record(access(0x1000, false));
    t.record(access(0x1008, false));
    t.record(access(0x2000, false)); // another line in between
    t.record(access(0x1010, true));
    assert_eq!(visits(&t, 0x40), (0, 1));
    assert_eq!(visits(&t, 0x80), (1, 0));
}

#[test]
fn a_return_after_many_other_lines_is_a_new_visit() {
    let mut t = Recorded::new(4);
    t.record(access(0x1000, true));
    for line in 0..6 {
        t.record(access(0x4000 + line * 64, false));
    }
    t.record(access(0x1000, false));
    assert_eq!(visits(&t, 0x40), (1, 1));
}

#[test]
fn kinds_of_work_have_visits_and_words_of_their_own() {
    let mut t = Recorded::new(4);
    for kind in [kind::FOREGROUND, kind::DEFERRED, kind::BACKGROUND] {
        t.record_as(access(0x1000, true), kind);
        t.record_as(access(0x1000, true), kind);
    }
    t.tables.close();
    let mut kinds: Vec<_> = t.tables.lines.iter().map(|s| kind::of(s.key)).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [0, 1, 2]);
    assert!(t.tables.lines.iter().all(|s| s.write_visits == 1));
    // Of the background nobody wants to know which words are used together.
    assert_eq!(t.tables.patterns.slots.iter().count(), 2);
    assert_eq!(t.tables.foreground_accesses, 2);
    assert_eq!(t.tables.background_accesses, 4);
}

#[test]
fn an_access_across_two_lines_visits_both() {
    let mut t = Recorded::new(4);
    t.record(access(0x103c, true));
    assert_eq!(visits(&t, 0x40), (0, 1));
    assert_eq!(visits(&t, 0x41), (0, 1));
    assert_eq!(t.tables.accesses.iter().count(), 1);
}

#[test]
fn tables_grow_without_losing_anything() {
    let mut t = Recorded::new(4);
    for round in 0..3u64 {
        for n in 0..50_000u64 {
            t.record(access(0x10000 + n * 64, round == 2));
        }
    }
    assert_eq!(t.tables.accesses.iter().count(), 50_000);
    assert!(t
        .tables
        .accesses
        .iter()
        .all(|s| s.reads == 2 && s.writes == 1));
    assert!(t
        .tables
        .lines
        .iter()
        .all(|s| s.read_visits == 2 && s.write_visits == 1));
}

#[test]
fn an_access_that_comes_after_another_one_each_time_is_found_all_the_same() {
    let mut t = Recorded::new(8);
    for n in 0..5000u64 {
        t.record(access(0x10000 + n * n % 50 * 64, false));
    }
    let mut found = [0; 50];
    for slot in t.tables.accesses.iter() {
        found[(slot.address - 0x10000) as usize / 64] += slot.reads;
    }
    let mut told = [0; 50];
    (0..5000).for_each(|n| told[n * n % 50] += 1);
    assert_eq!(found, told);
}

#[test]
fn words_of_each_visit_are_counted_and_their_sum_is_the_visits() {
    let mut t = Recorded::new(2);
    for round in 0..3 {
        t.record(access(0x1000, false));
        t.record(access(0x1008, round == 2));
        for line in 0..4 {
            t.record(access(0x4000 + line * 64, false));
        }
    }
    t.tables.close();
    t.tables.close(); // counts nothing twice
    let mut found: Vec<_> = t
        .tables
        .patterns
        .slots
        .iter()
        .filter(|s| s.key == kind::key(0x40, kind::FOREGROUND))
        .map(|s| (s.words.read, s.words.written, s.visits))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [(1, 2, 1), (3, 0, 2)]);
    assert_eq!(visits(&t, 0x40), (2, 1));
}

#[test]
fn counts_that_are_full_stay_so() {
    let mut t = Recorded::new(1);
    t.record(access(0x1000, true));
    for slot in t.tables.lines.iter_mut() {
        slot.write_visits = u32::MAX;
    }
    for slot in t.tables.accesses.iter_mut() {
        slot.writes = u32::MAX;
    }
    for line in 0..4 {
        t.record(access(0x4000 + line * 64, false));
    }
    t.record(access(0x1000, true));
    assert_eq!(visits(&t, 0x40), (0, u32::MAX));
    assert!(t.tables.accesses.iter().any(|s| s.writes == u32::MAX));
}

/// Other locks are held from here on; `taken`: by what comes next.
fn locks(set: u64, taken: bool) -> Event {
    let flags = if taken { LOCKS | ATOMIC } else { LOCKS };
    Event {
        address: (set > 0) as u64 * (1 << 32) + set,
        what: What::new(0, 0, flags),
    }
}

/// So many locks are held from here on, of which the first `kept` were held before.
fn held(set: u64, count: u64, kept: u64) -> Event {
    Event {
        address: kept << 40 | count << 32 | set,
        what: What::new(0, 0, LOCKS),
    }
}

/// Visits under sets, by line and set.
fn under(t: &Recorded) -> Vec<(u64, u32, u32)> {
    let counted = t.tables.visits_under.iter().filter(|s| s.visits > 0);
    let mut found: Vec<_> = counted
        .map(|s| (s.key >> kind::BITS, s.set, s.visits))
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn visits_are_under_the_locks_that_are_held() {
    let mut t = Recorded::new(1);
    for event in [
        access(0x1000, false),
        locks(1, true),
        access(0x2000, true), // takes it
        access(0x3000, false),
        access(0x3008, true), // the same visit
        access(0x4000, true),
        access(0x2000, true), // lets go, in another visit
        locks(0, false),
        access(0x4000, true),
    ] {
        t.record(event);
    }
    assert_eq!(under(&t), [(0x80, 1, 2), (0xc0, 1, 1), (0x100, 1, 1)]);
}

#[test]
fn a_visit_that_goes_on_under_a_lock_is_under_it() {
    let mut t = Recorded::new(4);
    for event in [
        access(0x2000, false), // looks at it
        locks(1, true),
        access(0x2000, true), // takes it
        access(0x2000, true), // lets go
        locks(0, false),
        access(0x2000, false),
    ] {
        t.record(event);
    }
    assert_eq!(visits(&t, 0x80), (0, 1));
    assert_eq!(under(&t), [(0x80, 1, 1)]);
}

#[test]
fn who_looks_at_a_lock_under_another_one_comes_to_take_it() {
    let mut t = Recorded::new(4);
    for event in [
        locks(1, true),
        access(0x1000, true),
        access(0x2000, false), // looks at the second, or at what lies beside it
        locks(2, true),
        access(0x2000, true),  // takes it
        access(0x1000, false), // lies beside the first one
        access(0x2000, true),  // lets go
        locks(1, false),
        access(0x2008, true),
    ] {
        t.record(event);
    }
    assert_eq!(under(&t), [(0x40, 1, 1), (0x80, 2, 1)]);
}

#[test]
fn what_interrupts_do_is_under_no_lock() {
    let mut t = Recorded::new(1);
    t.record(locks(1, true));
    t.record_as(access(0x2000, true), kind::BACKGROUND);
    assert_eq!(under(&t), []);
    t.record_as(access(0x3000, true), kind::DEFERRED);
    assert_eq!(under(&t), [(0xc0, 1, 1)]);
}

/// Visits in one hold with the one before, by line, set, and how many of its locks.
fn again(t: &Recorded) -> Vec<(u64, u32, u32, u32)> {
    let mut found: Vec<_> = t
        .tables
        .again
        .iter()
        .map(|s| (s.key >> kind::BITS, s.set, s.kept, s.visits))
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn visits_in_one_hold_of_a_lock_are_told() {
    let mut t = Recorded::new(1);
    for event in [
        access(0x1000, true),
        held(1, 1, 0),
        access(0x2000, true),
        access(0x1000, true), // under the lock for the first time
        access(0x2000, false),
        access(0x3000, true),
        access(0x1000, true),
        held(0, 0, 0),
        access(0x2000, true),
        held(1, 1, 0),
        access(0x1000, true), // it was taken anew
        access(0x2000, true),
        access(0x1000, true),
        access(0x1008, true), // one visit
    ] {
        t.record(event);
    }
    assert_eq!(again(&t), [(0x40, 1, 1, 2), (0x80, 1, 1, 1)]);
}

#[test]
fn of_several_locks_those_are_told_that_were_held_throughout() {
    let mut t = Recorded::new(1);
    for event in [
        held(1, 1, 0),
        access(0x1000, true),
        held(2, 2, 1),
        access(0x2000, true),
        access(0x1000, true), // the second was taken since
        access(0x2000, true),
        held(1, 1, 1),
        access(0x1000, true),
        held(3, 2, 1),
        access(0x2000, true), // another second one
        held(4, 1, 0),
        access(0x1000, true), // the first was given back first
    ] {
        t.record(event);
    }
    assert_eq!(
        again(&t),
        [
            (0x40, 1, 1, 1),
            (0x40, 2, 1, 1),
            (0x80, 2, 2, 1),
            (0x80, 3, 1, 1)
        ]
    );
}

#[test]
fn a_hold_that_was_lost_sight_of_ends_with_the_stretch() {
    let mut t = Recorded::new(1);
    for event in [held(1, 1, 0), access(0x1000, true), access(0x2000, true)] {
        t.record(event);
    }
    t.tables.begin();
    t.record(access(0x1000, true));
    assert_eq!(again(&t), []);
    t.tables.hold(Held { set: 2, count: 1 });
    t.record(access(0x2000, true));
    t.record(access(0x1000, true));
    t.record(access(0x2000, true));
    assert_eq!(again(&t), [(0x80, 2, 1, 1)]);
}

#[test]
fn what_interrupts_do_in_a_hold_is_no_part_of_it() {
    let mut t = Recorded::new(1);
    t.record(held(1, 1, 0));
    for line in [0x2000, 0x3000, 0x2000] {
        t.record_as(access(line, true), kind::BACKGROUND);
    }
    assert_eq!(again(&t), []);
}
