// SPDX-License-Identifier: GPL-2.0-or-later
//! A hash table of plain numbers, made to be quick where one knows where to look.
//!
//! What it holds lies in the order in which it came and stays where it is, so that a
//! number that `place` returned is good for as long as the table is.

/// What can live in a `Table`.
pub trait Slot: Copy {
    /// What it is found by, alone or first of all.
    fn key(&self) -> u64;

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

/// Slots as they came, and an index of them by hash: open addressing, linear probing, at
/// most half full. In the index, 0 is nothing, and n + 1 slot n.
pub struct Table<S: Slot> {
    slots: Vec<S>,
    index: Vec<u32>,
}

impl<S: Slot> Default for Table<S> {
    fn default() -> Self {
        Table {
            slots: Vec::new(),
            index: vec![0; 1 << 10],
        }
    }
}

impl<S: Slot> Table<S> {
    /// Where `key` is, which is inserted as it stands if it is new. `guess`: where it may
    /// well be.
    #[inline(always)]
    pub fn place(&mut self, key: &S, guess: u32) -> u32 {
        match self.slots.get(guess as usize) {
            Some(slot) if slot.same(key) => guess,
            _ => self.find(key),
        }
    }

    /// Where `key` is, if it is there.
    #[inline(always)]
    pub fn lookup(&self, key: &S) -> Option<u32> {
        self.probe(key).1
    }

    /// The slot at a place that `place` returned.
    #[inline(always)]
    pub fn at(&mut self, place: u32) -> &mut S {
        &mut self.slots[place as usize]
    }

    /// The slot at `place`, if there are so many.
    #[inline(always)]
    pub fn get(&self, place: u32) -> Option<&S> {
        self.slots.get(place as usize)
    }

    /// Where in the index `key` is or would be, and its place if it is there.
    #[inline(always)]
    fn probe(&self, key: &S) -> (usize, Option<u32>) {
        let mask = self.index.len() - 1;
        let mut at = key.hash() as usize & mask;
        loop {
            match self.index[at] {
                0 => return (at, None),
                n if self.slots[n as usize - 1].same(key) => return (at, Some(n - 1)),
                _ => at = (at + 1) & mask,
            }
        }
    }

    #[inline(never)]
    fn find(&mut self, key: &S) -> u32 {
        match self.probe(key) {
            (_, Some(place)) => place,
            (at, None) => self.insert(at, key),
        }
    }

    #[cold]
    fn insert(&mut self, mut at: usize, key: &S) -> u32 {
        if (self.slots.len() + 1) * 2 > self.index.len() {
            self.index = vec![0; self.index.len() * 2];
            for n in 0..self.slots.len() {
                let free = self.probe(&self.slots[n]).0;
                self.index[free] = n as u32 + 1;
            }
            at = self.probe(key).0;
        }
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(256.max(self.slots.len() / 2));
        }
        self.slots.push(*key);
        self.index[at] = self.slots.len() as u32;
        self.slots.len() as u32 - 1
    }

    pub fn iter(&self) -> impl Iterator<Item = &S> {
        self.slots.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.slots.iter_mut()
    }

    pub fn bytes(&self) -> usize {
        self.slots.capacity() * std::mem::size_of::<S>()
            + self.index.len() * std::mem::size_of::<u32>()
    }
}

pub fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 32)
}

/// A count, and so many more. Where many are counted at once it may be below nothing meanwhile.
#[inline(always)]
pub fn more(count: u32, times: u32) -> u32 {
    match times {
        1 => count.saturating_add(1),
        _ => count.wrapping_add(times),
    }
}
