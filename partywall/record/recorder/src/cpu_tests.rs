// SPDX-License-Identifier: GPL-2.0-or-later
//! What a CPU does with locks, and when it is counted.

use super::*;
use crate::event::STORE;

fn cpu(kind: u64) -> Cpu {
    let mut cpu = Cpu::new(Party::new(8, 1, 0, 0, 0), 0, 0x4000);
    cpu.kind = kind;
    cpu
}

/// Takes a lock, works in it, and gives it back.
fn hold(cpu: &mut Cpu, address: u64, sums: &mut Sums) {
    cpu.enter_lock(Kind::Exclusive, 0);
    cpu.wrote(address, true, true, sums);
    cpu.run(30, false);
    cpu.run(500, true);
    cpu.wrote(address, false, false, sums);
}

#[test]
fn locks_are_timed_in_deferred_work_as_in_the_foreground_and_in_no_other() {
    for kind in [kind::FOREGROUND, kind::DEFERRED] {
        let (mut cpu, mut sums) = (cpu(kind), Sums::new(2));
        hold(&mut cpu, 0x10, &mut sums);
        let sum = sums.of[&0x10];
        assert_eq!((sum.exclusive, sum.own, sum.all), (1, 30, 30));
    }
    let (mut cpu, mut sums) = (cpu(kind::BACKGROUND), Sums::new(2));
    hold(&mut cpu, 0x10, &mut sums);
    assert!(sums.of.is_empty());
}

#[test]
fn a_lock_held_over_a_softirq_is_held_for_what_runs_there_and_not_in_an_interrupt() {
    let (mut cpu, mut sums) = (cpu(kind::FOREGROUND), Sums::new(2));
    cpu.enter_lock(Kind::Exclusive, 0);
    cpu.wrote(0x10, true, true, &mut sums);
    cpu.kind = kind::BACKGROUND;
    cpu.run(900, false);
    cpu.kind = kind::DEFERRED;
    hold(&mut cpu, 0x20, &mut sums);
    cpu.kind = kind::FOREGROUND;
    cpu.run(5, false);
    cpu.wrote(0x10, false, false, &mut sums);
    assert_eq!((sums.of[&0x20].own, sums.of[&0x20].all), (30, 30));
    assert_eq!((sums.of[&0x10].own, sums.of[&0x10].all), (5, 35));
}

/// Accesses this, as the callback has it, and marks which locks are held.
fn access(cpu: &mut Cpu, address: u64, flags: u8, in_lock: bool, sums: &mut Sums) {
    let mut counting = Counting::default();
    cpu.wrote(address, flags & ATOMIC != 0, in_lock, sums);
    if in_lock {
        cpu.mark(true, sums, &mut counting);
    }
    cpu.keep(address, What::new(1, 8, STORE | flags), &mut counting);
    cpu.mark(false, sums, &mut counting);
}

/// How many visits to 0x9000 lie in one hold with the one before, of one that is taken,
/// and again when it is `given` back or nobody saw that.
fn again(given: bool) -> u32 {
    let (mut cpu, mut sums) = (cpu(kind::FOREGROUND), Sums::new(2));
    cpu.open = true;
    for line in [0x8000, 0x9000, 0xa000, 0x9000] {
        cpu.enter_lock(Kind::Exclusive, 0x77);
        access(&mut cpu, 0x10, STORE | ATOMIC, true, &mut sums);
        for n in 0..20 {
            access(&mut cpu, 0x20000 + n * 64, 0, false, &mut sums);
        }
        access(&mut cpu, line, STORE, false, &mut sums);
        if given {
            access(&mut cpu, 0x10, STORE, false, &mut sums);
        }
    }
    cpu.settle(Outcome::Left, &mut Counting::default());
    let slots = cpu.own.tables.again.iter();
    let there = slots.filter(|slot| slot.key >> kind::BITS == 0x9000 >> 6);
    there.map(|slot| slot.visits).sum()
}

#[test]
fn who_takes_a_lock_again_had_given_it_back_whether_that_was_seen_or_not() {
    assert_eq!([again(true), again(false)], [0, 0]);
}

#[test]
fn what_is_done_with_a_lock_is_under_it_however_late_it_is_counted() {
    for outcome in [Outcome::Work, Outcome::Left] {
        let (mut cpu, mut sums) = (cpu(kind::FOREGROUND), Sums::new(2));
        let mut counting = Counting::default();
        cpu.open = true;
        access(&mut cpu, 0x1000, 0, false, &mut sums);
        cpu.enter_lock(Kind::Exclusive, 0);
        access(&mut cpu, 0x2000, ATOMIC, true, &mut sums);
        access(&mut cpu, 0x3000, 0, false, &mut sums);
        cpu.settle(outcome, &mut counting);
        access(&mut cpu, 0x4000, 0, false, &mut sums);
        cpu.enter_lock(Kind::Shared, 0);
        access(&mut cpu, 0x5000, ATOMIC, true, &mut sums);
        access(&mut cpu, 0x2000, 0, false, &mut sums);
        access(&mut cpu, 0x6000, 0, false, &mut sums);
        cpu.settle(outcome, &mut counting);
        let slots = cpu.own.tables.visits_under.iter();
        let found: Vec<_> = slots
            .map(|s| (s.key >> kind::BITS << 6, sums.sets.of(s.set), s.visits))
            .collect();
        let lock: &[u64] = &[0x2000];
        let under = [0x2000, 0x3000, 0x4000, 0x5000].map(|line| (line, lock, 1));
        assert_eq!(found, under);
    }
}

#[test]
fn what_spins_is_no_work_in_either_kind() {
    let mut own = cpu(kind::FOREGROUND);
    assert_eq!((own.run(7, false), own.run(9, true)), (7, 0));
    let summary = &own.own.summary;
    assert_eq!(summary.kernel_instructions, 7);
    assert_eq!(summary.spinning_instructions, 9);
    let mut late = cpu(kind::DEFERRED);
    assert_eq!((late.run(7, false), late.run(9, true)), (7, 0));
    let summary = &late.own.summary;
    assert_eq!(summary.deferred_instructions, 7);
    assert_eq!(summary.background_instructions, 7);
    assert_eq!((own.clock, late.clock), (7, 7));
    let mut other = cpu(kind::BACKGROUND);
    assert_eq!(other.run(9, true), 9);
    assert_eq!(
        (other.own.summary.background_instructions, other.clock),
        (9, 0)
    );
}
