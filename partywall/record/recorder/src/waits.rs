// SPDX-License-Identifier: GPL-2.0-or-later
//! Waiting told from work: rounds of a loop that only another CPU could end.
//!
//! While a CPU runs no other one does, so what it reads again and again can't change,
//! and how many rounds it makes is the emulator's choice. What it does in the
//! foreground is kept back here, and looked at when another CPU takes over: if it ends
//! with rounds that are the same, code and addresses, to the last access, the loop did
//! not end by itself while it could, and all rounds but the first are waiting. A loop
//! that reads another address in each round is work, and so is one that ends before
//! another CPU runs, whatever it counts in registers.

/// Events kept back at most.
const ROOM: usize = 1 << 14;

/// Events that are done with but remembered, for a loop in which CPUs take turns.
const REMEMBERED: usize = 1 << 10;

/// Rounds from which on a loop waits; with PAUSE in it the code says so itself.
const ROUNDS: usize = 3;
const ROUNDS_WITH_PAUSE: usize = 2;

pub const STORE: u8 = 1;
pub const ATOMIC: u8 = 2;
/// On the stack of the task that runs.
pub const OWN_STACK: u8 = 4;
/// A block of code begins; `address` holds how many instructions it has.
pub const BLOCK: u8 = 8;
/// A block with PAUSE in it.
pub const PAUSE: u8 = 16;
/// Something after which a loop is not the same again.
const STEP: u8 = 32;

/// A block that is run, or an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub address: u64,
    /// What it is an event of, for who gets it back; compared, not looked into.
    pub origin: usize,
    pub site: u32,
    pub size: u8,
    pub flags: u8,
}

impl Event {
    /// A read of memory that another CPU might write.
    fn reads(&self) -> bool {
        self.flags & (STORE | OWN_STACK | BLOCK | STEP) == 0
    }
}

/// What one CPU does in the foreground, since it was last seen to get on.
#[derive(Default)]
pub struct Waits {
    events: Vec<Event>,
    /// Events at the beginning that are done with.
    done: usize,
    steps: u64,
}

/// The rounds that `events` end with.
#[derive(Debug, PartialEq, Eq)]
struct Rounds {
    /// Events of a round.
    period: usize,
    /// Events of all rounds; the first may be seen from its middle on.
    length: usize,
}

/// Return the rounds in which `events` wait; None if they end with work.
fn waiting(events: &[Event]) -> Option<Rounds> {
    let last = *events.last()?;
    (1..=events.len() / ROUNDS_WITH_PAUSE).find_map(|period| {
        let before = &events[..events.len() - period];
        if before.last() != Some(&last) {
            return None;
        }
        let round = &events[before.len()..];
        let same = before
            .iter()
            .rev()
            .zip(events.iter().rev())
            .take_while(|(a, b)| a == b)
            .count();
        let pauses = round.iter().any(|e| e.flags & PAUSE != 0);
        let rounds = if pauses { ROUNDS_WITH_PAUSE } else { ROUNDS };
        let long = same + period >= rounds * period;
        (long && round.iter().any(Event::reads)).then_some(Rounds {
            period,
            length: same + period,
        })
    })
}

impl Waits {
    /// Keep an event back. False if there is no room for another one: `settle` first,
    /// or `full` if no other CPU has run.
    #[inline(always)]
    pub fn push(&mut self, event: Event) -> bool {
        self.events.push(event);
        if event.flags & (STORE | ATOMIC) == STORE | ATOMIC {
            // What it writes, others wait for; and whether it had what it tried to
            // get can't be seen.
            self.step();
        }
        self.events.len() < ROOM
    }

    /// Something is done that a round can't do twice with the same outcome.
    #[inline(always)]
    pub fn step(&mut self) {
        self.steps += 1;
        self.events.push(Event {
            address: self.steps,
            origin: 0,
            site: 0,
            size: 0,
            flags: STEP,
        });
    }

    /// Whether something is kept back.
    #[inline(always)]
    pub fn is_pending(&self) -> bool {
        self.events.len() > self.done
    }

    /// Another CPU takes over, or an interrupt: hands what was work to `work`, and
    /// returns how many instructions were not.
    pub fn settle(&mut self, work: impl FnMut(&Event)) -> u64 {
        let rounds = waiting(&self.events);
        let kept = match &rounds {
            Some(r) => self.events.len() - r.length + r.period,
            None => self.events.len(),
        };
        let waited = self.give(kept.max(self.done), work);
        let remembered = rounds.map_or(REMEMBERED, |r| r.period.max(REMEMBERED));
        self.forget(remembered);
        waited
    }

    /// Hands events up to `kept` to `work`, and drops the others.
    fn give(&mut self, kept: usize, work: impl FnMut(&Event)) -> u64 {
        let given = &self.events[self.done..kept];
        given.iter().filter(|e| e.flags & STEP == 0).for_each(work);
        self.done = self.events.len();
        let dropped = self.events[kept..].iter();
        let blocks = dropped.filter(|e| e.flags & BLOCK != 0);
        blocks.map(|e| e.address).sum()
    }

    /// Forgets all but the last `count` events.
    fn forget(&mut self, count: usize) {
        let first = self.done.min(self.events.len().saturating_sub(count));
        self.events.drain(..first);
        self.done -= first;
    }

    /// There is no room: as `settle` if the rounds fill half of it, and else keeps
    /// back only the rounds that it ends with.
    #[cold]
    pub fn full(&mut self, work: impl FnMut(&Event)) -> u64 {
        match waiting(&self.events) {
            Some(rounds) if rounds.length >= ROOM / 2 => self.settle(work),
            rounds => {
                let end = self.events.len();
                let kept = end - rounds.map_or(0, |r| r.length);
                let kept = kept.max(self.done);
                let given = &self.events[self.done..kept];
                given.iter().filter(|e| e.flags & STEP == 0).for_each(work);
                self.done = kept;
                self.forget(REMEMBERED.max(end - kept));
                0
            }
        }
    }

    /// The CPU got on: all was work, and no loop goes on.
    #[inline(always)]
    pub fn clear(&mut self, work: impl FnMut(&Event)) {
        if !self.events.is_empty() {
            self.give(self.events.len(), work);
            self.events.clear();
            self.done = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: u64 = 0xffff_8880_0000_1000;
    const SHARED: u64 = 0xffff_8880_0000_2000;

    fn event(address: u64, origin: usize, flags: u8) -> Event {
        Event {
            address,
            origin,
            site: origin as u32,
            size: 8,
            flags,
        }
    }

    fn block(origin: usize) -> Event {
        event(10, origin, BLOCK)
    }

    fn load(address: u64) -> Event {
        event(address, 1, 0)
    }

    fn store(address: u64) -> Event {
        event(address, 2, STORE)
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
                    self.waited += self.waits.full(|e| self.work.push(*e));
                }
            }
        }

        fn rounds(&mut self, count: usize, round: &[Event]) {
            for _ in 0..count {
                self.does(round);
            }
        }

        fn left(&mut self) {
            self.waited += self.waits.settle(|e| self.work.push(*e));
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
        let blocks = run.work.iter().filter(|e| e.flags & BLOCK != 0).count();
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
        run.waits.clear(|e| run.work.push(*e));
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
}
