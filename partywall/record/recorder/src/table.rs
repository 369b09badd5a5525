// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables of one party: visits by line, accesses by address, code and context.
//!
//! Each vCPU (and each thread that does charged work) has tables of its own, so
//! nothing on the hot path is shared or locked.

use crate::event::{Event, What, ATOMIC, BLOCK, LOCKS, OWN_STACK, STEP, STORE};
use crate::format::kind;
use crate::repeated::AgainSlot;
use crate::slots::{mix, more, Slot, Table};
use crate::turns::{Owners, Progress, Slices, Turns};
use crate::under::{Held, Since, UnderSlot};
use crate::words::{Patterns, Words};
use rounds::Noted;

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
    /// When it was visited, in changes of line; 0: never.
    last: u32,
    /// Locks that are held since then were held in the visit before.
    seen: u32,
    pub read_visits: u32,
    pub write_visits: u32,
    pub turns: Turns,
    /// Words used in the visit that is not over, and combinations of them so far.
    words: Words,
    patterns: u8,
    /// `WRITES` and `UNDER`, of that visit.
    now: u8,
    /// Where the last combination was counted, and where `Owners` has the line.
    pattern: u32,
    owner: u32,
}

/// It writes.
const WRITES: u8 = 1;
/// It is counted under a set of locks.
const UNDER: u8 = 2;

// Each lies in one line of the host's.
const _: () = assert!(std::mem::size_of::<LineSlot>() == 64);

impl LineSlot {
    fn new(key: u64) -> Self {
        LineSlot {
            key,
            last: 0,
            seen: 0,
            read_visits: 0,
            write_visits: 0,
            turns: Turns::NONE,
            words: Words::NONE,
            patterns: 0,
            now: 0,
            pattern: 0,
            owner: 0,
        }
    }

    /// Visits of either kind.
    pub fn visits(&self) -> u32 {
        self.read_visits.saturating_add(self.write_visits)
    }

    /// It is the workload's, at once or put off.
    pub fn is_work(&self) -> bool {
        kind::of(self.key) != kind::BACKGROUND
    }

    /// A visit begins; or one that only read so far writes. `times`: in so many rounds.
    #[inline(always)]
    fn begin(&mut self, writes: bool, times: u32) {
        let visits = if writes {
            &mut self.write_visits
        } else {
            &mut self.read_visits
        };
        *visits = more(*visits, times);
        self.now = (self.now & !WRITES) | (writes as u8 * WRITES);
    }

    /// The visit goes on.
    #[inline(always)]
    fn go_on(&mut self, words: Words, writes: bool, times: u32) {
        self.words.add(words);
        if writes && self.now & WRITES == 0 {
            // Before it is counted, perhaps, in the round at hand.
            self.read_visits = self.read_visits.wrapping_sub(times);
            self.begin(true, times);
        }
    }

    /// The visit that went on, if any, is over.
    #[inline(always)]
    fn close(&mut self, patterns: &mut Patterns, times: u32) {
        let words = std::mem::take(&mut self.words);
        if words != Words::NONE && kind::of(self.key) != kind::BACKGROUND {
            let (known, last) = (&mut self.patterns, &mut self.pattern);
            patterns.count(self.key, words, known, last, times);
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
    /// Those under locks, by the set of these.
    pub visits_under: Table<UnderSlot>,
    /// Those in one hold of locks with the visit before.
    pub again: Table<AgainSlot>,
    /// What is held, and since when; and what was held until then, if the next access takes a
    /// lock.
    held: Held,
    since: Since,
    taken_in: Option<u32>,
    last_under: u32,
    last_again: u32,
    /// The party's number among `Owners`.
    number: u32,
    pub slices: Slices,
    visit_distance: u32,
    /// May wrap: what lies so far back is forgotten, but for one line in billions.
    changes: u32,
    /// The key of the line visited last, and its place.
    last_line: u64,
    last_place: u32,
    /// Where the last access was counted.
    last_access: u32,
    /// Places of the lines visited last, by the lowest bits of their numbers.
    recent: Box<[u32; RECENT]>,
    /// How many rounds it is that are counted, and what becomes of visits under locks.
    times: u32,
    noted: Noted,
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
            visits_under: Table::default(),
            again: Table::default(),
            held: Held::NONE,
            since: Since::default(),
            taken_in: None,
            last_under: 0,
            last_again: 0,
            number,
            slices: Slices::default(),
            foreground_accesses: 0,
            background_accesses: 0,
            visit_distance: visit_distance as u32,
            changes: 0,
            last_line: 0,
            last_place: 0,
            last_access: 0,
            recent: Box::new([0; RECENT]),
            times: 1,
            noted: Noted::No,
        }
    }

    /// A stretch begins. What was held before it may have been lost sight of.
    pub fn begin(&mut self) {
        self.progress.begin();
        self.since.change(self.held, 0);
    }

    /// What is held when the next of these events begins; since when is not known if it is not
    /// what was.
    pub fn hold(&mut self, held: Held) {
        if self.held != held {
            self.held = held;
            self.since.change(held, 0);
        }
    }

    pub fn held(&self) -> Held {
        self.held
    }

    /// Its number among `Owners`.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Counts what was done in a context, which is of this kind of work.
    pub fn count(&mut self, events: &[Event], context: u16, kind: u64, owners: &mut Owners) {
        let mut accesses = 0;
        for event in events {
            let what = event.what;
            if what.is(BLOCK | STEP | LOCKS) {
                if what.is(LOCKS) {
                    let taken = what.is(ATOMIC) && self.held != Held::NONE;
                    self.taken_in = if taken { Some(self.held.set) } else { None };
                    let (held, kept) = Held::unpack(event.address);
                    self.held = held;
                    self.since.change(held, kept);
                }
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
        accesses *= self.times as u64;
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
            slot.writes = more(slot.writes, self.times);
        } else {
            slot.reads = more(slot.reads, self.times);
        }
    }

    #[inline(always)]
    fn visit(&mut self, line: u64, event: &Event, kind: u64, owners: &mut Owners) {
        let (key, store) = (kind::key(line, kind), event.what.is(STORE));
        let words = Words::of(event.address, event.what.size(), store, line);
        if key != self.last_line {
            self.come_to(key, words, store, kind, owners);
        } else {
            let slot = self.lines.at(self.last_place);
            slot.seen = self.since.now();
            slot.go_on(words, store, self.times);
            self.under(key, kind);
        }
    }

    /// An access to another line than the one before.
    #[inline(never)]
    fn come_to(&mut self, key: u64, words: Words, store: bool, kind: u64, owners: &mut Owners) {
        let line = key >> kind::BITS;
        let other = line != self.last_line >> kind::BITS;
        self.changes = self.changes.wrapping_add(other as u32);
        let mut place = self.recent[line as usize % RECENT];
        if self.lines.get(place).map_or(true, |slot| slot.key != key) {
            place = self.look_for(key);
        }
        (self.last_line, self.last_place) = (key, place);
        let slot = self.lines.at(place);
        let seen = std::mem::replace(&mut slot.seen, self.since.now());
        let near = self.changes.wrapping_sub(slot.last) <= self.visit_distance;
        if slot.last != 0 && near {
            slot.go_on(words, store, self.times);
            slot.last = self.changes;
        } else {
            slot.close(&mut self.patterns, self.times);
            slot.words = words;
            slot.now = 0;
            slot.begin(store, self.times);
            if slot.last == 0 {
                slot.owner = owners.place(key);
            }
            let before = owners.visit(slot.owner, self.number);
            if kind == kind::FOREGROUND {
                owners.work(self.number, &mut self.slices);
            }
            let now = self.progress.now();
            slot.turns.visit(now, owners.slice(), before, self.times);
            slot.last = self.changes;
            self.again(key, seen, kind);
        }
        self.under(key, kind);
    }

    /// A visit begins; in the one before it was as late as `seen`.
    #[inline(always)]
    fn again(&mut self, key: u64, seen: u32, kind: u64) {
        if self.held == Held::NONE || seen == 0 || kind == kind::BACKGROUND {
            return;
        }
        let kept = self.since.kept(seen) as u32;
        if kept > 0 {
            let (set, visits) = (self.held.set, 0);
            let slot = AgainSlot {
                key,
                set,
                kept,
                visits,
            };
            self.last_again = self.again.place(&slot, self.last_again);
            let visits = &mut self.again.at(self.last_again).visits;
            *visits = more(*visits, self.times);
        }
    }

    /// The visit at hand is under the locks that are held, if it was under none before.
    #[inline(always)]
    fn under(&mut self, key: u64, kind: u64) {
        let taken_in = self.taken_in.take();
        if self.held != Held::NONE && kind != kind::BACKGROUND {
            let slot = self.lines.at(self.last_place);
            let counted = slot.now & UNDER != 0;
            slot.now |= UNDER;
            match taken_in {
                _ if matches!(self.noted, Noted::Before) => {}
                _ if !counted => self.visited_under(key, self.held.set, 1),
                // Who looks at a lock before he takes it comes to take it.
                Some(before) if self.visits_under(key, before).visits > 0 => {
                    self.visited_under(key, before, -1);
                    self.visited_under(key, self.held.set, 1);
                }
                Some(_) => self.noted.missed(self.last_under),
                None => {}
            }
        }
    }

    fn visited_under(&mut self, key: u64, set: u32, change: i32) {
        let visits = &mut self.visits_under(key, set).visits;
        *visits = match change {
            1 => visits.saturating_add(1),
            _ => *visits - 1,
        };
        let place = self.last_under;
        self.noted.changed(place, change);
    }

    #[inline(never)]
    fn visits_under(&mut self, key: u64, set: u32) -> &mut UnderSlot {
        let visits = 0;
        let slot = UnderSlot { key, set, visits };
        self.last_under = self.visits_under.place(&slot, self.last_under);
        self.visits_under.at(self.last_under)
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
            slot.close(&mut self.patterns, 1);
        }
    }

    /// Host memory held, in bytes.
    pub fn bytes(&self) -> usize {
        self.lines.bytes()
            + self.accesses.bytes()
            + self.patterns.slots.bytes()
            + self.visits_under.bytes()
            + self.again.bytes()
    }
}

#[path = "table_rounds.rs"]
mod rounds;

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
