// SPDX-License-Identifier: GPL-2.0-or-later
//! What is known of one vCPU, and of the parties that it works for.

use crate::context::Tracker;
use crate::event::{Event, What, OWN_STACK};
use crate::format::{kind, Summary};
use crate::table::Tables;
use crate::turns::Owners;
use crate::waits::Waits;

/// What a vCPU recorded, or a kernel thread in charged work on one vCPU.
pub struct Party {
    pub tables: Tables,
    pub summary: Summary,
}

impl Party {
    pub fn new(visit_distance: u64, number: u32, counts: usize, cpu: u32, thread: u64) -> Self {
        Party {
            tables: Tables::new(visit_distance, number),
            summary: Summary {
                cpu,
                thread,
                calls: vec![0; counts],
                ..Summary::default()
            },
        }
    }
}

/// What is known of work that was kept back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The CPU got on by itself.
    Work,
    /// Another CPU takes over, or an interrupt.
    Left,
    /// No room is left to keep it back.
    Full,
}

pub struct Cpu {
    pub tracker: Tracker,
    pub context: u16,
    /// Of the work that goes on, as `kind` has it.
    pub kind: u64,
    /// Between this CPU's start and stop markers.
    pub open: bool,
    pub own: Party,
    /// Threads seen in charged work here. A worker that moves between CPUs
    /// takes its stack along, which must not look as if CPUs shared it.
    pub threads: Vec<Party>,
    /// On whose account it works now: its own, or an index into threads.
    pub thread: Option<usize>,
    /// The call that led into each leaf function.
    pub callers: Vec<u64>,
    /// The string instruction that runs, and the lines it read and wrote last.
    pub repeating: u64,
    pub swept: [u64; 2],
    /// Instructions run in the foreground, but for those that spin.
    pub clock: u64,
    /// What it does for the workload, until it is known to be no waiting.
    pub waits: Waits,
}

impl Cpu {
    /// What it does for its workload is recorded in this CPU's own window; what the
    /// kernel does by itself, and charged work, as long as any window is open.
    #[inline(always)]
    pub fn records(&self) -> bool {
        self.open || self.kind == kind::BACKGROUND || self.thread.is_some()
    }

    #[inline(always)]
    pub fn foreground(&self) -> bool {
        self.kind == kind::FOREGROUND
    }

    /// Writes down what was kept back, as far as it was work.
    #[inline(never)]
    pub fn settle(&mut self, outcome: Outcome, owners: &mut Owners) {
        let party = match self.thread {
            None => &mut self.own,
            Some(index) => &mut self.threads[index],
        };
        let (context, kind) = (self.context, self.kind);
        let tables = &mut party.tables;
        let write = |events: &[Event]| tables.count(events, context, kind, owners);
        let waited = match outcome {
            Outcome::Work => {
                self.waits.clear(write);
                return;
            }
            Outcome::Left => self.waits.settle(write),
            Outcome::Full => self.waits.full(write),
        };
        if self.kind == kind::DEFERRED {
            party.summary.background_instructions -= waited;
            party.summary.deferred_instructions -= waited;
            return;
        }
        party.summary.kernel_instructions -= waited;
        party.summary.spinning_instructions += waited;
        self.clock -= waited;
    }

    /// Keeps work for the workload back.
    #[inline(always)]
    pub fn push(&mut self, event: Event, owners: &mut Owners) {
        if !self.waits.push(event) {
            self.settle(Outcome::Full, owners);
        }
    }

    /// An access of the task that runs.
    #[inline(always)]
    pub fn event(&self, address: u64, what: What) -> Event {
        let what = if self.tracker.on_own_stack(address) {
            what.with(OWN_STACK)
        } else {
            what
        };
        Event { address, what }
    }

    /// Keeps an access for the workload back.
    #[inline(always)]
    pub fn keep(&mut self, address: u64, what: What, owners: &mut Owners) {
        self.push(self.event(address, what), owners);
    }

    /// The account to write to.
    #[inline(always)]
    pub fn party(&mut self) -> &mut Party {
        match self.thread {
            None => &mut self.own,
            Some(index) => &mut self.threads[index],
        }
    }
}
