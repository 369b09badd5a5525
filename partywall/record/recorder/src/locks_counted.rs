// SPDX-License-Identifier: GPL-2.0-or-later
//! Semaphores: a count that a spinlock guards. And locks whose word only shows when they are
//! given back.
//!
//! `down()` takes the spinlock and looks at the count. If it writes the count the semaphore is
//! had, and if it has slept for it, whoever gave it did not count it up. `up()` takes the same
//! spinlock, and may write the count or not. So a semaphore is known by its count when it is
//! taken, and by its spinlock when it is given back.

use super::bits::near;
use super::{Holder, Waiting, UNKNOWN};
use crate::held::{Kind, Sums};
use crate::hooks::Waits;

/// The count follows its spinlock within so many bytes, also where locks are checked.
const NEAR: u64 = 128;

/// What is known of a semaphore that a task is about to have.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counted {
    /// Its spinlock's word; 0 if it is not known.
    guard: u64,
    /// Its count was written, or slept for.
    had: bool,
}

impl Waiting {
    /// Another function that waits is entered in it.
    pub(super) fn queues(&mut self) {
        self.counted.had |= self.what == Waits::ForCount && self.lock != 0;
    }
}

impl Holder {
    /// Whether the task is about to take a semaphore.
    pub fn counts(&self) -> bool {
        matches!(self.waiting.last(), Some(w) if w.what == Waits::ForCount)
    }

    /// A function that takes a semaphore reads or writes at `address`.
    pub fn count(&mut self, address: u64, written: bool) {
        let guard = self.held.last().map_or(0, |h| h.address);
        let waiting = match self.waiting.last_mut() {
            Some(w) if w.what == Waits::ForCount => w,
            _ => return,
        };
        let behind = address.wrapping_sub(guard);
        if waiting.lock == 0 && guard != 0 && 0 < behind && behind < NEAR {
            waiting.lock = address;
            waiting.reason.at = address;
            waiting.counted.guard = guard;
        }
        waiting.counted.had |= written && waiting.lock == address;
    }

    /// That function is left.
    pub(super) fn counted(&mut self, whole: &Waiting) {
        if whole.counted.had {
            self.take(whole.lock, Kind::Exclusive, whole.caller, whole.tried);
            if let Some(held) = self.held.last_mut() {
                held.guard = whole.counted.guard;
            }
        }
    }

    /// A function is entered that gives a semaphore back: it takes its spinlock next.
    pub fn upping(&mut self) {
        self.ups = true;
    }

    /// A spinlock is taken: if that is for a semaphore to be given back, it is.
    pub fn up(&mut self, guard: u64, clock: u64, sums: &mut Sums) {
        if std::mem::take(&mut self.ups) {
            if let Some(at) = self.held.iter().rposition(|h| h.guard == guard) {
                self.release(at, clock, sums);
            }
        }
    }
    /// A function is entered that gives a lock back: what it writes first is its word.
    pub fn giving(&mut self) {
        self.gives = true;
    }

    /// That is written: the last lock taken of which the word was not known has it there.
    pub fn give(&mut self, address: u64) {
        if std::mem::take(&mut self.gives) {
            if let Some(held) = self.held.iter_mut().rev().find(|h| h.address == UNKNOWN) {
                held.address = address;
                self.near |= near(address);
            }
        }
    }
}
