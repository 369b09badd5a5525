// SPDX-License-Identifier: GPL-2.0-or-later
//! Locks that are one bit of a word, beside other bits: `bit_spin_lock()`, `folio_lock()`,
//! `lock_buffer()`.
//!
//! Who sets the bit has the lock if it was clear before, which can't be seen. So nobody is said to
//! have one until he clears it himself; who failed does not, and is forgotten with his system call.

use super::{Held, Holder};
use crate::bits::Bits;
use crate::held::{Kind, Sums};
use crate::hooks::Waits;
use crate::spans::Tried;

/// Bits that a task is thought to hold at most.
const MOST: usize = 16;

/// What a lock is, beside its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Whole,
    /// A bit of the eight bytes around the address; None: which one is not known.
    Bit(Option<u8>),
}

impl Word {
    pub fn is_bit(self) -> bool {
        self != Word::Whole
    }
}

fn around(address: u64) -> u64 {
    address & !7
}

/// The word at `address` among 64.
pub(super) fn near(address: u64) -> u64 {
    1 << (address >> 3 & 63)
}

/// The number among the eight bytes around `address` of the bit that has a number at it.
fn numbered(address: u64, bit: u8) -> u8 {
    bit.wrapping_add(8 * (address & 7) as u8)
}

/// Whether what `bits` does at `address`, of `size` bytes, clears a bit that is `bit` in the
/// eight bytes around it. `now`: what is there then, if it could be read.
fn clears(bits: Bits, address: u64, size: u8, bit: Option<u8>, now: Option<u64>) -> bool {
    let shift = 8 * (address & 7) as u32;
    let bit = match bit {
        Some(bit) => bit,
        // One that was in a register: an instruction that clears one bit clears that.
        None => return matches!(bits, Bits::Clear(mask) if mask.map_or(true, u64::is_power_of_two)),
    };
    let clear = now.map(|value| value >> bit & 1 == 0);
    match bits {
        Bits::Clear(Some(mask)) => mask << shift >> bit & 1 != 0 && clear != Some(false),
        Bits::Clear(None) => clear == Some(true),
        Bits::Store => {
            let written = shift..shift + 8 * size as u32;
            written.contains(&(bit as u32)) && clear == Some(true)
        }
        Bits::Take(_) | Bits::Other => false,
    }
}

impl Held {
    fn is_bit_at(&self, address: u64) -> bool {
        self.word.is_bit() && around(self.address) == around(address)
    }
}

impl Holder {
    /// Whether a write to `address` may give a lock back that is held; most may not.
    #[inline(always)]
    pub fn may_give(&self, address: u64) -> bool {
        self.near & near(address) != 0
    }

    /// Fewer locks are held.
    pub(super) fn look_again(&mut self) {
        self.near = self.held.iter().fold(0, |all, h| all | near(h.address));
    }

    /// Whether it may have a bit of the word around `address`.
    pub fn has_bit(&self, address: u64) -> bool {
        self.held.iter().any(|h| h.is_bit_at(address))
    }

    /// An instruction at `taker` sets the bit at `address` that is `bit` there.
    pub fn set_bit(&mut self, address: u64, bit: Option<u8>, taker: u64, clock: u64) {
        self.settle(clock);
        // One that lies in the next eight bytes is not known.
        let bit = bit
            .map(|bit| numbered(address, bit))
            .filter(|bit| *bit < 64);
        let same = |h: &Held| match h.word {
            Word::Bit(known) => known.is_none() || bit.is_none() || known == bit,
            Word::Whole => false,
        };
        let before = self
            .held
            .iter()
            .position(|h| h.is_bit_at(address) && same(h));
        let before = before.map(|at| self.held.remove(at));
        // Who tries again after he slept for it had it not before, and is who tried first.
        let sleeps = self
            .waiting
            .iter()
            .any(|w| w.what == Waits::ForBit && around(w.lock) == around(address));
        let (taker, address, tried, known) = match before {
            Some(h) if sleeps => (h.taker, h.address, h.tried, h.word),
            _ => (taker, address, Tried::default(), Word::Bit(bit)),
        };
        let word = if bit.is_some() { Word::Bit(bit) } else { known };
        let bits = self.held.iter().filter(|h| h.word.is_bit()).count();
        if bits == MOST {
            let oldest = self.held.iter().position(|h| h.word.is_bit());
            oldest.map(|at| self.held.remove(at));
        }
        self.take(address, Kind::Exclusive, taker, tried);
        if let Some(held) = self.held.last_mut() {
            held.word = word;
        }
    }

    /// Something is written at `address`: gives a bit back if it clears it. Whether it does.
    pub fn clear_bit(
        &mut self,
        bits: Bits,
        (address, size): (u64, u8),
        now: Option<u64>,
        clock: u64,
        sums: &mut Sums,
    ) -> bool {
        let given = self.held.iter().rposition(|h| match h.word {
            Word::Bit(bit) => h.is_bit_at(address) && clears(bits, address, size, bit, now),
            Word::Whole => false,
        });
        if let Some(at) = given {
            self.release(at, clock, sums);
        }
        given.is_some()
    }

    /// The function that the task waits in is left with the next one that it enters.
    pub fn ends_in_next(&mut self) {
        if let Some(last) = self.waiting.last_mut() {
            last.ends_in_next = true;
        }
    }

    /// A function is left: so is one that ended in it.
    pub(super) fn leave_outer(&mut self, clock: u64, sums: &mut Sums) {
        if let Some(outer) = self.waiting.last().filter(|w| w.ends_in_next) {
            let function = outer.reason.function;
            self.leave_wait(function, false, clock, sums);
        }
    }

    /// The bit that was tried last, which is waited for now.
    pub(super) fn tried_bit(&self) -> u64 {
        let last = self.held.iter().rev().find(|h| h.word.is_bit());
        last.map_or(0, |h| h.address)
    }

    /// A bit at `address` was waited for: it is had from here on, whoever set it.
    pub(super) fn had_bit(&mut self, address: u64) {
        let bit = |h: &Held| h.word.is_bit() && h.address == address;
        if let Some(at) = self.held.iter().rposition(bit) {
            let before = self.held.remove(at);
            self.take(address, before.kind, before.taker, before.tried);
            if let Some(held) = self.held.last_mut() {
                held.word = before.word;
            }
        }
    }
}
