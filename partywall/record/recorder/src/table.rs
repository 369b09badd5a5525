// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables of one party: visits by line, accesses by address, code and context.
//!
//! Each vCPU (and each thread that does charged work) has tables of its own, so
//! nothing on the hot path is shared or locked.

use crate::event::{Event, What, BLOCK, OWN_STACK, STEP, STORE};
use crate::format::kind;
use crate::slots::{mix, Slot, Table};
use crate::turns::{Owners, Progress, Turns};
use crate::words::{Patterns, Words};

/// Bytes of a cache line, as a shift.
pub use crate::format::LINE_SHIFT;

/// Lines whose places are kept at hand; a power of two.
const RECENT: usize = 1 << 9;

/// Visits of one party to one line, in one kind of work.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct LineSlot {
    /// Of the line's number (address >> 6) and the kind of work, by `kind::key`.
    pub key: u64,
    last: u64,
    pub read_visits: u32,
    pub write_visits: u32,
    pub turns: Turns,
    /// Words used in the visit that is not over, and combinations of them so far.
    words: Words,
    patterns: u8,
    writes_now: bool,
    /// Where the last combination was counted, and where `Owners` has the line.
    pattern: u32,
    owner: u32,
}

impl LineSlot {
    fn new(key: u64) -> Self {
        LineSlot {
            key,
            last: 0,
            read_visits: 0,
            write_visits: 0,
            turns: Turns::NONE,
            words: Words::NONE,
            patterns: 0,
            writes_now: false,
            pattern: 0,
            owner: 0,
        }
    }

    /// A visit begins; or one that only read so far writes.
    #[inline(always)]
    fn begin(&mut self, writes: bool) {
        let visits = if writes {
            &mut self.write_visits
        } else {
            &mut self.read_visits
        };
        *visits = visits.saturating_add(1);
        self.writes_now = writes;
    }

    /// The visit goes on.
    #[inline(always)]
    fn go_on(&mut self, words: Words, writes: bool) {
        self.words.add(words);
        if writes && !self.writes_now {
            self.read_visits -= 1;
            self.begin(true);
        }
    }

    /// The visit that went on, if any, is over.
    #[inline(always)]
    fn close(&mut self, patterns: &mut Patterns) {
        let words = std::mem::take(&mut self.words);
        if words != Words::NONE && kind::of(self.key) != kind::BACKGROUND {
            patterns.count(self.key, words, &mut self.patterns, &mut self.pattern);
        }
    }
}

impl Slot for LineSlot {
    #[inline(always)]
    fn key(&self) -> u64 {
        self.key
    }
}

/// Accesses of one party by one instruction in one context to one address.
#[derive(Clone, Copy)]
pub struct AccessSlot {
    pub address: u64,
    /// As `What::counted` has it.
    pub what: What,
    pub reads: u32,
    pub writes: u32,
    /// Where the access was counted that came after it last time: code repeats itself.
    next: u32,
}

impl Slot for AccessSlot {
    #[inline(always)]
    fn key(&self) -> u64 {
        self.address
    }
    #[inline(always)]
    fn same(&self, other: &Self) -> bool {
        self.address == other.address && self.what == other.what
    }
    #[inline(always)]
    fn hash(&self) -> u64 {
        mix(self.address, self.what.hash())
    }
}

/// All that one party has recorded.
pub struct Tables {
    pub lines: Table<LineSlot>,
    pub accesses: Table<AccessSlot>,
    pub patterns: Patterns,
    pub progress: Progress,
    pub foreground_accesses: u64,
    pub background_accesses: u64,
    /// The party's number among `Owners`.
    number: u32,
    visit_distance: u64,
    changes: u64,
    /// The key of the line visited last, and its place.
    last_line: u64,
    last_place: u32,
    /// Where the last access was counted.
    last_access: u32,
    /// Places of the lines visited last, by the lowest bits of their numbers.
    recent: Box<[u32; RECENT]>,
}

impl Tables {
    /// `visit_distance`: changes of line after which a return is a new visit.
    /// `number`: the party's among `Owners`.
    pub fn new(visit_distance: u64, number: u32) -> Self {
        Tables {
            lines: Table::default(),
            accesses: Table::default(),
            patterns: Patterns::default(),
            progress: Progress::default(),
            number,
            foreground_accesses: 0,
            background_accesses: 0,
            visit_distance,
            changes: 0,
            last_line: 0,
            last_place: 0,
            last_access: 0,
            recent: Box::new([0; RECENT]),
        }
    }

    /// Counts what was done in a context, which is of this kind of work.
    pub fn count(&mut self, events: &[Event], context: u16, kind: u64, owners: &mut Owners) {
        let mut accesses = 0;
        for event in events {
            let what = event.what;
            if what.is(BLOCK | STEP) {
                // Stretches are those of the foreground: what it puts off is part of one.
                if what.is(BLOCK) && kind == kind::FOREGROUND {
                    self.progress.work(event.address);
                }
                continue;
            }
            accesses += 1;
            let first = event.address >> LINE_SHIFT;
            let last = (event.address + what.size() as u64 - 1) >> LINE_SHIFT;
            self.visit(first, event, kind, owners);
            if last != first {
                self.visit(last, event, kind, owners);
            }
            // Fields of a stack say nothing, and half of all accesses go there.
            if !what.is(OWN_STACK) {
                self.access(event.address, what.counted(context), what.is(STORE));
            }
        }
        if kind == kind::FOREGROUND {
            self.foreground_accesses += accesses;
        } else {
            self.background_accesses += accesses;
        }
    }

    #[inline(always)]
    fn access(&mut self, address: u64, what: What, store: bool) {
        let key = AccessSlot {
            address,
            what,
            reads: 0,
            writes: 0,
            next: 0,
        };
        let guess = self.accesses.get(self.last_access).map_or(0, |s| s.next);
        let place = self.accesses.place(&key, guess);
        if place != guess {
            self.accesses.at(self.last_access).next = place;
        }
        self.last_access = place;
        let slot = self.accesses.at(place);
        if store {
            slot.writes = slot.writes.saturating_add(1);
        } else {
            slot.reads = slot.reads.saturating_add(1);
        }
    }

    #[inline(always)]
    fn visit(&mut self, line: u64, event: &Event, kind: u64, owners: &mut Owners) {
        let (key, store) = (kind::key(line, kind), event.what.is(STORE));
        let words = Words::of(event.address, event.what.size(), store, line);
        if key != self.last_line {
            self.come_to(key, words, store, owners);
        } else {
            self.lines.at(self.last_place).go_on(words, store);
        }
    }

    /// An access to another line than the one before.
    #[inline(never)]
    fn come_to(&mut self, key: u64, words: Words, store: bool, owners: &mut Owners) {
        let line = key >> kind::BITS;
        self.changes += (line != self.last_line >> kind::BITS) as u64;
        let mut place = self.recent[line as usize % RECENT];
        if self.lines.get(place).map_or(true, |slot| slot.key != key) {
            place = self.look_for(key);
        }
        (self.last_line, self.last_place) = (key, place);
        let slot = self.lines.at(place);
        if slot.last != 0 && self.changes - slot.last <= self.visit_distance {
            slot.go_on(words, store);
        } else {
            slot.close(&mut self.patterns);
            slot.words = words;
            slot.begin(store);
            if slot.last == 0 {
                slot.owner = owners.place(key);
            }
            let others = owners.visit(slot.owner, self.number);
            slot.turns
                .visit(self.progress.now(), owners.slice(), others);
        }
        slot.last = self.changes;
    }

    /// The place of a line that is not among the recent ones.
    #[inline(never)]
    fn look_for(&mut self, key: u64) -> u32 {
        let place = self.lines.place(&LineSlot::new(key), self.last_place);
        self.recent[(key >> kind::BITS) as usize % RECENT] = place;
        place
    }

    /// Ends all visits that go on.
    pub fn close(&mut self) {
        for slot in self.lines.iter_mut() {
            slot.close(&mut self.patterns);
        }
    }

    /// Host memory held, in bytes.
    pub fn bytes(&self) -> usize {
        self.lines.bytes() + self.accesses.bytes() + self.patterns.slots.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut tables = [1, 2].map(|number| Tables::new(1, number));
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
}
