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

use crate::event::{Event, What, ATOMIC, BLOCK, PAUSE, STEP, STORE};

/// Events kept back at most.
const ROOM: usize = 1 << 14;

/// Events that are done with but remembered, for a loop in which CPUs take turns.
const REMEMBERED: usize = 1 << 10;

/// Rounds from which on a loop waits; with PAUSE in it the code says so itself.
const ROUNDS: usize = 3;
const ROUNDS_WITH_PAUSE: usize = 2;

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
///
/// An emulator that counts instructions ends a CPU's time at one of them: it runs only
/// the first ones of the last block, which is another block then.
fn waiting(events: &[Event]) -> Option<Rounds> {
    same_rounds(events).or_else(|| {
        let cut = events.iter().rposition(|e| e.what.is(BLOCK))?;
        let (whole, part) = events.split_at(cut);
        let rounds = same_rounds(whole)?;
        let next = &whole[cut - rounds.period..];
        let goes_on = part[0].address < next[0].address && next[1..].starts_with(&part[1..]);
        goes_on.then_some(Rounds {
            length: rounds.length + part.len(),
            ..rounds
        })
    })
}

/// Return the rounds of whole blocks that `events` end with, if they wait in these.
fn same_rounds(events: &[Event]) -> Option<Rounds> {
    let last = *events.last()?;
    // A round reads, so it goes back to the last read at least.
    let shortest = events.iter().rev().position(Event::reads)? + 1;
    (shortest..=events.len() / ROUNDS_WITH_PAUSE).find_map(|period| {
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
        // Most periods are none: only of what comes twice is it asked whether it pauses.
        let long = same + period >= ROUNDS * period
            || same + period >= ROUNDS_WITH_PAUSE * period
                && round.iter().any(|e| e.what.is(PAUSE));
        long.then_some(Rounds {
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
        if event.what.is(STORE) && event.what.is(ATOMIC) {
            // What it writes, others wait for; and whether it had what it tried to
            // get can't be seen.
            self.step();
        }
        self.events.len() < ROOM
    }

    /// Something is done that a round can't do twice with the same outcome.
    #[inline(always)]
    pub fn step(&mut self) {
        // Two in a row say what one does, and who clears a program's pages makes millions.
        if matches!(self.events.last(), Some(e) if e.what.is(STEP)) {
            return;
        }
        self.steps += 1;
        self.events.push(Event {
            address: self.steps,
            what: What::new(0, 0, STEP),
        });
    }

    /// Whether something is kept back.
    #[inline(always)]
    pub fn is_pending(&self) -> bool {
        self.events.len() > self.done
    }

    /// Another CPU takes over, or an interrupt: hands what was work to `work`, and
    /// returns how many instructions were not.
    pub fn settle(&mut self, work: impl FnMut(&[Event])) -> u64 {
        if !self.is_pending() {
            return 0;
        }
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
    fn give(&mut self, kept: usize, mut work: impl FnMut(&[Event])) -> u64 {
        work(&self.events[self.done..kept]);
        self.done = self.events.len();
        let dropped = self.events[kept..].iter();
        let blocks = dropped.filter(|e| e.what.is(BLOCK));
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
    pub fn full(&mut self, mut work: impl FnMut(&[Event])) -> u64 {
        match waiting(&self.events) {
            Some(rounds) if rounds.length >= ROOM / 2 => self.settle(work),
            rounds => {
                let end = self.events.len();
                let kept = end - rounds.map_or(0, |r| r.length);
                let kept = kept.max(self.done);
                work(&self.events[self.done..kept]);
                self.done = kept;
                self.forget(REMEMBERED.max(end - kept));
                0
            }
        }
    }

    /// The CPU got on: all was work, and no loop goes on.
    #[inline(always)]
    pub fn clear(&mut self, work: impl FnMut(&[Event])) {
        if !self.events.is_empty() {
            self.give(self.events.len(), work);
            self.events.clear();
            self.done = 0;
            // No step is kept that a number could be taken for, and what is done again has the
            // same ones again.
            self.steps = 0;
        }
    }
}

#[cfg(test)]
#[path = "waits_tests.rs"]
mod tests;
