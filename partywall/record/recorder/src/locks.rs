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

use crate::delays::Interrupt;
use crate::held::{Kind, Moment, Reason, Sums, Who, NOWHERE};
use crate::hooks::Waits;
use crate::spans::{Course, Tried};
use bits::{near, Word};
use counted::Counted;
use std::sync::atomic::{AtomicU32, Ordering};

/// Locks that a task is thought to hold at most; with more, one was lost sight of.
const DEPTH: usize = 32;

/// The word of a lock of which only who took it is known yet.
const UNKNOWN: u64 = 0;

/// The word of a lock that is waited for, and that nothing was written to yet.
const PENDING: u64 = 1;

/// Functions that wait, one in another, at most; with more, some were lost sight of.
const NESTED: usize = 16;

/// Holds are numbered through, whoever takes the lock.
static TAKEN: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Debug)]
struct Held {
    address: u64,
    number: u32,
    word: Word,
    /// Of a semaphore, its spinlock; 0 of others.
    guard: u64,
    kind: Kind,
    /// The call that took it, and on whose behalf.
    taker: u64,
    by: Who,
    /// For how long it had been held in all, by one after the other, when this task took it;
    /// of one that is shared alone.
    began: u64,
    /// Functions that wait which the task was in when it took it.
    depth: usize,
    own: u64,
    all: u64,
    slept: bool,
    waited: bool,
    /// Nanoseconds asleep with it, and what these are at most.
    asleep: u64,
    at_most: u64,
    course: Course,
    tried: Tried,
    /// Of those asleep with it, those for no lock and with none that was taken later.
    own_asleep: u64,
    /// Its word showed when it was given back.
    unseen: bool,
    /// What the task slept for with it: times and nanoseconds.
    reasons: Vec<(Reason, u64, u64)>,
}

/// A function that waits, and that a task is in.
#[derive(Clone, Debug)]
struct Waiting {
    reason: Reason,
    what: Waits,
    caller: u64,
    counted: Counted,
    /// It is left with the function that is entered next.
    ends_in_next: bool,
    /// The lock that it waits for; 0 for anything else.
    lock: u64,
    /// How that is taken and by whom, if nothing was written to it yet.
    pending: Option<(Kind, u64)>,
    all: u64,
    asleep: u64,
    at_most: u64,
    /// Of that, what others that had the lock are the reason of.
    tried: Tried,
    /// Of that, what no lock was held meanwhile that keeps others out.
    unlocked: u64,
}

/// What is seen when a CPU leaves a task, or goes on with it.
#[derive(Clone, Default, Debug)]
pub struct Seen {
    pub now: Moment,
    /// For how long the lock that the task waits for has been held, by one after the other.
    pub progress: u64,
    /// Somebody who is known has that lock.
    pub had: bool,
    /// If a timer woke the task, when it would run if no CPU had to wait for another one.
    pub due: Option<u64>,
}

/// The locks of one task, in the order in which they were taken, and what it waits in.
#[derive(Clone, Default, Debug)]
pub struct Holder {
    held: Vec<Held>,
    entered: Option<(Kind, u64)>,
    since: u64,
    waiting: Vec<Waiting>,
    /// When it was switched away from.
    out: Option<Seen>,
    /// What it writes next is the word of a lock that it gives back.
    gives: bool,
    /// The spinlock that it takes next is of a semaphore that it gives back.
    ups: bool,
    /// Locks of which it was not seen that they were given back, since one was taken.
    lost: Vec<u64>,
    /// Words of which one may be a lock's that is held, by the lowest bits of their numbers.
    near: u64,
    /// On whose behalf it works.
    pub by: Who,
    /// The timer's interrupt that woke it, since it was left.
    pub woken: Option<Interrupt>,
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
        if let Some(last) = self.held.iter_mut().rev().find(|h| h.keeps_out()) {
            last.own += passed;
        }
    }

    /// An atomic write to `address` in a lock function.
    pub fn acquire(&mut self, address: u64, clock: u64, sums: &mut Sums) {
        self.settle(clock);
        for lost in self.lost.drain(..) {
            *sums.lost.entry(lost).or_default() += 1;
        }
        // What is written to in no lock function that was entered since is what is waited for.
        let inner = self.waiting.last_mut();
        let pending = inner.filter(|_| self.entered.is_none());
        let entered = match pending.and_then(|w| w.pending.take().map(|pending| (w, pending))) {
            Some((waiting, pending)) => {
                waiting.lock = address;
                waiting.reason.at = address;
                Some(pending)
            }
            None => self.entered.take(),
        };
        let before = self.held.iter().position(|h| h.is_at(address));
        let (kind, taker, tried) = match (entered, before) {
            // Tried again, by the same function or another: it was not had before.
            (_, Some(at)) => {
                let before = self.held.remove(at);
                let (kind, taker) = entered.unwrap_or((before.kind, before.taker));
                (kind, taker, before.tried)
            }
            (Some((kind, taker)), None) => (kind, taker, Tried::default()),
            (None, None) => return,
        };
        self.take(address, kind, taker, tried);
        self.begin(address, sums);
    }

    /// A shared lock is had from here on.
    fn begin(&mut self, address: u64, sums: &Sums) {
        let shared = |h: &&mut Held| h.address == address && h.kind == Kind::Shared;
        if let Some(held) = self.held.iter_mut().find(shared) {
            held.began = sums.of.get(&address).map_or(0, |sum| sum.progress);
        }
    }

    fn take(&mut self, address: u64, kind: Kind, taker: u64, tried: Tried) {
        if self.held.len() == DEPTH {
            let bit = self.held.iter().position(|h| h.word.is_bit());
            self.held.remove(bit.unwrap_or(0));
        }
        self.near |= near(address);
        self.held.push(Held {
            address,
            number: TAKEN.fetch_add(1, Ordering::Relaxed),
            word: Word::Whole,
            guard: 0,
            kind,
            taker,
            by: self.by,
            began: 0,
            depth: self.waiting.len(),
            own: 0,
            all: 0,
            slept: false,
            waited: false,
            asleep: 0,
            at_most: 0,
            course: Course::default(),
            tried,
            own_asleep: 0,
            unseen: address == UNKNOWN,
            reasons: Vec::new(),
        });
    }

    /// A write to `address` outside of lock functions: gives a lock back if it is one's word. Whether it is.
    #[inline(always)]
    pub fn write(&mut self, address: u64, clock: u64, sums: &mut Sums) -> bool {
        let at = self.held.iter().rposition(|h| h.is_at(address));
        if let Some(at) = at {
            self.release(at, clock, sums);
        }
        at.is_some()
    }

    fn release(&mut self, at: usize, clock: u64, sums: &mut Sums) {
        self.settle(clock);
        let held = self.held.remove(at);
        self.look_again();
        let awake = held.all * sums.instruction_ns;
        held.count(awake, sums);
        held.tell(awake, &mut sums.spans);
        let hold = sums.hold(held.address, held.taker, held.kind, held.by);
        hold.whose.unseen |= held.unseen;
        hold.instructions += held.all;
        hold.own_asleep += held.own_asleep;
        hold.held.add(awake, held.asleep, held.at_most);
        if held.tried.ns > 0 {
            hold.tried.add(0, held.tried.ns, held.tried.ns);
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

    /// A function that waits is entered, called at `caller`.
    pub fn enter_wait(&mut self, function: u16, caller: u64, what: Waits, clock: u64) {
        self.settle(clock);
        if self.waiting.len() == NESTED {
            self.waiting.clear();
        }
        if let Some(outer) = self.waiting.last_mut() {
            outer.queues();
        }
        // Kernels that check locks try only here.
        let tried = what == Waits::ForTried;
        let pending = if tried { self.entered.take() } else { None };
        let lock = match self.held.iter().rev().find(|h| !h.word.is_bit()) {
            _ if what == Waits::ForBit => self.tried_bit(),
            _ if !tried => 0,
            _ if pending.is_some() => PENDING,
            Some(last) => last.address,
            None => 0,
        };
        let at = match what {
            Waits::ForTried | Waits::ForBit | Waits::ForCount => lock,
            _ => caller,
        };
        self.waiting.push(Waiting {
            reason: Reason { function, at },
            what,
            caller,
            counted: Counted::default(),
            ends_in_next: false,
            lock,
            pending,
            all: 0,
            asleep: 0,
            at_most: 0,
            tried: Tried::default(),
            unlocked: 0,
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
        let whole = &self.waiting[at];
        // What waits for others before it takes a lock is two waits.
        if self.waiting[..at].iter().all(|w| w.what == Waits::ForOwn) {
            let charged = self.by == Who::THREAD;
            let wait = sums.waits.entry((whole.reason, charged)).or_default();
            let awake = whole.all * sums.instruction_ns;
            wait.times.add(awake, whole.asleep, whole.at_most);
            wait.unlocked += whole.unlocked;
        }
        let whole = whole.clone();
        self.waiting.truncate(at);
        if whole.lock != 0 {
            self.begin(whole.lock, sums);
        }
        for held in &mut self.held {
            held.depth = held.depth.min(at);
        }
        match whole.what {
            Waits::ForBit => self.had_bit(whole.lock),
            Waits::ForCount => self.counted(&whole),
            _ if takes => self.take(UNKNOWN, Kind::Exclusive, whole.caller, whole.tried),
            _ => {}
        }
        self.leave_outer(clock, sums);
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
    pub fn switch_out(&mut self, clock: u64, now: Option<Seen>) {
        self.settle(clock);
        for held in &mut self.held {
            held.slept = true;
        }
        if now.is_some() {
            self.out = now;
            self.woken = None;
        }
    }

    /// A CPU whose clock stands at `clock` goes on with this task. `now`: if that counts.
    pub fn switch_in(&mut self, clock: u64, now: Option<Seen>, instruction_ns: u64) {
        self.since = clock;
        let (out, seen) = match (self.out.take(), now) {
            (Some(out), Some(seen)) => (out, seen),
            _ => return,
        };
        let slept = self.slept(&out, &seen, instruction_ns);
        let passed = seen.now.passed(&out.now);
        let trying = self.trying();
        let keeps_out = |h: &&mut Held| h.keeps_out() && trying != Some(h.address);
        let locked = match self.held.iter_mut().rev().find(keeps_out) {
            Some(last) if trying.is_none() => {
                last.own_asleep += slept;
                true
            }
            last => last.is_some(),
        };
        let (left, back) = (out.now.ns, seen.now.ns);
        for held in &mut self.held {
            if trying == Some(held.address) {
                held.tried.sleep(slept, left, back);
                continue;
            }
            held.course.sleep(left, back, held.all * instruction_ns);
            held.asleep += slept;
            held.at_most += passed;
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
        let mut inner = None;
        for waiting in self.waiting.iter_mut().rev() {
            waiting.asleep += slept;
            waiting.at_most += passed;
            if !locked {
                waiting.unlocked += slept;
            }
            if inner != Some(Waits::ForTime) || waiting.what == Waits::ForCount {
                waiting.tried.sleep(slept, left, back);
            }
            inner = Some(waiting.what);
        }
    }

    /// The task is in user code: what it seems to hold was lost sight of.
    pub fn clear(&mut self) {
        let lost = self.held.drain(..).map(|h| h.address);
        self.lost.extend(lost);
        self.near = 0;
        self.waiting.clear();
        self.entered = None;
        self.out = None;
        self.gives = false;
        self.ups = false;
    }
}

#[path = "locks_bits.rs"]
mod bits;

#[path = "locks_counted.rs"]
mod counted;

#[path = "locks_sleep.rs"]
mod sleep;

#[cfg(test)]
#[path = "locks_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "locks_bits_tests.rs"]
mod bits_tests;

#[cfg(test)]
#[path = "locks_sleep_tests.rs"]
mod sleep_tests;
