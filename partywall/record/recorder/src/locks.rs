// SPDX-License-Identifier: GPL-2.0-or-later
//! Which locks a task holds, and for how many instructions.
//!
//! Registers can't be seen, so a lock is known by what a lock function does: the
//! first atomic access after its entry is to the lock's word, and the next write
//! to that word by the holder, from outside of any lock function, gives it back.

use std::collections::HashMap;

/// Locks that a task is thought to hold at most; with more, one was lost sight of.
const DEPTH: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Exclusive,
    Shared,
}

#[derive(Clone, Debug)]
struct Held {
    address: u64,
    kind: Kind,
    own: u64,
    all: u64,
    slept: bool,
    waited: bool,
}

/// Times one lock was held, in the windows of all CPUs together.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Sum {
    pub exclusive: u64,
    pub shared: u64,
    /// Instructions run while it was held exclusively and nothing was taken after it.
    pub own: u64,
    /// Instructions run while it was held exclusively.
    pub all: u64,
    /// Of the exclusive times, those in which the holder was switched away from.
    pub slept: u64,
    /// Of the exclusive times, those in which the holder waited for RCU.
    pub waited: u64,
}

pub type Sums = HashMap<u64, Sum>;

/// The locks of one task, in the order in which they were taken.
#[derive(Clone, Default, Debug)]
pub struct Holder {
    held: Vec<Held>,
    entered: Option<Kind>,
    since: u64,
}

impl Holder {
    #[inline(always)]
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// A lock function is entered.
    pub fn enter(&mut self, kind: Kind) {
        self.entered = Some(kind);
    }

    /// Whether the next atomic access in a lock function is to its lock.
    #[inline(always)]
    pub fn expects(&self) -> bool {
        self.entered.is_some()
    }

    /// Time up to `clock` goes to the locks that were held until then.
    fn settle(&mut self, clock: u64) {
        let passed = clock.wrapping_sub(self.since);
        self.since = clock;
        for held in &mut self.held {
            held.all += passed;
        }
        // What is shared keeps nobody out: the time belongs to the lock before it.
        let exclusive = |h: &&mut Held| h.kind == Kind::Exclusive;
        if let Some(last) = self.held.iter_mut().rev().find(exclusive) {
            last.own += passed;
        }
    }

    /// An atomic write to `address` in a lock function.
    pub fn acquire(&mut self, address: u64, clock: u64) {
        self.settle(clock);
        let entered = self.entered.take();
        let before = self.held.iter().position(|h| h.address == address);
        let kind = match (entered, before) {
            // Tried again, by the same function or another: it was not had before.
            (_, Some(at)) => entered.unwrap_or(self.held.remove(at).kind),
            (Some(kind), None) => kind,
            (None, None) => return,
        };
        self.held.retain(|h| h.address != address);
        if self.held.len() == DEPTH {
            self.held.remove(0);
        }
        self.held.push(Held {
            address,
            kind,
            own: 0,
            all: 0,
            slept: false,
            waited: false,
        });
    }

    /// A write to `address` outside of lock functions: gives a lock back if it is one's word.
    #[inline(always)]
    pub fn write(&mut self, address: u64, clock: u64, sums: &mut Sums) {
        if let Some(at) = self.held.iter().rposition(|h| h.address == address) {
            self.release(at, clock, sums);
        }
    }

    fn release(&mut self, at: usize, clock: u64, sums: &mut Sums) {
        self.settle(clock);
        let held = self.held.remove(at);
        let sum = sums.entry(held.address).or_default();
        match held.kind {
            Kind::Shared => sum.shared += 1,
            Kind::Exclusive => {
                sum.exclusive += 1;
                sum.own += held.own;
                sum.all += held.all;
                sum.slept += held.slept as u64;
                sum.waited += held.waited as u64;
            }
        }
    }

    /// The task waits for a grace period of RCU.
    pub fn wait(&mut self) {
        for held in &mut self.held {
            held.waited = true;
        }
    }

    /// The CPU goes on with another task.
    pub fn switch_out(&mut self, clock: u64) {
        self.settle(clock);
        for held in &mut self.held {
            held.slept = true;
        }
    }

    /// A CPU whose clock stands at `clock` goes on with this task.
    pub fn switch_in(&mut self, clock: u64) {
        self.since = clock;
    }

    /// The task is in user code: what it seems to hold was lost sight of.
    pub fn clear(&mut self) {
        self.held.clear();
        self.entered = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(h: &mut Holder, kind: Kind, address: u64, clock: u64) {
        h.enter(kind);
        h.acquire(address, clock);
    }

    #[test]
    fn time_goes_to_all_that_are_held_and_to_the_last_alone() {
        let (mut h, mut sums) = (Holder::default(), Sums::new());
        take(&mut h, Kind::Exclusive, 0x10, 100);
        take(&mut h, Kind::Exclusive, 0x20, 110);
        h.write(0x99, 112, &mut sums);
        h.write(0x20, 115, &mut sums);
        h.write(0x10, 130, &mut sums);
        assert!(!h.holds());
        assert_eq!((sums[&0x20].own, sums[&0x20].all), (5, 5));
        assert_eq!((sums[&0x10].own, sums[&0x10].all), (25, 30));
        assert_eq!(sums[&0x10].exclusive, 1);
    }

    #[test]
    fn readers_serialise_nobody() {
        let (mut h, mut sums) = (Holder::default(), Sums::new());
        take(&mut h, Kind::Shared, 0x10, 100);
        h.write(0x10, 200, &mut sums);
        assert_eq!((sums[&0x10].shared, sums[&0x10].all), (1, 0));
    }

    #[test]
    fn a_lock_that_had_to_be_tried_again_is_held_from_the_last_time_on() {
        let (mut h, mut sums) = (Holder::default(), Sums::new());
        take(&mut h, Kind::Exclusive, 0x10, 100);
        h.acquire(0x10, 150);
        h.write(0x10, 160, &mut sums);
        assert_eq!(sums[&0x10].all, 10);
    }

    #[test]
    fn a_lock_that_was_waited_for_is_held_from_when_it_was_had() {
        let (mut h, mut sums) = (Holder::default(), Sums::new());
        take(&mut h, Kind::Exclusive, 0x10, 100); // fails, which can't be seen
        h.acquire(0x10, 120); // notes that somebody waits
        h.switch_out(130);
        h.switch_in(500);
        h.acquire(0x10, 510); // has it
        h.acquire(0x10, 520); // nobody waits any more
        h.write(0x10, 600, &mut sums);
        let sum = sums[&0x10];
        assert_eq!((sum.exclusive, sum.all, sum.slept), (1, 80, 0));
    }

    #[test]
    fn a_failed_try_does_not_tell_what_kind_of_lock_comes_next() {
        let (mut h, mut sums) = (Holder::default(), Sums::new());
        take(&mut h, Kind::Shared, 0x10, 100);
        take(&mut h, Kind::Exclusive, 0x10, 200);
        h.acquire(0x90, 205); // no lock of its own
        h.write(0x10, 230, &mut sums);
        assert_eq!((sums[&0x10].exclusive, sums[&0x10].all), (1, 30));
        assert!(!h.holds());
    }

    #[test]
    fn time_under_a_shared_lock_belongs_to_the_lock_before_it() {
        let (mut h, mut sums) = (Holder::default(), Sums::new());
        take(&mut h, Kind::Exclusive, 0x10, 100);
        take(&mut h, Kind::Shared, 0x20, 110);
        h.write(0x20, 150, &mut sums);
        h.write(0x10, 160, &mut sums);
        assert_eq!((sums[&0x10].own, sums[&0x10].all), (60, 60));
    }

    #[test]
    fn only_the_tasks_own_time_counts_and_sleep_is_told() {
        let (mut h, mut sums) = (Holder::default(), Sums::new());
        take(&mut h, Kind::Exclusive, 0x10, 100);
        h.switch_out(110);
        h.switch_in(7000);
        h.wait();
        h.write(0x10, 7005, &mut sums);
        let sum = sums[&0x10];
        assert_eq!((sum.all, sum.slept, sum.waited), (15, 1, 1));
    }

    #[test]
    fn other_atomics_of_a_lock_function_are_no_locks() {
        let (mut h, mut sums) = (Holder::default(), Sums::new());
        take(&mut h, Kind::Exclusive, 0x10, 100);
        h.acquire(0x18, 105);
        h.write(0x18, 110, &mut sums);
        assert!(sums.is_empty());
        h.clear();
        assert!(!h.holds());
    }
}
