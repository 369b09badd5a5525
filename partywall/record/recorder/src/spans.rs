// SPDX-License-Identifier: GPL-2.0-or-later
//! From when to when locks were had by who slept with them, and slept for: what a picture
//! of who waits behind whom needs, and sums don't tell.

use crate::held::Reason;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Times that are kept of each lock, the longest that it was had and the longest that it was
/// slept for.
const MOST: usize = 64;

/// Times that are kept until then, of all locks; what comes later is left out.
const IN_ALL: usize = 1 << 17;

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

/// The longest ones of each lock. Of equal length those that are less by all else, so that two
/// runs keep the same.
#[derive(Default)]
pub struct Spans {
    /// By the lock's address, and whether it was slept for.
    of: HashMap<(u64, bool), Vec<Span>>,
    count: usize,
}

/// The longest of these.
fn trimmed(spans: &mut Vec<Span>) {
    let length = |one: &Span| one.to.saturating_sub(one.from);
    spans.sort_unstable_by_key(|one| (Reverse(length(one)), *one));
    spans.truncate(MOST);
}

impl Spans {
    pub fn add(&mut self, span: Span) {
        if self.count == IN_ALL {
            return;
        }
        let spans = self.of.entry((span.address, span.wanted)).or_default();
        spans.push(span);
        self.count += 1;
        if spans.len() == 2 * MOST {
            trimmed(spans);
            self.count -= MOST;
        }
    }

    /// Those of locks that are `listed`, by lock and time.
    pub fn kept(&self, listed: impl Fn(u64) -> bool) -> Vec<Span> {
        let mut kept = Vec::new();
        for ((address, _), spans) in &self.of {
            if listed(*address) {
                let mut spans = spans.clone();
                trimmed(&mut spans);
                kept.append(&mut spans);
            }
        }
        kept.sort_unstable();
        kept
    }
}

/// From when to when something lasts that has sleep in it. The clock is read when a task is left
/// and when a CPU goes on with it; before and after, only what it runs itself is known, and what
/// other CPUs run meanwhile is not.
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
    fn of_each_lock_the_longest_ones_are_kept_in_the_order_of_time() {
        let mut spans = Spans::default();
        spans.add(span(0x10, 7, 5_000));
        for at in 0..5 * MOST as u64 {
            spans.add(span(0x10, at, at + at % 3));
            spans.add(span(0x20, at, at + 9_000));
        }
        spans.add(span(0x10, 9_000, 9_000));
        let kept = spans.kept(|address| address == 0x10);
        assert_eq!(kept.len(), MOST);
        assert!(kept.contains(&span(0x10, 7, 5_000)));
        assert!(kept.windows(2).all(|two| two[0] < two[1]));
        assert!(kept.iter().all(|one| one.to - one.from >= 2));
    }

    #[test]
    fn those_who_wait_do_not_crowd_out_those_who_have_it() {
        let mut spans = Spans::default();
        for at in 0..3 * MOST as u64 {
            let mut wait = span(0x10, at, at + 9_000);
            wait.wanted = true;
            spans.add(wait);
            spans.add(span(0x10, at, at + 1));
        }
        let kept = spans.kept(|_| true);
        assert_eq!(kept.len(), 2 * MOST);
        assert_eq!(kept.iter().filter(|one| one.wanted).count(), MOST);
    }

    #[test]
    fn there_is_an_end_to_all() {
        let mut spans = Spans::default();
        for at in 0..IN_ALL as u64 + 9 {
            spans.add(span(at, at, at + 1));
        }
        assert_eq!(spans.kept(|_| true).len(), IN_ALL);
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
