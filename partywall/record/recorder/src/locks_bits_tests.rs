// SPDX-License-Identifier: GPL-2.0-or-later
//! Locks that are one bit, and semaphores: who has them, from when to when.

use super::tests::{at, seen, take, LOCK, TAKER};
use super::*;
use crate::bits::Bits;
use crate::held::Hold;

const SITE: u64 = 0xffff_ffff_8100_0200;
const CLEARS_FIVE: Bits = Bits::Clear(Some(1 << 5));

fn only(sums: &Sums) -> &Hold {
    assert_eq!(sums.holds.len(), 1);
    sums.holds.values().next().unwrap()
}

#[test]
fn a_bit_is_held_until_it_is_cleared_and_not_until_others_are() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    h.set_bit(0x10, Some(5), SITE, 100);
    assert!(h.has_bit(0x17) && !h.has_bit(0x18));
    for (bits, place, now) in [
        (Bits::Clear(Some(1 << 9)), (0x10, 8), Some(0x20)),
        (Bits::Clear(Some(1 << 5)), (0x11, 1), Some(0x20)), // bit 13
        (Bits::Store, (0x10, 8), Some(0x220)),
        (Bits::Store, (0x10, 8), None),
        (Bits::Other, (0x10, 8), Some(0)),
    ] {
        assert!(!h.clear_bit(bits, place, now, 120, &mut sums));
    }
    assert!(h.clear_bit(CLEARS_FIVE, (0x10, 1), Some(0), 150, &mut sums));
    assert!(!h.holds());
    assert_eq!((only(&sums).held.times, only(&sums).instructions), (1, 50));
    // It is told by itself: whoever fails to get a bit keeps nobody out.
    assert!(sums.of.is_empty());
    assert_eq!(sums.done(0x10), 100);
}

#[test]
fn what_is_stored_gives_a_bit_back_if_it_is_clear_then() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    h.set_bit(0x10, Some(5), SITE, 100);
    assert!(h.clear_bit(Bits::Store, (0x10, 8), Some(0), 130, &mut sums));
    assert_eq!(only(&sums).instructions, 30);
}

#[test]
fn who_does_not_get_a_bit_is_said_to_hold_nothing() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    h.set_bit(0x10, Some(5), SITE, 100);
    assert_eq!(h.exclusive().count(), 0);
    // A lock before it has all its time, and one after it too.
    take(&mut h, Kind::Exclusive, 0x40, 110);
    h.write(0x40, 140, &mut sums);
    assert_eq!(sums.of[&0x40].own, 30);
    h.clear();
    assert!(!h.has_bit(0x10));
    assert_eq!(sums.holds.len(), 1);
}

#[test]
fn a_bit_that_is_tried_again_is_held_from_the_last_time_on() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    h.set_bit(0x10, Some(5), SITE, 100);
    h.set_bit(0x10, Some(5), SITE + 4, 150);
    h.clear_bit(CLEARS_FIVE, (0x10, 1), Some(0), 160, &mut sums);
    assert_eq!(only(&sums).instructions, 10);
    assert!(sums.holds.keys().all(|key| key.1 == SITE + 4));
}

#[test]
fn two_bits_of_a_word_are_two_locks() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    h.set_bit(0x10, Some(5), SITE, 100);
    h.set_bit(0x10, Some(6), SITE, 110);
    let six = Bits::Clear(Some(1 << 6));
    assert!(h.clear_bit(six, (0x10, 1), Some(0x20), 120, &mut sums));
    assert!(h.has_bit(0x10));
    assert!(h.clear_bit(CLEARS_FIVE, (0x10, 1), Some(0), 130, &mut sums));
}

#[test]
fn a_bit_whose_number_is_in_a_register_ends_with_what_clears_one() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    h.set_bit(0x10, None, SITE, 100);
    assert!(!h.clear_bit(Bits::Store, (0x10, 8), Some(0), 110, &mut sums));
    assert!(!h.clear_bit(Bits::Clear(Some(3)), (0x10, 8), Some(0), 110, &mut sums));
    assert!(h.clear_bit(Bits::Clear(None), (0x10, 8), Some(0), 120, &mut sums));
    assert_eq!(only(&sums).instructions, 20);
}

#[test]
fn who_slept_for_a_bit_has_it_from_then_on_though_another_one_set_it() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    h.set_bit(0x10, Some(5), SITE, 100); // fails
    h.enter_wait(LOCK, SITE, Waits::ForBit, 105);
    // Another function does it, and both are left at once.
    h.ends_in_next();
    h.enter_wait(LOCK + 1, SITE, Waits::Other, 106);
    assert_eq!(h.trying(), Some(0x10));
    h.switch_out(110, Some(at(1_000)));
    h.switch_in(500, Some(at(9_000)), 2);
    h.leave_wait(LOCK + 1, false, 510, &mut sums);
    assert_eq!(h.trying(), None);
    h.clear_bit(CLEARS_FIVE, (0x10, 1), Some(0), 540, &mut sums);
    let hold = only(&sums);
    assert_eq!((hold.instructions, hold.held.asleep), (30, 0));
    assert_eq!((hold.tried.times, hold.tried.ns), (1, 8_000));
}

#[test]
fn many_bits_that_are_never_given_back_crowd_out_no_lock() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    take(&mut h, Kind::Exclusive, 0x40, 100);
    for n in 0..99 {
        h.set_bit(0x1000 + 8 * n, Some(0), SITE, 110);
    }
    assert_eq!(h.exclusive().collect::<Vec<_>>(), [0x40]);
    assert!(h.write(0x40, 120, &mut sums));
}

/// `down()`: its spinlock at 0x10, its count at 0x14.
fn down(h: &mut Holder, clock: u64, had: bool) {
    h.enter_wait(LOCK, TAKER, Waits::ForCount, clock);
    take(h, Kind::Exclusive, 0x10, clock);
    h.count(0x14, false);
    if had {
        h.count(0x14, true);
    }
}

fn up(h: &mut Holder, clock: u64, sums: &mut Sums) {
    h.upping();
    take(h, Kind::Exclusive, 0x10, clock);
    h.up(0x10, clock, sums);
    h.write(0x10, clock, sums);
}

#[test]
fn a_semaphore_is_held_from_its_count_to_its_spinlock() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    down(&mut h, 100, true);
    h.leave_wait(LOCK, false, 110, &mut sums);
    h.write(0x10, 111, &mut sums);
    // One that is given back by somebody else, and its spinlock alone, are none of it.
    take(&mut h, Kind::Exclusive, 0x10, 120);
    h.up(0x10, 120, &mut sums);
    h.write(0x10, 121, &mut sums);
    assert_eq!(h.exclusive().collect::<Vec<_>>(), [0x14]);
    up(&mut h, 160, &mut sums);
    assert!(!h.holds());
    assert_eq!(sums.of[&0x14].all, 50);
    assert!(sums.holds.keys().any(|key| key.0 == 0x14 && key.1 == TAKER));
}

#[test]
fn a_semaphore_that_is_slept_for_is_had_though_nobody_counts_it() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    down(&mut h, 100, false);
    h.enter_wait(LOCK + 1, TAKER, Waits::Other, 104);
    h.enter_wait(LOCK + 2, TAKER, Waits::ForTime, 105);
    assert_eq!(h.trying(), Some(0x14));
    h.write(0x10, 106, &mut sums);
    h.switch_out(110, Some(seen(1_000, 0)));
    h.switch_in(500, Some(seen(9_000, 8_000)), 2);
    h.leave_wait(LOCK + 1, false, 510, &mut sums);
    h.leave_wait(LOCK, false, 520, &mut sums);
    up(&mut h, 560, &mut sums);
    let (_, hold) = sums.holds.iter().find(|(key, _)| key.0 == 0x14).unwrap();
    assert_eq!((hold.instructions, hold.held.asleep), (40, 0));
    assert_eq!((hold.tried.times, hold.tried.ns), (1, 8_000));
}

#[test]
fn a_semaphore_that_is_tried_in_vain_is_not_had() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    down(&mut h, 100, false);
    h.write(0x10, 105, &mut sums);
    h.leave_wait(LOCK, false, 110, &mut sums);
    assert!(!h.holds());
}

#[test]
fn a_write_that_gives_a_lock_back_is_looked_at_and_most_others_are_not() {
    let (mut h, mut sums) = (Holder::default(), Sums::new(2));
    assert!(!h.may_give(0x10));
    take(&mut h, Kind::Exclusive, 0x10, 100);
    h.set_bit(0x28, Some(5), SITE, 100);
    take(&mut h, Kind::Exclusive, 0x41, 100);
    // Anywhere in the bit's word, and of the others at their addresses.
    for (address, may) in [
        (0x10, true),
        (0x18, false),
        (0x2f, true),
        (0x30, false),
        (0x41, true),
    ] {
        assert_eq!(h.may_give(address), may, "{:x}", address);
    }
    h.write(0x41, 110, &mut sums);
    assert!(h.may_give(0x10) && h.may_give(0x28) && !h.may_give(0x41));
    h.clear();
    assert!(!h.may_give(0x10) && !h.may_give(0x28));
    // One whose word shows when it is given back.
    take(&mut h, Kind::Exclusive, UNKNOWN, 120);
    h.giving();
    h.give(0x60);
    assert!(h.may_give(0x60));
}
