// SPDX-License-Identifier: GPL-2.0-or-later
//! Work that a party does again and again: counted a few times, and then only compared.
//!
//! A program that makes one system call in a loop makes the same accesses each time. What that
//! adds to the tables depends on what was done shortly before, so the first two rounds are
//! counted as they come: the first finds what others left, the second what the first one did. From the
//! third on each round finds what the last one left and leaves the same, and adds the same
//! numbers, with one exception that `Tables::repeat` looks for. As long as nobody else runs it is enough to count the rounds; when the loop ends or
//! somebody else is to run, `Tables::repeat` makes up for them.

use crate::event::Event;
use crate::table::Tables;
use crate::turns::{Owners, NOBODY};
use crate::under::Held;
use std::collections::VecDeque;

/// Stretches that a round has at most.
const PERIODS: usize = 16;

/// Events of a stretch at most: those of longer ones are not kept.
const ROOM: usize = 1 << 13;

/// What tables are told, after a stretch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Hold(Held),
    /// Up to which of the stretch's events, and what is held when they are counted.
    Count {
        context: u16,
        kind: u64,
        end: usize,
        held: Held,
    },
}

/// What one party does between two calls of `begin`.
#[derive(Clone, Default)]
pub struct Stretch {
    ops: Vec<Op>,
    events: Vec<Event>,
}

impl Stretch {
    fn clear(&mut self) {
        self.ops.clear();
        self.events.clear();
    }

    fn is(&self, other: &Stretch) -> bool {
        self.ops == other.ops && same(&self.events, &other.events)
    }

    /// Number of its events.
    pub fn count(&self) -> usize {
        self.events.len()
    }

    /// Does so many of its steps.
    fn some(&self, steps: usize, tables: &mut Tables, owners: &mut Owners) {
        tables.begin();
        let mut from = 0;
        for op in &self.ops[..steps] {
            match *op {
                Op::Hold(held) => tables.hold(held),
                Op::Count {
                    context, kind, end, ..
                } => {
                    tables.count(&self.events[from..end], context, kind, owners);
                    from = end;
                }
            }
        }
    }

    /// Does all of it.
    pub fn all(&self, tables: &mut Tables, owners: &mut Owners) {
        self.some(self.ops.len(), tables, owners);
    }
}

/// Whether they are the same, to the last byte.
fn same(one: &[Event], other: &[Event]) -> bool {
    // Two words each, and nothing between them.
    const _: () = assert!(std::mem::size_of::<Event>() == 16);
    // SAFETY: an event is two words without padding, and the slices are as long as they say.
    let bytes = |of: &[Event]| unsafe {
        std::slice::from_raw_parts(of.as_ptr() as *const u8, std::mem::size_of_val(of))
    };
    bytes(one) == bytes(other)
}

/// A round that is done again, and how far.
struct Again {
    /// Stretches of the round: those done last.
    period: usize,
    /// Whole rounds that were only compared.
    times: u32,
    /// The stretch that goes on, and what was done of it.
    at: usize,
    op: usize,
    event: usize,
    held: Held,
}

/// What the party that runs did last, and whether that is done again.
#[derive(Default)]
pub struct Cycles {
    /// The party's number among `Owners`; `NOBODY`: nothing is known of any.
    party: u32,
    /// Stretches that are over, the last one in front.
    done: VecDeque<Stretch>,
    spare: Vec<Stretch>,
    /// The one that goes on; and whether all of it is there.
    now: Stretch,
    whole: bool,
    /// `alike[n]`: how many of the last stretches are the same as those n + 1 earlier.
    alike: [usize; PERIODS],
    again: Option<Again>,
    /// Rounds that were counted at once.
    #[cfg(test)]
    at_once: u32,
}

impl Cycles {
    /// The number of the party that is followed, or `NOBODY`.
    #[inline(always)]
    pub fn party(&self) -> u32 {
        self.party
    }

    /// Another party is followed. What the last one did has to be settled.
    pub fn follow(&mut self, party: u32) {
        debug_assert!(self.again.is_none());
        self.party = party;
    }

    /// A stretch begins.
    pub fn begin(&mut self, tables: &mut Tables, owners: &mut Owners) {
        if let Some(again) = &mut self.again {
            if again.op == self.done[again.period - 1 - again.at].ops.len() {
                again.at += 1;
                again.op = 0;
                again.event = 0;
                if again.at == again.period {
                    again.at = 0;
                    again.times += 1;
                }
                return;
            }
            self.settle(tables, owners);
        }
        match self.round() {
            Some(period) => {
                self.again = Some(Again {
                    period,
                    times: 0,
                    at: 0,
                    op: 0,
                    event: 0,
                    held: tables.held(),
                })
            }
            None => tables.begin(),
        }
        self.whole = true;
    }

    /// The stretch that went on is over. Returns of how many a round is, if the last one was as
    /// the one before it.
    fn round(&mut self) -> Option<usize> {
        if !self.whole {
            self.forget();
            return None;
        }
        for (n, alike) in self.alike.iter_mut().enumerate() {
            let again = self.done.get(n).map_or(false, |then| self.now.is(then));
            *alike = if again { *alike + 1 } else { 0 };
        }
        if self.done.len() == PERIODS {
            self.spare.extend(self.done.pop_back());
        }
        let mut next = self.spare.pop().unwrap_or_default();
        next.clear();
        self.done.push_front(std::mem::replace(&mut self.now, next));
        (1..=PERIODS).find(|period| self.alike[period - 1] >= *period)
    }

    /// What is held when the next of the events begins.
    pub fn hold(&mut self, held: Held, tables: &mut Tables, owners: &mut Owners) {
        if held == self.held(tables) {
            return;
        }
        if let Some(again) = &mut self.again {
            let then = &self.done[again.period - 1 - again.at];
            if then.ops.get(again.op) == Some(&Op::Hold(held)) {
                again.op += 1;
                again.held = held;
                return;
            }
            self.settle(tables, owners);
        }
        tables.hold(held);
        if self.whole {
            self.now.ops.push(Op::Hold(held));
        }
    }

    /// What is held after all that was counted.
    pub fn held(&self, tables: &Tables) -> Held {
        self.again.as_ref().map_or(tables.held(), |a| a.held)
    }

    /// Counts what was done in a context, as `Tables::count` does.
    pub fn count(
        &mut self,
        events: &[Event],
        context: u16,
        kind: u64,
        tables: &mut Tables,
        owners: &mut Owners,
    ) {
        if events.is_empty() {
            return;
        }
        if let Some(again) = &mut self.again {
            let then = &self.done[again.period - 1 - again.at];
            let from = again.event;
            match then.ops.get(again.op) {
                Some(Op::Count {
                    context: in_context,
                    kind: of_kind,
                    end,
                    held,
                }) if (*in_context, *of_kind) == (context, kind)
                    && same(&then.events[from..*end], events) =>
                {
                    again.op += 1;
                    again.event = *end;
                    again.held = *held;
                    return;
                }
                _ => self.settle(tables, owners),
            }
        }
        tables.count(events, context, kind, owners);
        if self.whole && self.now.events.len() + events.len() <= ROOM {
            self.now.events.extend_from_slice(events);
            self.now.ops.push(Op::Count {
                context,
                kind,
                end: self.now.events.len(),
                held: tables.held(),
            });
        } else {
            self.whole = false;
        }
    }

    /// Makes up for what was only compared. Nobody is followed any more.
    pub fn settle(&mut self, tables: &mut Tables, owners: &mut Owners) {
        debug_assert!(self.again.is_none() || tables.number() == self.party);
        if let Some(again) = self.again.take() {
            let round: Vec<&Stretch> = self.done.iter().take(again.period).rev().collect();
            let _at_once = tables.repeat(&round, again.times, owners);
            #[cfg(test)]
            {
                self.at_once += _at_once;
            }
            for stretch in &round[..again.at] {
                stretch.all(tables, owners);
            }
            round[again.at].some(again.op, tables, owners);
        }
        self.forget();
        self.party = NOBODY;
    }

    /// Nothing is known of what was done last.
    fn forget(&mut self) {
        self.spare.extend(self.done.drain(..));
        self.alike = [0; PERIODS];
        self.now.clear();
        self.whole = false;
    }
}

/// What all parties share while they are counted.
#[derive(Default)]
pub struct Counting {
    pub owners: Owners,
    pub cycles: Cycles,
}

#[cfg(test)]
#[path = "cycles_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "cycles_cpu_tests.rs"]
mod cpu_tests;
