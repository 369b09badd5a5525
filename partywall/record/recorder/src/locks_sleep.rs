// SPDX-License-Identifier: GPL-2.0-or-later
//! Which locks of a task keep others out, and how long it sleeps, which depends on what it waits for,
//! and when.

use super::{Held, Holder, Seen, UNKNOWN};
use crate::held::{Kind, Moment, Sums, NOWHERE};
use crate::hooks::Waits;
use crate::spans::{Span, Spans};

impl Held {
    /// Whether it is the lock whose word is at `address`, and not one bit of it.
    pub(super) fn is_at(&self, address: u64) -> bool {
        self.address == address && !self.word.is_bit()
    }

    /// It is had alone, for certain.
    pub(super) fn keeps_out(&self) -> bool {
        self.kind == Kind::Exclusive && !self.word.is_bit()
    }

    /// It is given back after so many nanoseconds awake.
    pub(super) fn count(&self, awake: u64, sums: &mut Sums) {
        let ns = awake + self.asleep;
        if self.word.is_bit() {
            *sums.bits.entry(self.address).or_default() += ns;
            return;
        }
        let sum = sums.of.entry(self.address).or_default();
        match self.kind {
            Kind::Shared => {
                sum.shared += 1;
                sum.progress = sum.progress.max(self.began + ns);
            }
            Kind::Exclusive => {
                sum.exclusive += 1;
                sum.progress += ns;
                sum.own += self.own;
                sum.all += self.all;
                sum.slept += self.slept as u64;
                sum.waited += self.waited as u64;
            }
        }
    }

    /// It is given back: from when to when it was slept for, and had with sleep in it.
    pub(super) fn tell(&self, awake: u64, spans: &mut Spans) {
        let longest = self.reasons.iter().max_by_key(|known| known.2);
        let had = self.course.end(awake);
        let tried = self.tried.course.end(0).filter(|_| self.tried.ns > 0);
        for (course, wanted) in [(tried, true), (had, false)] {
            if let Some((from, to)) = course {
                spans.add(Span {
                    address: self.address,
                    from,
                    to,
                    cpu: self.by.cpu,
                    wanted,
                    shared: self.kind == Kind::Shared,
                    taker: self.taker,
                    reason: longest.filter(|_| !wanted).map_or(NOWHERE, |known| known.0),
                });
            }
        }
    }
}

impl Holder {
    /// The addresses of those that keep others out, in the order in which they were taken.
    pub fn exclusive(&self) -> impl Iterator<Item = u64> + '_ {
        self.certain().map(|h| h.address)
    }

    /// The numbers of their holds.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.certain().map(|h| h.number)
    }

    fn certain(&self) -> impl Iterator<Item = &Held> + '_ {
        let certain = |h: &&Held| h.keeps_out() && h.address != UNKNOWN;
        self.held.iter().filter(certain)
    }

    /// The lock that the task waits for: the innermost one.
    pub fn trying(&self) -> Option<u64> {
        let lock = self.waiting.iter().rev().find(|w| w.lock != 0);
        lock.map(|w| w.lock)
    }

    /// Nanoseconds that the task sleeps between two moments.
    pub(super) fn slept(&self, out: &Seen, seen: &Seen, instruction_ns: u64) -> u64 {
        let passed = seen.now.passed(&out.now);
        let side_by_side = seen.now.side_by_side(&out.now, instruction_ns);
        if self.trying().is_some() {
            // As long as others have the lock, one after the other, if it is known who has it.
            let held = seen.progress.saturating_sub(out.progress);
            let idle = seen.now.idle(&out.now, instruction_ns);
            let least = if out.had { idle } else { side_by_side };
            return held.clamp(least, passed);
        }
        let mut waiting = self.waiting.iter();
        match waiting.find(|w| w.what != Waits::ForOwn) {
            Some(w) if w.what == Waits::ForTime => {
                let due = seen.due.map(|due| due.saturating_sub(out.now.ns));
                due.map_or(passed, |until| until.min(passed))
            }
            _ => side_by_side,
        }
    }

    /// For how long `lock` has been held until `now`, by one after the other and now by this
    /// task, in nanoseconds; None if it does not have it. `done`: until it was last given
    /// back; `clock`: of the CPU that runs the task.
    pub fn progress(
        &self,
        lock: u64,
        done: u64,
        clock: Option<u64>,
        now: &Moment,
        instruction_ns: u64,
    ) -> Option<u64> {
        let held = self.held.iter().find(|h| h.address == lock)?;
        if self.trying() == Some(lock) {
            return None;
        }
        let mut ns = held.all * instruction_ns + held.asleep;
        match (clock, &self.out) {
            (Some(clock), _) => ns += clock.saturating_sub(self.since) * instruction_ns,
            (None, Some(out)) => {
                let seen = Seen {
                    now: now.clone(),
                    ..Seen::default()
                };
                ns += self.slept(out, &seen, instruction_ns);
            }
            (None, None) => {}
        }
        Some(match held.kind {
            Kind::Exclusive => done + ns,
            Kind::Shared => done.max(held.began + ns),
        })
    }
}
