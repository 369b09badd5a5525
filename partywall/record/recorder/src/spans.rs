// SPDX-License-Identifier: GPL-2.0-or-later
//! From when to when locks were had by who slept with them, and slept for: what a picture
//! of who waits behind whom needs, and sums don't tell.

use crate::held::Reason;
use std::cmp::Reverse;

/// Times that are kept, the longest ones.
const MOST: usize = 4096;

/// One time that a lock was had with sleep in it, or slept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Of the lock's word.
    pub address: u64,
    /// By the guest's clock, nanoseconds.
    pub from: u64,
    pub to: u64,
    /// `u32::MAX`: a kernel thread in charged work.
    pub cpu: u32,
    /// It was slept for, and not had.
    pub wanted: bool,
    pub shared: bool,
    /// The call that took it.
    pub taker: u64,
    /// What was slept for longest with it.
    pub reason: Reason,
}

impl Span {
    /// What a recording has of it.
    pub fn words(&self) -> [u64; 8] {
        [
            self.address,
            self.taker,
            self.shared as u64 | ((self.cpu == u32::MAX) as u64) << 1 | (self.wanted as u64) << 2,
            self.cpu as u64,
            self.from,
            self.to,
            self.reason.function as u64,
            self.reason.at,
        ]
    }
}

/// The longest ones. Of equal length those that are less by all else, so that two runs
/// keep the same.
#[derive(Default)]
pub struct Spans(Vec<Span>);

impl Spans {
    pub fn add(&mut self, span: Span) {
        self.0.push(span);
        if self.0.len() == 2 * MOST {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let length = |one: &Span| one.to.saturating_sub(one.from);
        self.0
            .sort_unstable_by_key(|one| (Reverse(length(one)), *one));
        self.0.truncate(MOST);
    }

    /// Those of locks that are `listed`, by lock and time.
    pub fn kept(&self, listed: impl Fn(u64) -> bool) -> Vec<Span> {
        let of = self.0.iter().copied().filter(|one| listed(one.address));
        let mut kept = Spans(of.collect());
        kept.trim();
        kept.0.sort_unstable();
        kept.0
    }
}

/// From when to when something lasts that has sleep in it. The clock is read when a task is left
/// and when a CPU goes on with it; what it runs before and after is instructions.
#[derive(Clone, Copy, Default, Debug)]
pub struct Course {
    from: u64,
    back: u64,
    awake: u64,
    slept: bool,
}

impl Course {
    /// The task slept from `out` to `back`. `awake`: nanoseconds that it was awake in all
    /// since it began.
    pub fn sleep(&mut self, out: u64, back: u64, awake: u64) {
        if !self.slept {
            self.from = out.saturating_sub(awake);
        }
        (self.back, self.awake, self.slept) = (back, awake, true);
    }

    /// From when to when, if it ends now; None if nobody slept.
    pub fn end(&self, awake: u64) -> Option<(u64, u64)> {
        let after = awake.saturating_sub(self.awake);
        self.slept.then(|| (self.from, self.back + after))
    }
}

/// Sleep for a lock that is not had yet.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tried {
    pub ns: u64,
    /// Nobody is awake in it but to try again.
    pub course: Course,
}

impl Tried {
    pub fn sleep(&mut self, ns: u64, out: u64, back: u64) {
        self.ns += ns;
        self.course.sleep(out, back, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::NOWHERE;

    fn span(address: u64, from: u64, to: u64) -> Span {
        Span {
            address,
            from,
            to,
            cpu: 3,
            wanted: false,
            shared: true,
            taker: 0x77,
            reason: NOWHERE,
        }
    }

    #[test]
    fn a_course_begins_before_the_first_sleep_and_ends_after_the_last() {
        let mut course = Course::default();
        assert_eq!(course.end(500), None);
        course.sleep(1_000, 3_000, 200);
        course.sleep(3_500, 9_000, 700);
        assert_eq!(course.end(800), Some((800, 9_100)));
    }

    #[test]
    fn the_longest_ones_are_kept_in_the_order_of_time() {
        let mut spans = Spans::default();
        for at in 0..3 * MOST as u64 {
            spans.add(span(0x10, at, at + at % 2));
        }
        spans.add(span(0x10, 7, 5_000));
        spans.add(span(0x20, 1, 9_000));
        let kept = spans.kept(|address| address == 0x10);
        assert_eq!(kept.len(), MOST);
        assert!(kept.contains(&span(0x10, 7, 5_000)));
        assert!(kept.windows(2).all(|two| two[0] < two[1]));
        let short = kept.iter().filter(|one| one.to == one.from).count();
        assert_eq!(short, 0);
    }

    #[test]
    fn a_kernel_thread_and_who_waits_are_told_by_bits() {
        let mut one = span(0x10, 1, 2);
        assert_eq!(one.words()[2..4], [1, 3]);
        one.wanted = true;
        one.cpu = u32::MAX;
        assert_eq!(one.words()[2..4], [7, u32::MAX as u64]);
    }
}
