// SPDX-License-Identifier: GPL-2.0-or-later
//! How long tasks sleep, by what they wait for.

use super::tests::{at, held, sleep, take, LOCK, RCU, TAKER};
use super::*;

/// Two CPUs run for 1,000 nanoseconds each while 3,000 pass, and no other one does.
fn busy(progress: u64) -> [Seen; 2] {
    [(5_000, 0, 0), (8_000, 500, progress)].map(|(ns, ran, progress)| Seen {
        now: Moment {
            ns,
            ran: vec![ran; 2],
        },
        progress,
        had: progress > 0,
        ..Seen::default()
    })
}

fn sleep_busily(h: &mut Holder, clock: u64, progress: u64) {
    let [out, now] = busy(progress);
    h.switch_out(clock, Some(out));
    h.switch_in(clock, Some(now), 2);
}

#[test]
fn sleep_until_a_time_lasts_as_long_as_the_clock_says() {
    for (what, ns) in [(Waits::ForTime, 3_000), (Waits::Other, 2_000)] {
        let hold = held(|h, sums| {
            h.enter_wait(RCU, 0x77, what, 110);
            h.enter_wait(LOCK, 0x78, Waits::Other, 120);
            sleep_busily(h, 130, 0);
            h.leave_wait(RCU, false, 160, sums);
        });
        assert_eq!((hold.held.asleep, hold.held.asleep_at_most), (ns, 3_000));
        assert_eq!(hold.held.longest_slept, 200 + ns);
        assert_eq!(hold.held.longest_at_most, 3_200);
    }
}

#[test]
fn sleep_until_a_time_is_over_when_that_has_come() {
    let hold = held(|h, _| {
        h.enter_wait(RCU, 0x77, Waits::ForTime, 110);
        for due in [7_300, 9_000, 4_000] {
            let [out, mut now] = busy(0);
            now.due = Some(due);
            h.switch_out(130, Some(out));
            h.switch_in(130, Some(now), 2);
        }
    });
    let asleep = 2_300 + 3_000;
    assert_eq!(
        (hold.held.asleep, hold.held.asleep_at_most),
        (asleep, 9_000)
    );
}

#[test]
fn sleep_for_a_lock_lasts_as_long_as_others_have_it_one_after_the_other() {
    // At least as long as all were idle, at most what passed, and a guess if nobody is known
    // who had it in the beginning.
    for (had, progress, ns) in [
        (true, 2_500, 2_500),
        (true, 9_000, 3_000),
        (true, 10, 1_000),
        (false, 0, 2_000),
        (false, 10, 2_000),
        (false, 2_500, 2_500),
    ] {
        let mut tried = 0;
        let hold = held(|h, sums| {
            take(h, Kind::Exclusive, 0x20, 110); // fails
            h.enter_wait(LOCK, 0x88, Waits::ForTried, 112);
            assert_eq!(h.trying(), Some(0x20));
            let [mut out, now] = busy(progress);
            out.had = had;
            h.switch_out(120, Some(out));
            h.switch_in(120, Some(now), 2);
            h.acquire(0x20, 130, sums); // has it
            h.leave_wait(LOCK, false, 132, sums);
            h.write(0x20, 150, sums);
            tried = sums.holds[&(0x20, TAKER, Kind::Exclusive, false)].tried.ns;
        });
        assert_eq!((tried, hold.held.asleep), (ns, ns));
    }
}

#[test]
fn those_who_have_a_lock_bring_it_on_awake_and_asleep() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Exclusive, 0x10, 100);
    let now = &at(9_000).now;
    assert_eq!(h.progress(0x20, 7, Some(150), now, 2), None);
    assert_eq!(h.progress(0x10, 7, Some(150), now, 2), Some(7 + 100));
    h.switch_out(200, Some(at(8_000)));
    assert_eq!(h.progress(0x10, 7, None, now, 2), Some(7 + 200 + 1_000));
    h.switch_in(900, Some(at(8_500)), 2);
    h.write(0x10, 910, &mut sums);
    assert_eq!(sums.of[&0x10].progress, 2 * 110 + 500);
    take(&mut h, Kind::Exclusive, 0x10, 0);
    h.write(0x10, 40, &mut sums);
    assert_eq!(sums.of[&0x10].progress, 720 + 80);
}

#[test]
fn who_waits_for_a_lock_does_not_bring_it_on() {
    let mut h = Holder::default();
    take(&mut h, Kind::Exclusive, 0x10, 100);
    h.enter_wait(LOCK, 0x88, Waits::ForTried, 112);
    assert_eq!(h.progress(0x10, 0, Some(150), &at(0).now, 2), None);
}

#[test]
fn those_who_share_a_lock_bring_it_on_together() {
    let mut sums = Sums::new(2);
    let mut both = [Holder::default(), Holder::default()];
    for (h, clock) in both.iter_mut().zip([0, 10]) {
        take(h, Kind::Shared, 0x10, clock);
    }
    let now = at(0).now;
    assert_eq!(both[0].progress(0x10, 0, Some(30), &now, 2), Some(60));
    both[0].write(0x10, 100, &mut sums);
    both[1].write(0x10, 120, &mut sums);
    assert_eq!(sums.of[&0x10].progress, 2 * 110);
    let h = &mut both[0];
    h.enter(Kind::Shared, TAKER);
    h.acquire(0x10, 200, &mut sums);
    h.write(0x10, 205, &mut sums);
    assert_eq!(sums.of[&0x10].progress, 2 * 115);
}

#[test]
fn a_lock_that_is_first_tried_where_it_is_waited_for_is_the_one() {
    let hold = held(|h, sums| {
        h.enter(Kind::Exclusive, TAKER);
        h.enter_wait(LOCK, 0x88, Waits::ForTried, 112);
        take(h, Kind::Exclusive, 0x28, 113); // the lock's own
        h.write(0x28, 114, sums);
        h.acquire(0x20, 115, sums); // fails
        assert_eq!(h.trying(), Some(0x20));
        sleep(h, 120, 1_000, 4_000);
        h.acquire(0x20, 130, sums);
        h.leave_wait(LOCK, false, 132, sums);
        h.write(0x20, 150, sums);
        let tried = sums.holds[&(0x20, TAKER, Kind::Exclusive, false)].tried;
        assert_eq!((tried.times, tried.ns), (1, 3_000));
    });
    let lock = Reason {
        function: LOCK,
        at: 0x20,
    };
    assert_eq!(hold.reasons[&lock], (1, 3_000));
}

#[test]
fn a_grace_period_on_the_way_to_a_lock_is_no_wait_for_who_has_it() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    h.enter_wait(LOCK, TAKER, Waits::ForOwn, 10);
    h.enter_wait(RCU, 0x78, Waits::ForTime, 10);
    sleep_busily(&mut h, 20, 0);
    h.leave_wait(RCU, false, 21, &mut sums);
    sleep(&mut h, 22, 8_000, 8_100);
    h.leave_wait(LOCK, true, 30, &mut sums);
    h.giving();
    h.give(0x10);
    h.write(0x10, 50, &mut sums);
    let hold = &sums.holds[&(0x10, TAKER, Kind::Exclusive, false)];
    assert_eq!((hold.tried.times, hold.tried.ns), (1, 100));
    let rcu = Reason {
        function: RCU,
        at: 0x78,
    };
    let wait = sums.waits[&(rcu, false)];
    let found = (wait.times.times, wait.times.asleep, wait.unlocked);
    assert_eq!(found, (1, 3_000, 3_000));
}

#[test]
fn sleep_belongs_to_the_last_lock_that_keeps_others_out() {
    let mut inner = None;
    let outer = held(|h, sums| {
        take(h, Kind::Exclusive, 0x20, 110);
        take(h, Kind::Shared, 0x30, 112);
        sleep(h, 120, 1_000, 4_000);
        h.write(0x30, 130, sums);
        h.write(0x20, 130, sums);
        inner = sums.holds.remove(&(0x20, TAKER, Kind::Exclusive, false));
        sleep(h, 140, 5_000, 5_500);
        take(h, Kind::Exclusive, 0x40, 150); // fails
        h.enter_wait(LOCK, 0x88, Waits::ForTried, 152);
        sleep(h, 160, 6_000, 6_900);
        h.acquire(0x40, 170, sums);
        h.leave_wait(LOCK, false, 171, sums);
        h.write(0x40, 172, sums);
    });
    assert_eq!(inner.unwrap().own_asleep, 3_000);
    assert_eq!((outer.held.asleep, outer.own_asleep), (4_400, 500));
}

#[test]
fn it_is_told_when_a_lock_was_slept_for_and_had_with_sleep_in_it() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Exclusive, 0x20, 100); // fails
    h.enter_wait(LOCK, 0x88, Waits::ForTried, 102);
    sleep(&mut h, 110, 1_000, 4_000);
    h.acquire(0x20, 120, &mut sums); // fails again
    sleep(&mut h, 130, 4_100, 6_000);
    h.acquire(0x20, 140, &mut sums);
    h.leave_wait(LOCK, false, 142, &mut sums);
    take(&mut h, Kind::Shared, 0x30, 145); // never slept with
    h.write(0x30, 150, &mut sums);
    h.enter_wait(RCU, 0x78, Waits::ForTime, 152);
    sleep(&mut h, 160, 7_000, 9_000);
    h.leave_wait(RCU, false, 165, &mut sums);
    h.write(0x20, 180, &mut sums);
    let spans = sums.spans.kept(|_| true);
    let times: Vec<_> = spans.iter().map(|s| (s.from, s.to, s.wanted)).collect();
    // Had from twenty instructions before the sleep to twenty after.
    assert_eq!(times, [(1_000, 6_000, true), (6_960, 9_040, false)]);
    assert_eq!(spans[1].reason.function, RCU);
    assert!(spans.iter().all(|s| (s.address, s.taker) == (0x20, TAKER)));
}
