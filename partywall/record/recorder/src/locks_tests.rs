// SPDX-License-Identifier: GPL-2.0-or-later
//! Locks of a task: how long they are held, and what it sleeps for.

use super::*;
use crate::held::Times;

pub(super) const TAKER: u64 = 0xffff_ffff_8100_0100;
pub(super) const RCU: u16 = 3;
pub(super) const LOCK: u16 = 4;

pub(super) fn at(ns: u64) -> Seen {
    seen(ns, 0)
}

pub(super) fn seen(ns: u64, progress: u64) -> Seen {
    let now = Moment {
        ns,
        ..Moment::default()
    };
    Seen {
        now,
        progress,
        had: progress > 0,
        ..Seen::default()
    }
}

pub(super) fn take(h: &mut Holder, kind: Kind, address: u64, clock: u64) {
    h.enter(kind, TAKER);
    h.acquire(address, clock, &mut Sums::new(2));
}

#[test]
fn time_goes_to_all_that_are_held_and_to_the_last_alone() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Exclusive, 0x10, 100);
    take(&mut h, Kind::Exclusive, 0x20, 110);
    h.write(0x99, 112, &mut sums);
    h.write(0x20, 115, &mut sums);
    h.write(0x10, 130, &mut sums);
    assert!(!h.holds());
    assert_eq!((sums.of[&0x20].own, sums.of[&0x20].all), (5, 5));
    assert_eq!((sums.of[&0x10].own, sums.of[&0x10].all), (25, 30));
    assert_eq!(sums.of[&0x10].exclusive, 1);
}

#[test]
fn readers_serialise_nobody() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Shared, 0x10, 100);
    h.write(0x10, 200, &mut sums);
    assert_eq!((sums.of[&0x10].shared, sums.of[&0x10].all), (1, 0));
}

#[test]
fn a_lock_that_had_to_be_tried_again_is_held_from_the_last_time_on() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Exclusive, 0x10, 100);
    h.acquire(0x10, 150, &mut sums);
    h.write(0x10, 160, &mut sums);
    assert_eq!(sums.of[&0x10].all, 10);
}

#[test]
fn a_lock_that_was_waited_for_is_held_from_when_it_was_had() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Exclusive, 0x10, 100); // fails, which can't be seen
    h.acquire(0x10, 120, &mut sums); // notes that somebody waits
    h.switch_out(130, Some(at(1_000)));
    h.switch_in(500, Some(at(6_000)), 2);
    h.acquire(0x10, 510, &mut sums); // has it
    h.acquire(0x10, 520, &mut sums); // nobody waits any more
    h.write(0x10, 600, &mut sums);
    let sum = sums.of[&0x10];
    assert_eq!((sum.exclusive, sum.all, sum.slept), (1, 80, 0));
}

#[test]
fn a_failed_try_does_not_tell_what_kind_of_lock_comes_next() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Shared, 0x10, 100);
    take(&mut h, Kind::Exclusive, 0x10, 200);
    h.acquire(0x90, 205, &mut sums); // no lock of its own
    h.write(0x10, 230, &mut sums);
    assert_eq!((sums.of[&0x10].exclusive, sums.of[&0x10].all), (1, 30));
    assert!(!h.holds());
}

#[test]
fn time_under_a_shared_lock_belongs_to_the_lock_before_it() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Exclusive, 0x10, 100);
    take(&mut h, Kind::Shared, 0x20, 110);
    h.write(0x20, 150, &mut sums);
    h.write(0x10, 160, &mut sums);
    assert_eq!((sums.of[&0x10].own, sums.of[&0x10].all), (60, 60));
}

#[test]
fn only_the_tasks_own_time_counts_and_sleep_is_told() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Exclusive, 0x10, 100);
    h.switch_out(110, Some(at(1_000)));
    h.switch_in(7000, Some(at(6_000)), 2);
    h.wait();
    h.write(0x10, 7005, &mut sums);
    let sum = sums.of[&0x10];
    assert_eq!((sum.all, sum.slept, sum.waited), (15, 1, 1));
}

#[test]
fn other_atomics_of_a_lock_function_are_no_locks() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Exclusive, 0x10, 100);
    h.acquire(0x18, 105, &mut sums);
    h.write(0x18, 110, &mut sums);
    assert!(sums.of.is_empty() && sums.holds.is_empty());
    h.clear();
    assert!(!h.holds());
}

#[test]
fn a_lock_that_is_lost_sight_of_often_is_none_that_is_known() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    assert!(!sums.known(0x10));
    for n in 0..200 {
        h.enter(Kind::Exclusive, TAKER);
        h.acquire(0x10, 100 * n, &mut sums);
        h.write(0x10, 100 * n + 10, &mut sums);
    }
    assert!(sums.known(0x10));
    for lost in 1..=4 {
        take(&mut h, Kind::Exclusive, 0x10, 100);
        h.clear();
        // It is known when the next lock is taken.
        h.enter(Kind::Exclusive, TAKER);
        h.acquire(0x20, 100, &mut sums);
        h.write(0x20, 110, &mut sums);
        assert_eq!(sums.lost[&0x10], lost);
        assert_eq!(sums.known(0x10), lost <= 3);
        assert!(sums.known(0x20));
    }
}

/// One acquisition of 0x10: `steps` are what the task does meanwhile.
pub(super) fn held(steps: impl FnOnce(&mut Holder, &mut Sums)) -> crate::held::Hold {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Exclusive, 0x10, 100);
    steps(&mut h, &mut sums);
    h.write(0x10, 200, &mut sums);
    assert!(!h.holds());
    sums.holds
        .remove(&(0x10, TAKER, Kind::Exclusive, false))
        .expect("it is held by who took it")
}

pub(super) fn sleep(h: &mut Holder, clock: u64, from: u64, until: u64) {
    for _ in 0..6 {
        let now = h.goes_out().then(|| at(from));
        h.switch_out(clock, now);
    }
    assert!(h.is_out() && !h.goes_out());
    h.switch_in(clock, Some(at(until)), 2);
    assert!(!h.is_out());
    h.switch_in(clock, None, 2);
}

#[test]
fn sleep_counts_as_time_held_and_has_a_reason() {
    let hold = held(|h, sums| {
        h.enter_wait(RCU, 0x77, Waits::Other, 110);
        h.enter_wait(LOCK, 0x78, Waits::Other, 120);
        sleep(h, 130, 5_000, 9_000);
        h.leave_wait(LOCK, false, 140, sums);
        sleep(h, 150, 10_000, 11_000);
        h.leave_wait(RCU, false, 160, sums);
        // Preempted.
        sleep(h, 170, 20_000, 20_500);
        let reason = Reason {
            function: RCU,
            at: 0x77,
        };
        assert_eq!(sums.waits.len(), 1);
        let wait = sums.waits[&(reason, false)];
        let times = wait.times;
        assert_eq!((times.times, times.slept, times.ns), (1, 1, 5_100));
        assert_eq!(wait.unlocked, 0);
    });
    assert_eq!((hold.held.times, hold.held.slept), (1, 1));
    assert_eq!((hold.instructions, hold.held.asleep), (100, 5_500));
    assert_eq!((hold.held.ns, hold.held.longest), (5_700, 5_700));
    let reason = Reason {
        function: RCU,
        at: 0x77,
    };
    assert_eq!(hold.reasons[&reason], (1, 5_000));
    assert_eq!(hold.reasons[&NOWHERE], (1, 500));
    assert_eq!(hold.tried, Times::default());
}

#[test]
fn who_sleeps_for_a_lock_does_not_hold_it_and_holds_others_for_it() {
    let mut other = None;
    let hold = held(|h, sums| {
        take(h, Kind::Exclusive, 0x20, 110); // fails
        h.enter_wait(LOCK, 0x88, Waits::ForTried, 112);
        take(h, Kind::Exclusive, 0x30, 113); // a lock of the lock's own
        h.write(0x30, 114, sums);
        sleep(h, 120, 1_000, 4_000);
        h.acquire(0x20, 130, sums); // has it
        h.leave_wait(LOCK, false, 132, sums);
        h.enter_wait(RCU, 0x99, Waits::Other, 133);
        sleep(h, 140, 5_000, 5_100);
        h.leave_wait(RCU, false, 141, sums);
        h.write(0x20, 150, sums);
        other = sums.holds.remove(&(0x20, TAKER, Kind::Exclusive, false));
    });
    let other = other.unwrap();
    assert_eq!((other.tried.times, other.tried.ns), (1, 3_000));
    assert_eq!((other.instructions, other.held.asleep), (20, 100));
    let rcu = Reason {
        function: RCU,
        at: 0x99,
    };
    assert_eq!(other.reasons.get(&rcu), Some(&(1, 100)));
    assert_eq!(other.reasons.len(), 1);
    // Of the lock before it both are: it waits for a lock, and that waits for RCU.
    let lock = Reason {
        function: LOCK,
        at: 0x20,
    };
    assert_eq!(hold.reasons[&lock], (1, 3_000));
    assert_eq!(hold.reasons[&rcu], (1, 100));
}

#[test]
fn what_was_entered_before_a_lock_is_no_reason_of_it() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    h.enter_wait(RCU, 0x77, Waits::Other, 10);
    take(&mut h, Kind::Exclusive, 0x10, 100);
    h.enter_wait(LOCK, 0x78, Waits::Other, 110);
    sleep(&mut h, 120, 0, 50);
    h.leave_wait(LOCK, false, 130, &mut sums);
    h.write(0x10, 140, &mut sums);
    let hold = &sums.holds[&(0x10, TAKER, Kind::Exclusive, false)];
    let reason = Reason {
        function: LOCK,
        at: 0x78,
    };
    assert_eq!(hold.reasons.keys().collect::<Vec<_>>(), [&reason]);
}

#[test]
fn without_a_clock_nobody_sleeps_for_any_time() {
    let hold = held(|h, _| sleep(h, 130, 0, 0));
    assert_eq!((hold.held.slept, hold.held.asleep), (0, 0));
}

#[test]
fn a_lock_whose_word_shows_when_it_is_given_back_is_held_from_when_it_was_had() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    h.enter_wait(LOCK, TAKER, Waits::ForOwn, 10);
    sleep(&mut h, 20, 0, 700);
    h.leave_wait(LOCK, true, 30, &mut sums);
    sleep(&mut h, 40, 1_000, 1_300);
    h.give(0x50); // no such function
    h.giving();
    h.give(0x10);
    h.write(0x10, 50, &mut sums);
    h.give(0x60);
    assert!(!h.holds());
    let hold = &sums.holds[&(0x10, TAKER, Kind::Exclusive, false)];
    assert_eq!((hold.instructions, hold.held.ns), (20, 340));
    assert_eq!((hold.tried.times, hold.tried.ns), (1, 700));
    assert_eq!(sums.of[&0x10].exclusive, 1);
}

#[test]
fn what_is_held_in_charged_work_is_apart() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    for by in [Who::default(), Who::THREAD, Who::THREAD] {
        h.by = by;
        take(&mut h, Kind::Exclusive, 0x10, 100);
        h.by = Who::default();
        h.write(0x10, 110, &mut sums);
    }
    let times = |charged| {
        sums.holds[&(0x10, TAKER, Kind::Exclusive, charged)]
            .held
            .times
    };
    assert_eq!((times(false), times(true)), (1, 2));
    assert_eq!(sums.of[&0x10].exclusive, 3);
}
