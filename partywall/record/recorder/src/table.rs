// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables of one party: visits by line, accesses by address, code and context.
//!
//! Each vCPU (and each thread that does charged work) has tables of its own, so
//! nothing on the hot path is shared or locked.

use std::alloc::{alloc_zeroed, handle_alloc_error, Layout};

/// Bytes of a cache line, as a shift.
pub use crate::format::LINE_SHIFT;

/// A key that can live in a `Table`; `EMPTY` marks a free slot.
///
/// # Safety
/// `EMPTY` must be what memory full of zeros means.
pub unsafe trait Slot: Copy {
    const EMPTY: Self;
    fn is_empty(&self) -> bool;
    fn same(&self, other: &Self) -> bool;
    fn hash(&self) -> u64;
}

/// Open addressing, linear probing, at most three quarters full.
pub struct Table<S: Slot> {
    slots: Vec<S>,
    used: usize,
}

impl<S: Slot> Default for Table<S> {
    fn default() -> Self {
        Table {
            slots: empty(1 << 10),
            used: 0,
        }
    }
}

/// Free slots, in memory that the system zeroes when it is first touched.
fn empty<S: Slot>(count: usize) -> Vec<S> {
    let layout = Layout::array::<S>(count).expect("a table that fits in memory");
    // SAFETY: the layout is that of a Vec of this length, its size is not zero,
    // and zeros are `S::EMPTY` by the trait's contract.
    unsafe {
        let start = alloc_zeroed(layout) as *mut S;
        if start.is_null() {
            handle_alloc_error(layout);
        }
        Vec::from_raw_parts(start, count, count)
    }
}

impl<S: Slot> Table<S> {
    /// The slot of `key`, which is inserted as it stands if it is new. `hint`:
    /// where it may well be; where it is, afterwards.
    #[inline(always)]
    pub fn slot(&mut self, key: S, hint: &mut u32) -> &mut S {
        let at = match self.slots.get(*hint as usize) {
            Some(slot) if slot.same(&key) => *hint as usize,
            _ => self.find(key),
        };
        *hint = at as u32;
        &mut self.slots[at]
    }

    #[inline(always)]
    fn find(&mut self, key: S) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = key.hash() as usize & mask;
        loop {
            if self.slots[at].same(&key) {
                return at;
            }
            if self.slots[at].is_empty() {
                return self.insert(at, key);
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn insert(&mut self, mut at: usize, key: S) -> usize {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            let bigger = empty(self.slots.len() * 2);
            let old = std::mem::replace(&mut self.slots, bigger);
            for slot in old.into_iter().filter(|s| !s.is_empty()) {
                let free = self.free_slot(&slot);
                self.slots[free] = slot;
            }
            at = self.free_slot(&key);
        }
        self.used += 1;
        self.slots[at] = key;
        at
    }

    fn free_slot(&self, key: &S) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = key.hash() as usize & mask;
        while !self.slots[at].is_empty() {
            at = (at + 1) & mask;
        }
        at
    }

    pub fn iter(&self) -> impl Iterator<Item = &S> {
        self.slots.iter().filter(|s| !s.is_empty())
    }

    pub fn bytes(&self) -> usize {
        self.slots.len() * std::mem::size_of::<S>()
    }
}

fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 32)
}

/// Visits of one party to one line, in the foreground or the background.
#[derive(Clone, Copy)]
pub struct LineSlot {
    /// Line number (address >> 6) << 1 | foreground.
    pub key: u64,
    last: u64,
    pub read_visits: u32,
    pub write_visits: u32,
    writes_now: bool,
}

// SAFETY: numbers and a bool, all zero.
unsafe impl Slot for LineSlot {
    const EMPTY: Self = LineSlot {
        key: 0,
        last: 0,
        read_visits: 0,
        write_visits: 0,
        writes_now: false,
    };
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.key == 0
    }
    #[inline(always)]
    fn same(&self, other: &Self) -> bool {
        self.key == other.key
    }
    #[inline(always)]
    fn hash(&self) -> u64 {
        mix(self.key, 0)
    }
}

/// Accesses of one party by one instruction in one context to one address.
#[derive(Clone, Copy)]
pub struct AccessSlot {
    pub address: u64,
    pub site: u32,
    pub context: u16,
    pub size: u8,
    /// Bit 0: atomic.
    pub flags: u8,
    pub reads: u32,
    pub writes: u32,
}

// SAFETY: numbers, all zero.
unsafe impl Slot for AccessSlot {
    const EMPTY: Self = AccessSlot {
        address: 0,
        site: 0,
        context: 0,
        size: 0,
        flags: 0,
        reads: 0,
        writes: 0,
    };
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.address == 0
    }
    #[inline(always)]
    fn same(&self, other: &Self) -> bool {
        self.address == other.address
            && self.site == other.site
            && self.context == other.context
            && self.size == other.size
            && self.flags == other.flags
    }
    #[inline(always)]
    fn hash(&self) -> u64 {
        mix(self.address, (self.site as u64) << 16 | self.context as u64)
    }
}

/// One access, as the instrumentation sees it.
#[derive(Clone, Copy)]
pub struct Access {
    pub address: u64,
    pub size: u8,
    pub store: bool,
    pub atomic: bool,
    pub site: u32,
    pub context: u16,
    pub foreground: bool,
}

/// All that one party has recorded.
pub struct Tables {
    pub lines: Table<LineSlot>,
    pub accesses: Table<AccessSlot>,
    pub foreground_accesses: u64,
    pub background_accesses: u64,
    visit_distance: u64,
    changes: u64,
    last_line: u64,
    last_slot: u32,
}

impl Tables {
    /// `visit_distance`: changes of line after which a return is a new visit.
    pub fn new(visit_distance: u64) -> Self {
        Tables {
            lines: Table::default(),
            accesses: Table::default(),
            foreground_accesses: 0,
            background_accesses: 0,
            visit_distance,
            changes: 0,
            last_line: 0,
            last_slot: 0,
        }
    }

    #[inline(always)]
    pub fn record(&mut self, a: Access, hint: &mut u32) {
        self.touch(&a);
        let key = AccessSlot {
            address: a.address,
            site: a.site,
            context: a.context,
            size: a.size,
            flags: a.atomic as u8,
            reads: 0,
            writes: 0,
        };
        let slot = self.accesses.slot(key, hint);
        if a.store {
            slot.writes += 1;
        } else {
            slot.reads += 1;
        }
    }

    /// Counts the visits of an access, and nothing of what made it.
    #[inline(always)]
    pub fn touch(&mut self, a: &Access) {
        let first = a.address >> LINE_SHIFT;
        let last = (a.address + a.size as u64 - 1) >> LINE_SHIFT;
        self.visit(first, a.store, a.foreground);
        if last != first {
            self.visit(last, a.store, a.foreground);
        }
        if a.foreground {
            self.foreground_accesses += 1;
        } else {
            self.background_accesses += 1;
        }
    }

    #[inline(always)]
    fn visit(&mut self, line: u64, store: bool, foreground: bool) {
        if line != self.last_line {
            self.last_line = line;
            self.changes += 1;
        }
        let now = self.changes;
        let key = LineSlot {
            key: line << 1 | foreground as u64,
            ..LineSlot::EMPTY
        };
        let slot = self.lines.slot(key, &mut self.last_slot);
        if slot.last == 0 || now - slot.last > self.visit_distance {
            if store {
                slot.write_visits += 1;
            } else {
                slot.read_visits += 1;
            }
            slot.writes_now = store;
        } else if store && !slot.writes_now {
            slot.read_visits -= 1;
            slot.write_visits += 1;
            slot.writes_now = true;
        }
        slot.last = now;
    }

    /// Host memory held, in bytes.
    pub fn bytes(&self) -> usize {
        self.lines.bytes() + self.accesses.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: u64, store: bool) -> Access {
        Access {
            address,
            size: 8,
            store,
            atomic: false,
            site: 1,
            context: 0x100,
            foreground: true,
        }
    }

    fn visits(t: &Tables, line: u64) -> (u32, u32) {
        t.lines
            .iter()
            .find(|s| s.key == line << 1 | 1)
            .map_or((0, 0), |s| (s.read_visits, s.write_visits))
    }

    #[test]
    fn a_run_of_accesses_is_one_visit_and_a_write_makes_it_a_write_visit() {
        let mut t = Tables::new(4);
        t.record(access(0x1000, false), &mut 0);
        t.record(access(0x1008, false), &mut 0);
        t.record(access(0x2000, false), &mut 0); // another line in between
        t.record(access(0x1010, true), &mut 0);
        assert_eq!(visits(&t, 0x40), (0, 1));
        assert_eq!(visits(&t, 0x80), (1, 0));
    }

    #[test]
    fn a_return_after_many_other_lines_is_a_new_visit() {
        let mut t = Tables::new(4);
        t.record(access(0x1000, true), &mut 0);
        for line in 0..6 {
            t.record(access(0x4000 + line * 64, false), &mut 0);
        }
        t.record(access(0x1000, false), &mut 0);
        assert_eq!(visits(&t, 0x40), (1, 1));
    }

    #[test]
    fn an_access_across_two_lines_visits_both() {
        let mut t = Tables::new(4);
        t.record(access(0x103c, true), &mut 0);
        assert_eq!(visits(&t, 0x40), (0, 1));
        assert_eq!(visits(&t, 0x41), (0, 1));
        assert_eq!(t.accesses.iter().count(), 1);
    }

    #[test]
    fn tables_grow_without_losing_anything() {
        let mut t = Tables::new(4);
        for round in 0..3u64 {
            for n in 0..50_000u64 {
                t.record(access(0x10000 + n * 64, round == 2), &mut 0);
            }
        }
        assert_eq!(t.accesses.iter().count(), 50_000);
        assert!(t.accesses.iter().all(|s| s.reads == 2 && s.writes == 1));
        assert!(t
            .lines
            .iter()
            .all(|s| s.read_visits == 2 && s.write_visits == 1));
    }

    #[test]
    fn a_wrong_hint_finds_the_slot_all_the_same() {
        let mut t = Tables::new(8);
        let mut hint = 0;
        for n in 0..5000u64 {
            t.record(access(0x10000 + n % 50 * 64, false), &mut hint);
            hint = hint.wrapping_mul(7).wrapping_add(n as u32);
        }
        assert_eq!(t.accesses.iter().count(), 50);
        assert!(t.accesses.iter().all(|slot| slot.reads == 100));
    }
}
