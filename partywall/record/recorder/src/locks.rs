// SPDX-License-Identifier: GPL-2.0-or-later
//! Which locks a task holds, for how long, and what it sleeps for meanwhile.
//!
//! Registers can't be seen, so a lock is known by what a lock function does: the
//! first atomic access after its entry is to the lock's word, and the next write
//! to that word by the holder, from outside of any lock function, gives it back. The
//! word of a percpu_rw_semaphore, which others may take for a task, is known from what
//! is written when it is given back.
//! A task that is switched away from sleeps in the functions that it has entered
//! and not left; to a lock that it holds what counts is the first of these that
//! it entered since it has that lock.

use crate::held::{Kind, Moment, Reason, Sums, Times, NOWHERE};

/// Locks that a task is thought to hold at most; with more, one was lost sight of.
const DEPTH: usize = 32;

/// The word of a lock of which only who took it is known yet.
const UNKNOWN: u64 = 0;

/// Functions that wait, one in another, at most; with more, some were lost sight of.
const NESTED: usize = 16;

#[derive(Clone, Debug)]
struct Held {
    address: u64,
    kind: Kind,
    /// The call that took it, and whether in charged work of a kernel thread.
    taker: u64,
    charged: bool,
    /// Functions that wait which the task was in when it took it.
    depth: usize,
    own: u64,
    all: u64,
    slept: bool,
    waited: bool,
    /// Nanoseconds asleep with it, and for it.
    asleep: u64,
    tried: u64,
    /// What the task slept for with it: times and nanoseconds.
    reasons: Vec<(Reason, u64, u64)>,
}

/// A function that waits, and that a task is in.
#[derive(Clone, Debug)]
struct Waiting {
    reason: Reason,
    /// The lock that it waits for; 0 for anything else.
    lock: u64,
    all: u64,
    asleep: u64,
}

/// The locks of one task, in the order in which they were taken, and what it waits in.
#[derive(Clone, Default, Debug)]
pub struct Holder {
    held: Vec<Held>,
    entered: Option<(Kind, u64)>,
    since: u64,
    waiting: Vec<Waiting>,
    /// When it was switched away from.
    out: Option<Moment>,
    /// What it writes next is the word of a lock that it gives back.
    gives: bool,
    /// What it does is charged work of a kernel thread.
    pub charged: bool,
}

impl Holder {
    #[inline(always)]
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// A lock function is entered, which was called at `taker`.
    pub fn enter(&mut self, kind: Kind, taker: u64) {
        self.entered = Some((kind, taker));
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
        for waiting in &mut self.waiting {
            waiting.all += passed;
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
        let (kind, taker, tried) = match (entered, before) {
            // Tried again, by the same function or another: it was not had before.
            (_, Some(at)) => {
                let before = self.held.remove(at);
                let (kind, taker) = entered.unwrap_or((before.kind, before.taker));
                (kind, taker, before.tried)
            }
            (Some((kind, taker)), None) => (kind, taker, 0),
            (None, None) => return,
        };
        self.take(address, kind, taker, tried);
    }

    fn take(&mut self, address: u64, kind: Kind, taker: u64, tried: u64) {
        if self.held.len() == DEPTH {
            self.held.remove(0);
        }
        self.held.push(Held {
            address,
            kind,
            taker,
            charged: self.charged,
            depth: self.waiting.len(),
            own: 0,
            all: 0,
            slept: false,
            waited: false,
            asleep: 0,
            tried,
            reasons: Vec::new(),
        });
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
            }
        }
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
        let sum = sums.of.entry(held.address).or_default();
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
        let ns = held.all * sums.instruction_ns + held.asleep;
        let hold = sums.hold(held.address, held.taker, held.kind, held.charged);
        hold.instructions += held.all;
        hold.held.add(ns, held.asleep);
        if held.tried > 0 {
            hold.tried.add(held.tried, held.tried);
        }
        for (reason, times, ns) in held.reasons {
            let spell = hold.reasons.entry(reason).or_default();
            spell.0 += times;
            spell.1 += ns;
        }
    }

    /// The task waits for a grace period of RCU.
    pub fn wait(&mut self) {
        for held in &mut self.held {
            held.waited = true;
        }
    }

    /// A function that waits is entered, called at `caller`; `for_lock`: for the lock that
    /// the task has just tried to take.
    pub fn enter_wait(&mut self, function: u16, caller: u64, for_lock: bool, clock: u64) {
        self.settle(clock);
        if self.waiting.len() == NESTED {
            self.waiting.clear();
        }
        let lock = match self.held.last() {
            Some(last) if for_lock => last.address,
            _ => 0,
        };
        let at = if lock == 0 { caller } else { lock };
        self.waiting.push(Waiting {
            reason: Reason { function, at },
            lock,
            all: 0,
            asleep: 0,
        });
    }

    /// That function is left, and all that were entered in it. `takes`: whoever called it has
    /// a lock now.
    pub fn leave_wait(&mut self, function: u16, takes: bool, clock: u64, sums: &mut Sums) {
        let inner = |w: &Waiting| w.reason.function == function;
        let at = match self.waiting.iter().rposition(inner) {
            Some(at) => at,
            None => return,
        };
        self.settle(clock);
        if at == 0 {
            let whole = &self.waiting[0];
            let ns = whole.all * sums.instruction_ns + whole.asleep;
            let times: &mut Times = sums.waits.entry(whole.reason).or_default();
            times.add(ns, whole.asleep);
        }
        let (caller, tried) = (self.waiting[at].reason.at, self.waiting[at].asleep);
        self.waiting.truncate(at);
        for held in &mut self.held {
            held.depth = held.depth.min(at);
        }
        if takes {
            self.take(UNKNOWN, Kind::Exclusive, caller, tried);
        }
    }

    /// Whether it counts how long it sleeps that is switched away from here.
    pub fn goes_out(&self) -> bool {
        // The switch has many steps.
        self.out.is_none() && !(self.held.is_empty() && self.waiting.is_empty())
    }

    /// Whether it counts for how long it has slept.
    pub fn is_out(&self) -> bool {
        self.out.is_some()
    }

    /// The CPU goes on with another task. `now`: if it counts.
    pub fn switch_out(&mut self, clock: u64, now: Option<Moment>) {
        self.settle(clock);
        for held in &mut self.held {
            held.slept = true;
        }
        if now.is_some() {
            self.out = now;
        }
    }

    /// A CPU whose clock stands at `clock` goes on with this task. `now`: if that counts.
    pub fn switch_in(&mut self, clock: u64, now: Option<Moment>, instruction_ns: u64) {
        self.since = clock;
        let (out, now) = match (self.out.take(), now) {
            (Some(out), Some(now)) => (out, now),
            _ => return,
        };
        let slept = now.since(&out, instruction_ns);
        let trying = self.waiting.iter().rev().find(|w| w.lock != 0);
        let trying = trying.map(|w| w.lock);
        for held in &mut self.held {
            if trying == Some(held.address) {
                held.tried += slept;
                continue;
            }
            held.asleep += slept;
            let (reason, first) = match self.waiting.get(held.depth) {
                Some(waiting) => (waiting.reason, waiting.asleep == 0),
                None => (NOWHERE, true),
            };
            match held.reasons.iter_mut().find(|known| known.0 == reason) {
                Some(known) => {
                    known.1 += first as u64;
                    known.2 += slept;
                }
                None => held.reasons.push((reason, 1, slept)),
            }
        }
        for waiting in &mut self.waiting {
            waiting.asleep += slept;
        }
    }

    /// The task is in user code: what it seems to hold was lost sight of.
    pub fn clear(&mut self) {
        self.held.clear();
        self.waiting.clear();
        self.entered = None;
        self.out = None;
        self.gives = false;
    }
}

#[cfg(test)]
#[path = "locks_tests.rs"]
mod tests;
