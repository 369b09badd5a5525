// SPDX-License-Identifier: GPL-2.0-or-later
//! What runs on whose behalf, as control flow tells.

use super::*;

#[test]
fn a_system_call_is_named_by_its_first_handler() {
    let mut t = Tracker::new(0x4000);
    t.user();
    t.syscall_entry();
    assert_eq!(t.current(), SYSCALL_UNKNOWN);
    t.syscall(62);
    t.syscall(200);
    assert_eq!(t.current(), SYSCALL + 62);
}

#[test]
fn an_interrupt_in_a_system_call_is_background_until_it_returns() {
    let mut t = Tracker::new(0x4000);
    t.user();
    t.syscall_entry();
    t.syscall(1);
    t.irq();
    assert!(!is_foreground(t.current()));
    t.softirq();
    t.exception(); // a fault in a softirq stays the softirq's
    assert_eq!(t.current(), SOFTIRQ);
    t.exception_return();
    t.softirq_end();
    t.exception_return();
    assert_eq!(t.current(), SYSCALL + 1);
}

#[test]
fn softirqs_that_a_system_call_runs_are_its_deferred_work() {
    let mut t = Tracker::new(0x4000);
    t.user();
    t.syscall_entry();
    t.syscall(44);
    t.softirq();
    assert_eq!(t.current(), DEFERRED + 44);
    assert!(is_deferred(t.current()) && !is_foreground(t.current()));
    t.irq();
    assert_eq!(t.current(), IRQ);
    t.exception_return();
    // One of the functions that run them calls the other.
    t.softirq();
    assert_eq!(t.current(), DEFERRED + 44);
    t.softirq_end();
    t.softirq_end();
    assert_eq!(t.current(), SYSCALL + 44);
    assert!(!is_deferred(SOFTIRQ) && !is_deferred(TASK));
    let kinds = [SYSCALL + 44, DEFERRED + 44, SOFTIRQ, TASK].map(kind_of);
    use kind::{BACKGROUND as B, DEFERRED as D, FOREGROUND as F};
    assert_eq!(kinds, [F, D, B, B]);
}

#[test]
fn no_number_of_a_system_call_reaches_another_context() {
    let mut t = Tracker::new(0x4000);
    t.user();
    t.syscall_entry();
    t.syscall(u16::MAX);
    assert!(is_foreground(t.current()));
    t.softirq();
    assert!(is_deferred(t.current()));
}

#[test]
fn calls_of_an_interrupt_and_of_another_task_are_not_those_of_what_goes_on() {
    let mut tasks = Tasks::default();
    let mut t = Tracker::new(0x4000);
    t.syscall_entry();
    *t.call() = 0x100;
    t.irq();
    *t.call() = 0x200;
    t.exception_return();
    assert_eq!(*t.call(), 0x100);
    t.switch_out(&mut tasks, 0x8010);
    t.switch_in(&mut tasks, 0xc010);
    *t.call() = 0x300;
    t.switch_out(&mut tasks, 0xc010);
    t.switch_in(&mut tasks, 0x8010);
    assert_eq!(*t.call(), 0x100);
}

#[test]
fn a_fault_from_user_code_is_the_workloads() {
    let mut t = Tracker::new(0x4000);
    t.user();
    t.exception();
    assert_eq!(t.current(), EXCEPTION);
    assert!(is_foreground(t.current()));
}

#[test]
fn a_switch_keeps_each_tasks_context() {
    let mut tasks = Tasks::default();
    let mut t = Tracker::new(0x4000);
    t.user();
    t.syscall_entry();
    t.syscall(7);
    t.switch_out(&mut tasks, 0xffff_c900_0000_3f00);
    t.switch_in(&mut tasks, 0xffff_c900_0001_3f00); // never seen: a thread
    assert!(!is_foreground(t.current()));
    let thread = t.current();
    t.enter(CHARGED);
    t.switch_out(&mut tasks, 0xffff_c900_0001_3e00);
    t.switch_in(&mut tasks, 0xffff_c900_0000_3f10);
    assert_eq!(t.current(), SYSCALL + 7);
    t.switch_out(&mut tasks, 0xffff_c900_0000_3f00);
    t.switch_in(&mut tasks, 0xffff_c900_0001_3e00);
    assert_eq!(t.current(), CHARGED);
    assert_eq!(t.working_thread(), Some(0xffff_c900_0001_0000));
    t.leave(CHARGED);
    assert_eq!(t.current(), thread);
    assert_eq!(
        tasks.stacks[(thread - TASK) as usize],
        0xffff_c900_0001_0000
    );
}

#[test]
fn a_stack_used_again_does_not_inherit_the_dead_tasks_context() {
    let mut tasks = Tasks::default();
    let mut t = Tracker::new(0x4000);
    t.user();
    t.syscall_entry();
    t.syscall(60);
    t.switch_out(&mut tasks, 0x1_0000);
    t.switch_in(&mut tasks, 0x2_0000);
    t.switch_out(&mut tasks, 0x2_0000);
    t.switch_in(&mut tasks, 0x1_0000);
    t.new_task();
    assert_eq!(t.current(), NEW_TASK);
}

#[test]
fn the_scheduler_is_background_until_the_task_that_called_it_goes_on() {
    let mut tasks = Tasks::default();
    let mut t = Tracker::new(0x4000);
    t.syscall_entry();
    t.syscall(7);
    t.enter(SCHEDULER);
    assert!(!is_foreground(t.current()));
    t.switch_out(&mut tasks, 0x8010);
    t.switch_in(&mut tasks, 0xc010);
    t.switch_out(&mut tasks, 0xc010);
    t.switch_in(&mut tasks, 0x8010);
    assert_eq!(t.current(), SCHEDULER);
    t.leave(SCHEDULER);
    assert_eq!(t.current(), SYSCALL + 7);
}

#[test]
fn the_stack_is_known_from_what_is_pushed_at_the_entry() {
    let mut t = Tracker::new(0x4000);
    assert!(!t.on_own_stack(0xffff_c900_0000_3f00));
    t.stack_at(0xffff_c900_0000_3ff8);
    assert!(t.on_own_stack(0xffff_c900_0000_0010));
    assert!(!t.on_own_stack(0xffff_c900_0000_4000));
}

#[test]
fn who_called_a_leaf_is_known_after_an_interrupt_that_called_it_too() {
    let (mut tasks, mut t) = (Tasks::default(), Tracker::new(0x4000));
    t.syscall_entry();
    *t.caller(3) = 0x100;
    t.irq();
    *t.caller(3) = 0x200;
    t.exception_return();
    assert_eq!((*t.caller(3), *t.caller(5)), (0x100, 0));
    t.switch_out(&mut tasks, 0x8010);
    t.switch_in(&mut tasks, 0xc010);
    *t.caller(3) = 0x300;
    t.switch_in(&mut tasks, 0x8010);
    assert_eq!(*t.caller(3), 0x100);
}
