// SPDX-License-Identifier: GPL-2.0-or-later
//! A hash table of plain numbers, made to be quick and to be asked with a hint.

use std::alloc::{alloc_zeroed, handle_alloc_error, Layout};

/// What can live in a `Table`; `EMPTY` marks a free slot.
///
/// # Safety
/// `EMPTY` must be what memory full of zeros means.
pub unsafe trait Slot: Copy {
    const EMPTY: Self;

    /// What it is found by, alone or first of all; 0 if it is free.
    fn key(&self) -> u64;

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.key() == 0
    }

    /// Whether it is found by the same as the other. Without more than a key: by that.
    #[inline(always)]
    fn same(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    #[inline(always)]
    fn hash(&self) -> u64 {
        mix(self.key(), 0)
    }
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

    /// The slot of `key`, if there is one.
    #[inline(always)]
    pub fn get(&self, key: &S) -> Option<&S> {
        let mask = self.slots.len() - 1;
        let mut at = key.hash() as usize & mask;
        while !self.slots[at].is_empty() {
            if self.slots[at].same(key) {
                return Some(&self.slots[at]);
            }
            at = (at + 1) & mask;
        }
        None
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

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.slots.iter_mut().filter(|s| !s.is_empty())
    }

    pub fn bytes(&self) -> usize {
        self.slots.len() * std::mem::size_of::<S>()
    }
}

pub fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 32)
}
