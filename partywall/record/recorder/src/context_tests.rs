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
    assert_eq!(t.working_thread(0, 0), Some(0xffff_c900_0001_0000));
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

const ONE: Cause = Cause {
    container: 1,
    call: 44,
};

#[test]
fn what_a_container_left_for_later_is_its_deferred_work() {
    let (mut t, mut tasks) = (Tracker::new(0x4000), Tasks::default());
    t.stack_at(0xffff_c900_0001_3ff8);
    t.kernel_thread(&mut tasks);
    t.enter(WORK);
    assert_eq!(kind_of(t.current()), kind::BACKGROUND);
    assert_eq!(t.cause(1), None);
    assert!(t.begin(caused::What::Work, ONE));
    assert_eq!(t.current(), WORKED + 44);
    assert_eq!(kind_of(t.current()), kind::DEFERRED);
    // What it leaves in turn is the same one's, wherever it runs.
    assert_eq!(t.cause(2), Some(ONE));
    // Elsewhere it is that container's too, whichever thread does it.
    let elsewhere = (1 << 14) + 2;
    assert_eq!(
        [t.working_thread(1, 0), t.working_thread(2, 0)],
        [None, Some(elsewhere)]
    );
    assert_eq!(container_of(elsewhere), Some(1));
    // Softirqs that it turns on are its own, those after an interrupt are not.
    t.softirq();
    assert_eq!(t.current(), WORKED + 44);
    assert_eq!(t.cause(2), Some(ONE));
    t.softirq_end();
    t.irq();
    t.softirq();
    assert_eq!((t.current(), t.cause(1)), (SOFTIRQ, None));
    assert_eq!(t.working_thread(2, 0), None);
    t.softirq_end();
    t.exception_return();
    assert_eq!(t.current(), WORKED + 44);
    t.leave_work(WORK);
    assert_eq!((t.current(), t.cause(1)), (TASK, None));
}

#[test]
fn callbacks_of_one_batch_are_each_its_own_ones() {
    let mut t = Tracker::new(0x4000);
    t.user();
    t.syscall_entry();
    t.syscall(7);
    t.irq();
    t.softirq();
    t.enter(CALLBACK);
    assert_eq!(kind_of(t.current()), kind::BACKGROUND);
    t.next_callback();
    assert!(t.begin(caused::What::Callback, ONE));
    assert_eq!(t.current(), CALLED_BACK + 44);
    assert_eq!(
        [t.working_thread(1, 5), t.working_thread(2, 5)],
        [None, Some((6 << 14) + 2)]
    );
    t.next_callback();
    assert_eq!(t.current(), CALLBACK);
    assert!(t.begin(caused::What::Callback, Cause::ALL));
    assert_eq!(t.current(), CALLED_BACK + caused::OTHER);
    assert_eq!(t.working_thread(1, 5), Some(6 << 14));
    assert_eq!(container_of(6 << 14), None);
    t.leave_work(CALLBACK);
    t.softirq_end();
    t.exception_return();
    assert_eq!(t.current(), SYSCALL + 7);
    // No batch was seen to begin.
    assert!(!t.begin(caused::What::Callback, ONE));
    assert_eq!(t.current(), SYSCALL + 7);
}

#[test]
fn who_leaves_something_for_later_is_its_cause() {
    let (mut t, mut tasks) = (Tracker::new(0x4000), Tasks::default());
    let cause = |container, call| Some(Cause { container, call });
    t.user();
    assert_eq!(t.cause(3), cause(3, caused::OTHER));
    t.syscall_entry();
    t.syscall(7);
    assert_eq!(t.cause(3), cause(3, 7));
    t.softirq();
    assert_eq!(t.cause(3), cause(3, 7));
    t.softirq_end();
    t.irq();
    assert_eq!(t.cause(3), None);
    t.stack_at(0xffff_c900_0001_3ff8);
    t.kernel_thread(&mut tasks);
    assert_eq!(t.cause(3), None);
    // Work that is charged by name is nobody's alone.
    t.enter(WORK);
    t.begin(caused::What::Work, ONE);
    t.enter(CHARGED + 1);
    assert_eq!(t.cause(3), Some(Cause::ALL));
    t.leave_charged(1);
    assert_eq!(t.cause(3), Some(ONE));
}
