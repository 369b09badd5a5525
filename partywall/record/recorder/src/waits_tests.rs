// SPDX-License-Identifier: GPL-2.0-or-later
//! What is a wait, and what is work.

use super::*;
use crate::event::OWN_STACK;

const TASK: u64 = 0xffff_8880_0000_1000;
const SHARED: u64 = 0xffff_8880_0000_2000;

fn event(address: u64, origin: u32, flags: u8) -> Event {
    Event {
        address,
        what: What::new(origin, 8, flags),
    }
}

fn block(origin: u32) -> Event {
    event(10, origin, BLOCK)
}

fn load(address: u64) -> Event {
    event(address, 1, 0)
}

fn store(address: u64) -> Event {
    event(address, 2, STORE)
}

/// Takes down what is called work; steps are nobody's.
fn add(work: &mut Vec<Event>, events: &[Event]) {
    work.extend(events.iter().filter(|e| !e.what.is(STEP)));
}

/// What a CPU does, and what of it was called work.
#[derive(Default)]
struct Run {
    waits: Waits,
    work: Vec<Event>,
    waited: u64,
}

impl Run {
    fn does(&mut self, events: &[Event]) {
        for e in events {
            if !self.waits.push(*e) {
                self.waited += self.waits.full(|events| add(&mut self.work, events));
            }
        }
    }

    fn rounds(&mut self, count: usize, round: &[Event]) {
        for _ in 0..count {
            self.does(round);
        }
    }

    fn left(&mut self) {
        self.waited += self.waits.settle(|events| add(&mut self.work, events));
    }

    /// Asserts that all that was done is work, once another CPU takes over.
    fn all_work(mut self, count: usize) {
        self.left();
        assert_eq!((self.waited, self.work.len()), (0, count));
    }
}

/// A round as in `d_alloc_parallel`: counts in the task, a sequence, a chain.
fn retry() -> Vec<Event> {
    vec![
        block(1),
        load(TASK),
        store(TASK),
        load(SHARED),
        block(2),
        load(SHARED + 0x40),
        block(2), // the chain's next entry
        load(SHARED + 0x80),
        block(3),
        event(0x7fff, 3, OWN_STACK),
        load(TASK),
        store(TASK),
    ]
}

#[test]
fn rounds_that_only_another_cpu_ends_are_waiting_but_for_the_first() {
    let mut run = Run::default();
    run.does(&[block(9), load(0x99)]);
    run.rounds(100, &retry());
    run.left();
    assert_eq!(run.work.len(), 2 + retry().len());
    assert_eq!(run.waited, 99 * 40);
}

#[test]
fn a_long_round_is_remembered_though_nothing_is_done_before_it_is_left_again() {
    let mut round = vec![block(1)];
    round.extend((0..1499).map(|n| load(SHARED + n * 8)));
    let mut run = Run::default();
    run.rounds(4, &round);
    run.left(); // for an interrupt
    run.left(); // in which another CPU takes over
    run.rounds(2, &round);
    run.left();
    assert_eq!((run.work.len(), run.waited), (1500, 5 * 10));
}

#[test]
fn a_wait_goes_on_over_several_turns_and_is_counted_once() {
    let mut run = Run::default();
    run.rounds(50, &retry());
    run.does(&retry()[..5]); // it is left in the midst of a round
    run.left();
    for _ in 0..3 {
        run.does(&retry()[5..]);
        run.rounds(7, &retry());
        run.does(&retry()[..5]);
        run.left();
    }
    assert_eq!(run.work.len(), retry().len());
    // Now the value is another one.
    run.does(&[load(SHARED), block(8), load(0x40)]);
    run.left();
    assert_eq!(run.work.len(), retry().len() + 3);
    assert_eq!(run.waited, (50 + 3 * 8) * 40 + 20 - 40);
}

#[test]
fn a_wait_that_the_emulator_leaves_amid_a_block_is_one() {
    let mut run = Run::default();
    run.rounds(50, &retry());
    run.does(&[event(3, 11, BLOCK), load(TASK)]);
    run.left();
    assert_eq!(run.work.len(), retry().len());
    assert_eq!(run.waited, 49 * 40 + 3);
    // Whatever comes is no part of a round.
    for other in [
        [event(3, 11, BLOCK), load(0x40)],
        [event(30, 11, BLOCK), load(TASK)],
    ] {
        let mut run = Run::default();
        run.rounds(50, &retry());
        run.does(&other);
        run.all_work(50 * retry().len() + 2);
    }
}

#[test]
fn an_interrupt_in_a_wait_changes_nothing() {
    let mut run = Run::default();
    run.rounds(10, &retry());
    run.left(); // the interrupt, whose own work is no foreground
    run.rounds(10, &retry());
    run.left();
    assert_eq!((run.work.len(), run.waited), (retry().len(), 19 * 40));
}

#[test]
fn with_pause_the_emulator_lets_others_run_each_round() {
    let round = [event(10, 1, BLOCK | PAUSE), load(SHARED)];
    let mut run = Run::default();
    run.does(&[block(7), load(0x70)]);
    for _ in 0..40 {
        run.does(&round);
        run.left();
    }
    run.does(&[block(8), load(0x80)]);
    run.left();
    assert_eq!((run.work.len(), run.waited), (2 + 2 + 2, 39 * 10));
}

#[test]
fn a_wait_with_a_limit_counted_in_a_register_is_one_if_the_limit_is_not_met() {
    let mut run = Run::default();
    run.rounds(ROUNDS, &[block(1), load(SHARED)]);
    run.left();
    assert_eq!((run.work.len(), run.waited), (2, 20));
}

#[test]
fn a_wait_longer_than_what_can_be_kept_back_is_one() {
    let mut run = Run::default();
    run.rounds(10_000, &retry());
    run.does(&[block(8), load(0x80)]);
    run.left();
    assert!(run.work.len() < ROOM && run.waited > 350_000);
    assert_eq!(run.work.last(), Some(&load(0x80)));
    let blocks = run.work.iter().filter(|e| e.what.is(BLOCK)).count();
    assert_eq!(blocks as u64 * 10 + run.waited, 400_010);
}

#[test]
fn waits_within_waits_are_told() {
    // A lock's holder waits in turn; the inner loop is the one that is left.
    let mut run = Run::default();
    run.rounds(5, &[block(1), load(SHARED), block(2)]);
    run.rounds(5, &[block(3), load(SHARED + 0x40)]);
    run.left();
    assert_eq!(run.work.len(), 15 + 2);
    assert_eq!(run.waited, 40);
}

#[test]
fn a_loop_that_ends_by_itself_is_work() {
    let mut run = Run::default();
    run.rounds(100, &retry());
    run.does(&[block(4), load(0x80)]);
    run.all_work(100 * retry().len() + 2);
}

#[test]
fn a_loop_that_ends_with_the_system_call_is_work() {
    let mut run = Run::default();
    run.rounds(100, &retry());
    run.waits.clear(|events| add(&mut run.work, events));
    run.rounds(2, &retry());
    run.all_work(102 * retry().len());
}

#[test]
fn a_loop_over_other_addresses_is_work() {
    // A list, an array, two strings that are compared, a sweep by a string instruction.
    for streams in 1..3 {
        for step in [1, 8, 64, 4096] {
            let mut run = Run::default();
            for n in 0..200 {
                run.does(&[block(1), load(TASK)]);
                for stream in 0..streams {
                    let address = SHARED + stream * 0x10_0000 + n * step;
                    run.does(&[load(address), store(address)]);
                }
            }
            run.all_work(200 * (2 + 2 * streams as usize));
        }
    }
}

#[test]
fn a_loop_in_registers_or_on_its_own_stack_is_work() {
    let mut run = Run::default();
    run.rounds(500, &[block(1), block(2)]);
    run.rounds(500, &[block(3), event(0x7ff0, 3, OWN_STACK)]);
    run.all_work(2000);
}

#[test]
fn a_loop_that_tries_to_write_with_an_atomic_is_work() {
    let round = [
        block(1),
        event(SHARED, 1, ATOMIC),
        event(SHARED, 1, ATOMIC | STORE),
    ];
    let mut run = Run::default();
    run.rounds(100, &round);
    run.all_work(300);
}

#[test]
fn a_loop_over_the_programs_memory_is_work() {
    let mut run = Run::default();
    for _ in 0..100 {
        run.does(&[block(1), load(TASK)]);
        run.waits.step();
    }
    run.all_work(200);
}

#[test]
fn a_sweep_of_the_programs_memory_is_one_step() {
    let mut run = Run::default();
    run.does(&[block(1)]);
    for _ in 0..1_000_000 {
        run.waits.step();
    }
    assert_eq!(run.waits.events.len(), 2);
    run.does(&[block(1)]);
    run.waits.step();
    run.all_work(2);
}

#[test]
fn two_rounds_are_no_wait() {
    let mut run = Run::default();
    run.rounds(ROUNDS - 1, &retry());
    run.all_work((ROUNDS - 1) * retry().len());
}

#[test]
fn more_than_there_is_room_for_comes_back_whole_and_in_order() {
    let mut run = Run::default();
    let all: Vec<Event> = (0..5 * ROOM as u64).map(load).collect();
    run.does(&all);
    run.left();
    assert!(run.work == all && run.waited == 0);
}

#[test]
fn a_loop_that_ends_by_itself_is_work_though_there_was_no_room() {
    let mut run = Run::default();
    let all: Vec<Event> = (0..ROOM as u64 - 300).map(load).collect();
    run.does(&all);
    run.rounds(60, &retry()); // there is no room amid these
    run.does(&[block(4)]);
    run.left();
    assert_eq!(run.waited, 0);
    assert_eq!(run.work.len(), all.len() + 60 * retry().len() + 1);
}
